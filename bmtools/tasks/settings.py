"""Settings of tasks; importing this costs nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from bmtools.errors import LAST_SEED, BmtoolsError, did_you_mean, require, setting
from bmtools.io.step import Step
from bmtools.recipes.settings import (
    FreezeConfig,
    LearningRateConfig,
    OptimizationConfig,
    RegularizationConfig,
)
from bmtools.records import JsonObject
from bmtools.settings import Settings, option

Scheme = Literal["bio", "bioul", "bilou", "iobes", "io"]


def split_names(names: str) -> list[str]:
    """List the names in a setting, which commas separate."""
    return [name.strip() for name in names.split(",") if name.strip()]


class TaskConfig(Settings, title="Any task"):
    """Settings of any task; each task extends them."""

    max_length: int = option(512, "Longest input in tokens, special tokens included; shorter where "
                                  "the model reads less.", least=8)

    @property
    def definition(self) -> JsonObject:
        """The fields of `TaskScoresConfig` by which `score-tasks` scores as fine-tuning does."""
        return {name: getattr(self, name) for name in ("types", "merge_types", "negative")
                if getattr(self, name, "")}


class HeadConfig(TaskConfig, title="A task with a choice of layers over the encoder"):
    """Settings of a task with a choice of layers over the encoder."""

    head: Literal["linear", "mlp", "bilstm"] = option(
        "linear", "Layers over the encoder; mlp and bilstm have `head_layers` below a linear one.")
    head_layers: int = option(1, "Hidden layers of mlp or bilstm.", least=1)
    head_size: int = option(512, "Width of a hidden layer; half of it each direction of an LSTM.",
                            least=2)
    head_dropout: float = option(0.5, "Dropout after hidden layers.", below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.head_size % 2 == 0, "head_size", self.head_size, "an even number")

    @property
    def is_plain(self) -> bool:
        """Whether the head is transformers' own."""
        return self.head == "linear"


class LabelConfig(HeadConfig, title="A task whose inputs or words have labels"):
    """Settings of a task whose inputs or words have labels."""

    loss: Literal["cross-entropy", "dice"] = option(
        "cross-entropy", "dice (Li et al. 2020, section 3.3, with the weight 1 - p of an example) "
                         "is hardly moved by easy examples of common labels.")
    class_weights: Literal["none", "balanced"] = option(
        "none", "balanced weighs a label's loss by the inverse of its share of the training set.")
    oversampling: float = option(
        0.0, "Share of the commonest label's inputs that those of other labels are repeated to "
             "reach; 1 balances the labels. An input with many labels counts for its rarest one.",
        most=1)


class NerConfig(LabelConfig, title="Named entity recognition"):
    """Settings of named entity recognition."""

    stride: int = option(
        128, "Tokens of a long text that a window repeats of the one before, half of a window at "
             "most; a word is tagged where it has most context.")
    types: str = option("", "Types of entities to find; empty for all of the training set.",
                        metavar="NAME,...")
    merge_types: str = option("", "One name for entities of every type.", metavar="NAME")
    overlapping: bool = option(
        False, "Tag each type apart, so that entities of different types may overlap.")
    scheme: Scheme = option(
        "bio", "Tags of an entity's words: bio (beginning, inside), bioul (also last and unit; "
               "bilou and iobes are other names of it) or io, which joins neighbours of one type.")
    tags: Literal["words", "tokens"] = option(
        "words", "What has a tag: a word, or each token, so that entities may begin and end inside "
                 "words where the tokenizer divides them.")
    label_pieces: Literal["first", "all"] = option(
        "first", "Tokens of a word that have a label in training. With the scheme bio, all adds "
                 "`subtoken_f1`, the F1 of entities as runs of tokens.")
    crf: bool = option(
        False, "Conditional random field over the words' tags, one a type with `overlapping`; what "
               "the scheme forbids is impossible.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.merge_types == self.merge_types.strip(), "merge_types",
                repr(self.merge_types), "a name without spaces around it")
        listed = [name.strip() for name in self.types.split(",")] if self.types else []
        require(all(listed) and len(set(listed)) == len(listed), "types", repr(self.types),
                "different names, such as Chemical,Disease")
        for name, needed in (("loss", "cross-entropy"), ("class_weights", "none"),
                             ("label_pieces", "first")):
            require(not self.crf or getattr(self, name) == needed, name, getattr(self, name),
                    f"{needed} beside {setting('crf')}, whose loss is that of sequences of words")

    @property
    def is_plain(self) -> bool:
        """Whether the head is transformers' own."""
        return super().is_plain and not self.crf

    @property
    def scores_subtokens(self) -> bool:
        """Whether runs of labelled tokens are scored, too, as BioBIT does with BIO tags."""
        return self.label_pieces == "all" and self.scheme == "bio" and not self.overlapping


class PicoConfig(NerConfig, title="PICO elements"):
    """Settings of PICO elements."""

    scheme: Scheme = option(
        "io", "Tags of an element's words, as in ner; EBM-NLP has no borders between neighbours.")

    @property
    def definition(self) -> JsonObject:
        """Scores are those of words."""
        return {**super().definition, "task": "pico"}


class ClassificationConfig(LabelConfig, title="Classification"):
    """Settings of classification."""

    negative: str = option(
        "", "Class that is no finding, such as a pair without a relation: F1 is over the others.",
        metavar="LABEL")
    metric_for_best_model: Literal["accuracy", "macro_f1", "micro_f1"] = option(
        "accuracy", "Score on the development set that chooses the epoch and the seed.")


class QaConfig(HeadConfig, title="Extractive question answering"):
    """Settings of extractive question answering."""

    max_length: int = option(384, "Longest window in tokens, of question, text and special tokens.")
    stride: int = option(128, "Tokens of the text that a window repeats of the one before.")
    max_answer_tokens: int = option(30, "Longest answer in tokens.", least=1)
    whole_words: bool = option(True, "Give no answer that begins or ends inside a word.")
    top_k: int = option(5, "Answers to give, best first, each text once.", least=1)
    no_answer: bool = option(False, "Learn and say that a text has no answer, as in SQuAD 2.0.")
    null_score_diff_threshold: float | None = option(
        None, "How much the score of no answer must exceed that of the best answer; by default the "
              "value with the best F1 on the development set.", least=float("-inf"))
    metric_for_best_model: Literal["f1", "exact_match", "strict_accuracy", "lenient_accuracy",
                                   "mrr"] = option(
        "f1", "Score on the development set that chooses the epoch and the seed; strict_accuracy, "
              "lenient_accuracy and mrr are BioASQ's.")


class RelationsConfig(LabelConfig, title="Relation extraction"):
    """Settings of relation extraction."""

    head_types: str = option("", "Types of entities that relations start from; empty for all.",
                             metavar="NAME,...")
    tail_types: str = option("", "Types of entities that they lead to, such as GENE-Y,GENE-N.",
                             metavar="NAME,...")
    directed: bool = option(False, "Tell heads from tails where the types do not; else each pair "
                                   "is read once, its entities in the order of the text.")
    within: Literal["record", "sentence"] = option(
        "record", "sentence pairs only entities of one sentence, and reads it alone; gold "
                  "relations between sentences count as missed.")
    types: str = option("", "Types of relations to learn; pairs of others are unrelated.",
                        metavar="NAME,...")
    no_relation_label: str = option("false", "Label of pairs without a relation.", metavar="LABEL")
    entities: Literal["dummy", "marked", "original"] = option(
        "dummy", "dummy puts placeholders in place of both entities, marked puts markers around "
                 "them, original leaves the text as it is.")
    placeholders: str = option(
        "", 'Names of head and tail, and of both where they overlap, such as "@CHEMICAL$ @GENE$ '
            '@CHEM-GENE$"; empty for their types as @TYPE$.', metavar="NAMES")
    markers: str = option(
        "[E1] [/E1] [E2] [/E2]", "Start and end of the head and of the tail. Those in brackets, "
                                 "[E1] or <subj>, are new tokens of the model; others are text.",
        metavar="NAMES")
    pooling: Literal["cls", "mentions", "mentions-mean", "starts"] = option(
        "cls", "States that the label is computed from: of the first token, the maximum or the "
               "mean over each entity's tokens, or of each start marker.")
    metric_for_best_model: Literal["micro_f1", "macro_f1", "weighted_f1"] = option(
        "micro_f1", "Score on the development set that chooses the epoch and the seed.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.no_relation_label), "no_relation_label", repr(self.no_relation_label),
                "a name")
        require(len(self.placeholders.split()) in (0, 2, 3), "placeholders",
                repr(self.placeholders), "names of head and tail, such as '@CHEMICAL$ @GENE$'")
        require(len(self.markers.split()) == 4, "markers", repr(self.markers),
                "four, such as '[E1] [/E1] [E2] [/E2]'")
        require(self.pooling != "starts" or self.entities == "marked", "pooling", "starts",
                f"cls, mentions or mentions-mean without {setting('entities')} marked")

    @property
    def is_plain(self) -> bool:
        """Whether the head is transformers' own."""
        return super().is_plain and self.pooling == "cls"

    @property
    def definition(self) -> JsonObject:
        """A pair that is read once has no direction."""
        return {**super().definition, "negative": self.no_relation_label,
                "undirected": not self.directed}


class MultilabelConfig(LabelConfig, title="Classification with any number of labels"):
    """Settings of classification with any number of labels."""

    threshold: float = option(0.5, "Probability from which a label is given; 0: the one that is "
                                   "best on the development set.", below=1)
    metric_for_best_model: Literal["micro_f1", "macro_f1", "example_f1",
                                   "record_micro_f1"] = option(
        "micro_f1", "Score on the development set that chooses the epoch, the seed and the "
                    "threshold: over documents (see `meta.document` of records), or over records.")


class SimilarityConfig(TaskConfig, title="The similarity of two texts"):
    """Settings of the similarity of two texts."""

    metric_for_best_model: Literal["pearson", "spearman"] = option(
        "pearson", "Score on the development set that chooses the epoch and the seed.")


# Defaults of fine-tuning where they differ from those of pretraining.
FINETUNE_DEFAULTS = {"learning_rate": 5e-5, "dropout": 0.1}
_DIGITS = 11  # of a seed; one with more is too large in any case
_SHOWN = 60  # characters of a wrong value in a message


class FinetuneConfig(Settings, title="Length and number of fine-tuning runs"):
    """Length and number of fine-tuning runs."""

    seeds: int = option(
        3, "Runs, each with the next seed; the best on the development set is kept.", least=1)
    seed_list: str = option(
        "", "Seeds of the runs instead, such as 13,42,100.", metavar="N,...")
    epochs: int = option(20, "Most passes over the training set.", least=1)
    eval_steps: int = option(
        0, "Steps between evaluations on the development set; 0: after each epoch.")
    patience: int = option(
        3, "Evaluations without a better score on the development set after which a run ends.",
        least=1)
    decay_to_best: bool = option(
        False, "If the best epochs come before the last, train all seeds again for their median "
               "number of epochs, so that the learning rate decays to its end there. The better "
               "runs on the development set are kept.")
    batch_size: int = option(16, "Inputs a step.", least=1)
    grid: str = option(
        "", "Settings to try, each with all seeds; the best mean on the development set is kept. "
            'Such as "batch-size=16,32 learning-rate=1e-5,3e-5", or blurb or bioptimus for those '
            'that a paper tried, also with changes: "blurb epochs=20".', metavar="NAME=X,...")
    dev_fold: int | None = option(
        None, "Number of the fold whose test part chooses epoch and grid settings for all others, "
              "whose dev parts are learned; by default each fold's dev part chooses its own.")

    def __post_init__(self) -> None:
        super().__post_init__()
        listed = split_names(self.seed_list)
        require(all(one.isdecimal() and int(one[:_DIGITS]) <= LAST_SEED for one in listed)
                and len(set(listed)) == len(listed), "seed_list", repr(self.seed_list[:_SHOWN]),
                f"different whole numbers up to {LAST_SEED}, such as 13,42,100")

    def seed_numbers(self, first: int) -> list[int]:
        """List the seeds of the runs, from `first` where they are not listed."""
        return [*map(int, split_names(self.seed_list))] or [*range(first, first + self.seeds)]


def uses_folds(sources: Mapping[str, object], config: FinetuneConfig) -> bool:
    """Test whether fine-tuning is over folds, whose directory is the training set.

    Args:
        sources: of `train` and perhaps `dev` and `test`; files, records or a directory of folds.
        config: whose `dev_fold` is for folds alone.

    Raises:
        ValueError: sets or settings that contradict each other.
    """
    train = sources["train"]
    folds = isinstance(train, str | PathLike) and Path(train).is_dir()
    require(folds or config.dev_fold is None, "dev_fold", config.dev_fold,
            "none without a directory of folds")
    require(folds or "dev" in sources, "dev", "none", "a set that chooses the epoch and the seed")
    for name in ("dev", "test"):
        require(not folds or name not in sources, name, sources.get(name),
                "none beside folds, each of which has its own")
    return folds


@dataclass(frozen=True)
class FinetunePlan:
    """Fine-tuning of one checkpoint on one task.

    Args:
        task: name of the task.
        config: its settings.
        model: checkpoint to start from.
        output: checkpoint to write.
        finetuning: length and number of runs.
        optimization: its seed is the first of the seeds.
        schedule: the learning rate over each run.
        regularization: towards the checkpoint's weights.
        freezing: of weights.
        overwrite: replace the content of the output directory.
        resume: continue an unfinished run, if there is one.
    """

    task: str
    config: TaskConfig
    model: Path
    output: Path
    finetuning: FinetuneConfig = field(default_factory=FinetuneConfig)
    optimization: OptimizationConfig = field(default_factory=OptimizationConfig)
    schedule: LearningRateConfig = field(default_factory=LearningRateConfig)
    regularization: RegularizationConfig = field(default_factory=RegularizationConfig)
    freezing: FreezeConfig = field(default_factory=FreezeConfig)
    overwrite: bool = False
    resume: bool = False
    step: Step = field(default_factory=Step, compare=False)

    def __post_init__(self) -> None:
        first, seeds = self.optimization.seed, self.finetuning.seeds
        require(bool(self.finetuning.seed_list) or first + seeds - 1 <= LAST_SEED, "seed", first,
                f"{LAST_SEED - seeds + 1} at most beside {setting('seeds')} {seeds}")

    def settings(self) -> JsonObject:
        """Return the settings of the task and of its fine-tuning by name."""
        return {"task": self.task, **asdict(self.config), **{
            name: value for part in PLAN_PARTS
            for name, value in asdict(getattr(self, part)).items()}}


PLAN_PARTS = {"finetuning": FinetuneConfig, "schedule": LearningRateConfig,
              "optimization": OptimizationConfig, "regularization": RegularizationConfig,
              "freezing": FreezeConfig}
"""Settings of every task's fine-tuning, by their field of `FinetunePlan`."""


class PredictConfig(Settings, title="Passage of records through a fine-tuned model"):
    """Passage of records through a fine-tuned model."""

    into: str = option(
        "predicted", "Key of the object that predictions are added as; the task's own, such as "
                     "entities or label, replaces the record's annotations, and relations of "
                     "replaced entities go.")
    max_length: int = option(0, "Longest input in tokens; 0 for the length it was trained with.")
    batch_size: int = option(32, "Inputs a pass.", least=1)
    device: str = option("auto", "Device of the model: auto (a GPU if there is one), cpu, cuda or "
                                 "cuda:N.", metavar="auto|cpu|cuda[:N]")
    precision: Literal["float32", "bf16", "fp16"] = option(
        "float32", "Data type of matrix products; in bf16 predictions move by its rounding.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.max_length == 0 or self.max_length >= 8, "max_length", self.max_length,
                "0, or 8 or more")


class TaskScoresConfig(Settings, title="Predictions"):
    """Predictions: where they are, and what they are predictions of.

    None takes the definition of the task that predictions carry.
    """

    task: Literal["ner", "pico", "relations", "classification", "multilabel", "similarity", "qa",
                  "factoid"] | None = option(
        None, "Whose metrics are computed: classification also of nli and yesno, BioASQ's factoid "
              "with the answers of a question's snippets merged; by default the task whose key "
              "gold records and predictions have.")
    predicted: str = option("predicted", "Key of the predictions: an object as `predict` writes "
                                         "it, or the task's own key.", metavar="KEY")
    negative: str | None = option(
        None, "Class that is no finding, such as a pair without a relation; it counts for accuracy "
              "alone, and F1 is over the others. By default the one that the model was trained "
              "with.", metavar="LABEL")
    types: str | None = option(
        None, "Types of entities or relations to score; all others are left out of gold and "
              "predictions. By default those that the model was trained with.",
        metavar="NAME,...")
    merge_types: str | None = option(
        None, "One name for entities of every type, in gold and predictions; by default the one "
              "that the model was trained with.", metavar="NAME")
    undirected: bool | None = option(
        None, "Relations join two entities whichever of them is the head; by default as the model "
              "was trained.")


# Gu et al. 2021 (BLURB), section 6.2, with five of its 2 to 60 epochs; Pavlova and Makhlouf 2023
# (BIOptimus), table 9, whose 5 to 11 epochs are what the development set chooses here.
NAMED = {"blurb": "learning_rate=1e-5,3e-5,5e-5 batch_size=16,32 epochs=2,5,10,20,60",
         "bioptimus": "learning_rate=1e-5,2e-5 batch_size=4,8,16"}

# The task reads the data, and chooses the kind of head, by its other settings.
_OF_SEEDS = frozenset({"loss", "class_weights", "oversampling", "head_layers", "head_size",
                       "head_dropout"})
_OF_ALL_RUNS = frozenset({"decay_to_best", "dev_fold", "grid", "precision", "seed", "seed_list",
                          "seeds", "tf32"})


def grid_plans(plan: FinetunePlan) -> Iterator[tuple[JsonObject, FinetunePlan]]:
    """Yield every combination of a plan's grid: its settings, and the plan with them.

    Without a grid that is the plan itself. If the learning rate does not depend on the number of
    epochs, the longest run contains the shorter ones, which are left out.

    Raises:
        BmtoolsError: an unknown setting, a value that cannot be read, or a value out of range.
    """
    known = {field.name: part for part in ("config", *PLAN_PARTS)
             for field in fields(getattr(plan, part))
             if (part != "config" or field.name in _OF_SEEDS) and field.name not in _OF_ALL_RUNS}
    axes: dict[str, list[Any]] = {}
    words = (NAMED.get(word, word) for word in plan.finetuning.grid.split())
    for axis in " ".join(words).split():
        name, equals, values = axis.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in known:
            meant = did_you_mean(name, known) if equals else ""
            raise BmtoolsError(f"{setting('grid')}: found {axis!r}, expected {' or '.join(NAMED)}, "
                               "or a setting and its values, such as learning_rate=1e-5,3e-5"
                               f"{meant and f'; {meant}'}")
        own = getattr(getattr(plan, known[name]), name)
        try:
            axes[name] = [type(own)(value) for value in values.split(",")]
        except ValueError as error:
            raise BmtoolsError(f"{setting('grid')}: found {axis!r}, expected values of {name} such "
                               f"as {own}") from error
    longest = max(axes.get("epochs", []), default=None)
    for combination in itertools.product(*axes.values()):
        chosen, changed = dict(zip(axes, combination, strict=True)), plan
        try:
            for name, value in chosen.items():
                part = replace(getattr(changed, known[name]), **{name: value})
                changed = replace(changed, **{known[name]: part})
        except ValueError as error:
            raise BmtoolsError(f"{setting('grid')}: {error}") from error
        if changed.schedule.depends_on_length or chosen.get("epochs") in (None, longest):
            yield chosen, changed
