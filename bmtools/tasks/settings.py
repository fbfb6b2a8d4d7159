"""Settings of tasks; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bmtools.errors import check_choices, require, require_at_least, setting

TruncationSide = Literal["right", "left"]
Scheme = Literal["bio", "bioul", "bilou", "iobes", "io"]


@dataclass(frozen=True)
class TaskConfig:
    """Settings of any task; each task extends them.

    Args:
        max_length: longest input in tokens, special tokens included.
    """

    max_length: int = 512

    def __post_init__(self) -> None:
        require_at_least(self, max_length=8)
        check_choices(self)


@dataclass(frozen=True)
class LabelConfig(TaskConfig):
    """Settings of a task whose inputs or words have labels.

    Args:
        max_length: longest input in tokens, special tokens included.
        loss: cross-entropy, or dice (Li et al. 2020, section 3.3, with the weight 1 - p of an
            example), which easy examples of common labels hardly move.
        class_weights: balanced weighs a label's loss by the inverse of its share of the training
            set.
        oversampling: share of the commonest label's inputs that those of every other label are
            repeated to reach; 1 balances the labels, 0 repeats nothing. An input with many labels
            counts for its rarest one.
    """

    loss: Literal["cross-entropy", "dice"] = "cross-entropy"
    class_weights: Literal["none", "balanced"] = "none"
    oversampling: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.oversampling <= 1, "oversampling", self.oversampling, "0 to 1")


@dataclass(frozen=True)
class TextConfig(TaskConfig):
    """Settings of a task over a text or a pair of texts.

    Args:
        max_length: longest input in tokens, special tokens included; shorter where the model reads
            less. The longer of two texts is truncated first.
        truncation_side: end at which texts that are too long lose tokens.
    """

    truncation_side: TruncationSide = "right"


@dataclass(frozen=True)
class NerConfig(LabelConfig):
    """Settings of named entity recognition.

    Args:
        max_length: longest window in tokens, special tokens included; shorter where the model
            reads less.
        types: types of entities to find, separated by commas; empty for all of the training set.
        merge_types: one name for entities of every type; empty keeps the types apart.
        overlapping: tag each type apart, so that entities of different types may overlap.
        scheme: tags of an entity's words: bio (beginning, inside), bioul (also last and unit;
            bilou and iobes are other names of it) or io, which joins neighbours of one type.
        label_pieces: tokens of a word that have a label in training: the first, or all, where an
            entity's later ones get that of its inside. A prediction is that of the first.
        head: layers over the encoder: linear, mlp (`head_layers` with ReLU below it) or bilstm
            (a bidirectional LSTM below it).
        head_layers: hidden layers of mlp or bilstm.
        head_size: width of a hidden layer; half of it each direction of an LSTM.
        head_dropout: dropout after hidden layers.
        crf: conditional random field over the words' tags, one a type with `overlapping`. What
            the scheme forbids is impossible. The scores of predictions are its marginals.
        protocol: strict, or biobit: labels on all pieces, and `subtoken_f1` is reported too, the
            F1 of entities as runs of tokens.
    """

    types: str = ""
    merge_types: str = ""
    overlapping: bool = False
    scheme: Scheme = "bio"
    label_pieces: Literal["first", "all"] = "first"
    head: Literal["linear", "mlp", "bilstm"] = "linear"
    head_layers: int = 1
    head_size: int = 512
    head_dropout: float = 0.5
    crf: bool = False
    protocol: Literal["strict", "biobit"] = "strict"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.merge_types == self.merge_types.strip(), "merge_types",
                repr(self.merge_types), "a name without spaces around it")
        listed = self.chosen_types
        require(not self.types or (all(listed) and len(set(listed)) == len(listed)), "types",
                repr(self.types), "different names, such as Chemical,Disease")
        require_at_least(self, head_layers=1, head_size=2)
        require(self.head_size % 2 == 0, "head_size", self.head_size, "an even number")
        require(0 <= self.head_dropout < 1, "head_dropout", self.head_dropout, "0 to below 1")
        beside = f"beside {setting('crf')}"
        require(not self.crf or self.loss == "cross-entropy", "loss", self.loss,
                f"cross-entropy {beside}, which has a loss of its own")
        require(not self.crf or self.class_weights == "none", "class_weights", self.class_weights,
                f"none {beside}, whose loss is that of whole sequences")
        require(not self.crf or not self.labels_all_pieces,
                "label_pieces" if self.label_pieces == "all" else "protocol",
                self.label_pieces if self.label_pieces == "all" else self.protocol,
                f"{'first' if self.label_pieces == 'all' else 'strict'} {beside}, whose "
                "sequences are words")
        require(self.protocol == "strict" or (self.scheme == "bio" and not self.overlapping),
                "protocol", self.protocol, f"strict beside {setting('overlapping')} or another "
                f"{setting('scheme')} than bio; BioBIT's labels are BIO tags, one a token")

    @property
    def chosen_types(self) -> list[str]:
        """Names of the types to find; none for all."""
        return [name.strip() for name in self.types.split(",")] if self.types else []

    @property
    def labels_all_pieces(self) -> bool:
        """Whether all tokens of a word have a label."""
        return self.label_pieces == "all" or self.protocol == "biobit"


@dataclass(frozen=True)
class PicoConfig(NerConfig):
    """Settings of PICO elements.

    Args:
        scheme: tags of an element's words: io, as EBM-NLP has no borders between neighbours, bio
            (beginning, inside) or bioul (also last and unit; also called bilou and iobes).
    """

    scheme: Scheme = "io"


@dataclass(frozen=True)
class ClassificationConfig(TextConfig, LabelConfig):
    """Settings of classification.

    Args:
        negative: class that is no finding, such as a pair without a relation: F1 is over the
            others, of two classes that of the other one; empty for none.
        metric_for_best_model: score on the development set that chooses the epoch and the seed.
    """

    negative: str = ""
    metric_for_best_model: Literal["accuracy", "macro_f1", "micro_f1"] = "accuracy"


@dataclass(frozen=True)
class YesNoConfig(ClassificationConfig):
    """Settings of yes/no questions.

    Args:
        max_length: longest input in tokens, of question, text and special tokens; shorter where the
            model reads less. The longer of the two is truncated first.
    """


@dataclass(frozen=True)
class QaConfig(TaskConfig):
    """Settings of extractive question answering.

    Args:
        max_length: longest window in tokens, of question, text and special tokens; shorter where
            the model reads less. Questions are truncated to half of it.
        stride: tokens of the text that a window repeats of the one before; at most half of those
            that fit beside the question.
        max_answer_tokens: longest answer in tokens.
        whole_words: give no answer that begins or ends inside a word.
        top_k: answers to give, best first, each text once.
        no_answer: learn and say that a text has no answer, as in SQuAD 2.0.
        null_score_diff_threshold: how much the score of no answer must exceed that of the best
            answer, with `no_answer`; by default the value with the best F1 on the development set.
        metric_for_best_model: score on the development set that chooses the epoch and the seed;
            strict_accuracy, lenient_accuracy and mrr are BioASQ's.
    """

    max_length: int = 384
    stride: int = 128
    max_answer_tokens: int = 30
    whole_words: bool = True
    top_k: int = 5
    no_answer: bool = False
    null_score_diff_threshold: float | None = None
    metric_for_best_model: Literal["f1", "exact_match", "strict_accuracy", "lenient_accuracy",
                                   "mrr"] = "f1"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, stride=0, max_answer_tokens=1, top_k=1)


@dataclass(frozen=True)
class RelationsConfig(LabelConfig):
    """Settings of relation extraction.

    Args:
        max_length: longest input in tokens, special tokens included; shorter where the model reads
            less. A longer text is cut around both entities.
        head_types: types of entities that relations start from, such as CHEMICAL; empty for all.
        tail_types: types of entities that they lead to, such as GENE-Y,GENE-N; empty for all.
        directed: tell heads from tails where the types do not; else each pair is read once, its
            entities in the order of the text.
        within: sentence pairs only entities of one sentence, and reads it alone; gold relations
            between sentences count as missed.
        types: types of relations to learn, such as CPR:3,CPR:4; empty for all.
        other_types: false takes pairs whose relations are all of other types for unrelated; drop
            leaves such pairs out of all sets.
        no_relation_label: label of pairs without a relation.
        entities: dummy puts placeholders in place of both entities, marked puts markers around
            them, original leaves the text as it is.
        placeholders: names of head and tail, and of both where they overlap, such as "@CHEMICAL$
            @GENE$ @CHEM-GENE$"; empty for their types as @TYPE$.
        markers: start and end of the head and of the tail. Those in brackets, [E1] or <subj>, are
            new tokens of the model, as is what the vocabulary cannot spell; others, such as
            "@ @ # #", are read as text.
        pooling: cls computes the label from the first token, mentions from the maximum over the
            tokens of each entity, starts from the start marker of each.
        metric_for_best_model: score on the development set that chooses the epoch and the seed.
    """

    head_types: str = ""
    tail_types: str = ""
    directed: bool = False
    within: Literal["record", "sentence"] = "record"
    types: str = ""
    other_types: Literal["false", "drop"] = "false"
    no_relation_label: str = "false"
    entities: Literal["dummy", "marked", "original"] = "dummy"
    placeholders: str = ""
    markers: str = "[E1] [/E1] [E2] [/E2]"
    pooling: Literal["cls", "mentions", "starts"] = "cls"
    metric_for_best_model: Literal["micro_f1", "macro_f1", "weighted_f1"] = "micro_f1"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.no_relation_label), "no_relation_label", repr(self.no_relation_label),
                "a name")
        require(len(self.placeholders.split()) in (0, 2, 3), "placeholders",
                repr(self.placeholders), "names of head and tail, such as '@CHEMICAL$ @GENE$'")
        require(len(self.markers.split()) == 4, "markers", repr(self.markers),
                "four, such as '[E1] [/E1] [E2] [/E2]'")
        require(self.pooling != "starts" or self.entities == "marked", "pooling", "starts",
                f"cls or mentions without {setting('entities')} marked")

    def names(self, field_name: str) -> frozenset[str]:
        """List the names of a setting, which commas separate."""
        return frozenset(name.strip() for name in getattr(self, field_name).split(",")
                         if name.strip())


@dataclass(frozen=True)
class MultilabelConfig(TextConfig, LabelConfig):
    """Settings of classification with any number of labels.

    Args:
        loss: binary cross-entropy of each label, or dice (Li et al. 2020, section 3.3, with the
            weight 1 - p of an example), which easy examples hardly move.
        class_weights: balanced lets the texts that have a label and those that lack it weigh as
            much in its loss, whatever their shares of the training set.
        threshold: probability from which a label is given. 0: of 0.05, 0.1 ... 0.95 the one that
            is best on the development set.
        metric_for_best_model: score on the development set that chooses the epoch, the seed and
            the threshold: over documents (see `meta.document` of records), or over records.
    """

    threshold: float = 0.5
    metric_for_best_model: Literal["micro_f1", "macro_f1", "example_f1",
                                   "record_micro_f1"] = "micro_f1"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.threshold < 1, "threshold", self.threshold, "0 to below 1")


@dataclass(frozen=True)
class SimilarityConfig(TextConfig):
    """Settings of the similarity of two texts.

    Args:
        metric_for_best_model: score on the development set that chooses the epoch and the seed.
    """

    metric_for_best_model: Literal["pearson", "spearman"] = "pearson"
