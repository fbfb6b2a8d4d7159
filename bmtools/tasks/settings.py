"""Settings of tasks; this module imports only light modules."""

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
    """List the names in a setting, separated by commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


class TaskConfig(Settings, title="Any task"):
    """Settings of any task; each task extends them."""

    max_length: int = option(512, "Maximum input length in tokens, including special tokens; "
                                  "shorter if the model's limit is lower.", least=8)

    @property
    def definition(self) -> JsonObject:
        """Fields of `TaskScoresConfig` with which `score-tasks` scores as fine-tuning does."""
        return {name: getattr(self, name) for name in ("types", "merge_types", "negative")
                if getattr(self, name, "")}


class HeadConfig(TaskConfig, title="A task with a choice of layers over the encoder"):
    """Settings of a task with a choice of layers over the encoder."""

    head: Literal["linear", "mlp", "bilstm"] = option(
        "linear", "Layers over the encoder; mlp and bilstm put `head_layers` under a linear layer.")
    head_layers: int = option(1, "Hidden layers of mlp or bilstm.", least=1)
    head_size: int = option(512, "Width of a hidden layer; each direction of an LSTM has half.",
                            least=2)
    head_dropout: float = option(0.5, "Dropout after hidden layers.", below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.head_size % 2 == 0, "head_size", self.head_size, "an even number")

    @property
    def is_plain(self) -> bool:
        """Whether the head is the standard one in transformers."""
        return self.head == "linear"


class LabelConfig(HeadConfig, title="A task whose inputs or words have labels"):
    """Settings of a task whose inputs or words have labels."""

    loss: Literal["cross-entropy", "dice"] = option(
        "cross-entropy", "dice (Li et al. 2020, section 3.3, with weight 1 - p for each example) "
                         "gives little weight to easy examples of frequent labels.")
    class_weights: Literal["none", "balanced"] = option(
        "none", "balanced weights a label's loss by the inverse of its share of the training set.")
    oversampling: float = option(
        0.0, "Repeat inputs with rare labels up to this share of the most frequent label's count; "
             "1 balances the labels. An input with several labels counts for the rarest one.",
        most=1)


class NerConfig(LabelConfig, title="Named entity recognition"):
    """Settings of named entity recognition."""

    stride: int = option(
        128, "Number of tokens by which windows of a long text overlap, at most half a window; "
             "a word is tagged in the window with the most context.")
    types: str = option("", "Types of entities to find; empty for all types in the training set.",
                        metavar="NAME,...")
    merge_types: str = option("", "One name that replaces all entity types.", metavar="NAME")
    overlapping: bool = option(
        False, "Tag each type separately, so that entities of different types may overlap.")
    scheme: Scheme = option(
        "bio", "Tags of an entity's words: bio (beginning, inside), bioul (also last and unit; "
               "also called bilou or iobes) or io, which joins adjacent entities of one type.")
    tags: Literal["words", "tokens"] = option(
        "words", "Tag each word, or each token, so that entities may begin and end inside words "
                 "where the tokenizer splits them.")
    label_pieces: Literal["first", "all"] = option(
        "first", "Tokens of a word that have a label in training. With scheme bio, all adds "
                 "`subtoken_f1`, the F1 of entities as runs of tokens.")
    crf: bool = option(
        False, "Conditional random field over the words' tags, one per type with `overlapping`; "
               "tag sequences that the scheme forbids are impossible.")

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
                    f"{needed}, because {setting('crf')} has a loss over sequences of words")

    @property
    def is_plain(self) -> bool:
        """Whether the head is the standard one in transformers."""
        return super().is_plain and not self.crf

    @property
    def scores_subtokens(self) -> bool:
        """Whether runs of labelled tokens are also scored, as in BioBIT with BIO tags."""
        return self.label_pieces == "all" and self.scheme == "bio" and not self.overlapping


class PicoConfig(NerConfig, title="PICO elements"):
    """Settings of PICO elements."""

    scheme: Scheme = option(
        "io", "Tags of an element's words, as in ner; EBM-NLP does not separate adjacent elements.")

    @property
    def definition(self) -> JsonObject:
        """Scores are computed over words."""
        return {**super().definition, "task": "pico"}


class ClassificationConfig(LabelConfig, title="Classification"):
    """Settings of classification."""

    negative: str = option(
        "", "Class excluded from F1 because it is not a finding, such as pairs without a relation.",
        metavar="LABEL")
    metric_for_best_model: Literal["accuracy", "macro_f1", "micro_f1"] = option(
        "accuracy", "Score on the development set that selects the epoch and the seed.")


class QaConfig(HeadConfig, title="Extractive question answering"):
    """Settings of extractive question answering."""

    max_length: int = option(384, "Maximum window length in tokens, question and text included.")
    stride: int = option(128, "Number of text tokens by which consecutive windows overlap.")
    max_answer_tokens: int = option(30, "Maximum answer length in tokens.", least=1)
    whole_words: bool = option(True, "Return only answers that begin and end at word boundaries.")
    top_k: int = option(5, "Number of answers to return, best first, without duplicates.", least=1)
    no_answer: bool = option(False, "Learn and predict that a text has no answer, as in SQuAD 2.0.")
    null_score_diff_threshold: float | None = option(
        None, "Margin by which the score for no answer must exceed the best answer's score; "
              "default: the value with the best F1 on the development set.", least=float("-inf"))
    metric_for_best_model: Literal["f1", "exact_match", "strict_accuracy", "lenient_accuracy",
                                   "mrr"] = option(
        "f1", "Score on the development set that selects the epoch and the seed; strict_accuracy, "
              "lenient_accuracy and mrr are defined by BioASQ.")


class RelationsConfig(LabelConfig, title="Relation extraction"):
    """Settings of relation extraction."""

    head_types: str = option("", "Entity types at the start of relations; empty for all.",
                             metavar="NAME,...")
    tail_types: str = option("", "Entity types at the end of relations, such as GENE-Y,GENE-N.",
                             metavar="NAME,...")
    directed: bool = option(False, "Distinguish head and tail if the types do not; otherwise each "
                                   "pair is read once, with its entities in text order.")
    within: Literal["record", "sentence"] = option(
        "record", "sentence pairs only entities in the same sentence and reads only that sentence; "
                  "gold relations between sentences count as missed.")
    types: str = option("", "Types of relations to learn; other types count as unrelated.",
                        metavar="NAME,...")
    no_relation_label: str = option("false", "Label of pairs without a relation.", metavar="LABEL")
    entities: Literal["dummy", "marked", "original"] = option(
        "dummy", "dummy replaces both entities by placeholders, marked puts markers around them, "
                 "original keeps the text unchanged.")
    placeholders: str = option(
        "", 'Placeholders for head and tail, and for overlapping ones, such as "@CHEMICAL$ @GENE$ '
            '@CHEM-GENE$"; by default their types as @TYPE$.', metavar="NAMES")
    markers: str = option(
        "[E1] [/E1] [E2] [/E2]", "Markers at the start and end of head and tail. Names in brackets "
                                 "such as [E1] or <subj> become new tokens; others remain text.",
        metavar="NAMES")
    pooling: Literal["cls", "mentions", "mentions-mean", "starts"] = option(
        "cls", "States used to predict the label: the first token, the maximum or mean over each "
               "entity's tokens, or the start markers.")
    metric_for_best_model: Literal["micro_f1", "macro_f1", "weighted_f1"] = option(
        "micro_f1", "Score on the development set that selects the epoch and the seed.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.no_relation_label), "no_relation_label", repr(self.no_relation_label),
                "a name")
        require(len(self.placeholders.split()) in (0, 2, 3), "placeholders",
                repr(self.placeholders), "names of head and tail, such as '@CHEMICAL$ @GENE$'")
        require(len(self.markers.split()) == 4, "markers", repr(self.markers),
                "four, such as '[E1] [/E1] [E2] [/E2]'")
        require(self.pooling != "starts" or self.entities == "marked", "pooling", "starts",
                f"cls, mentions or mentions-mean if {setting('entities')} is not marked")

    @property
    def is_plain(self) -> bool:
        """Whether the head is the standard one in transformers."""
        return super().is_plain and self.pooling == "cls"

    @property
    def definition(self) -> JsonObject:
        """Relations are undirected if each pair is read once."""
        return {**super().definition, "negative": self.no_relation_label,
                "undirected": not self.directed}


class MultilabelConfig(LabelConfig, title="Classification with any number of labels"):
    """Settings of classification with any number of labels."""

    threshold: float = option(0.5, "Minimum probability of predicted labels; 0: the value that is "
                                   "best on the development set.", below=1)
    metric_for_best_model: Literal["micro_f1", "macro_f1", "example_f1",
                                   "record_micro_f1"] = option(
        "micro_f1", "Score on the development set that selects the epoch, the seed and the "
                    "threshold, over documents (`meta.document` of records) or over records.")


class SimilarityConfig(TaskConfig, title="The similarity of two texts"):
    """Settings for the similarity of two texts."""

    metric_for_best_model: Literal["pearson", "spearman"] = option(
        "pearson", "Score on the development set that selects the epoch and the seed.")


# Defaults of fine-tuning that differ from pretraining.
FINETUNE_DEFAULTS = {"learning_rate": 5e-5, "dropout": 0.1}
_DIGITS = 11  # longest seed to parse; seeds with more digits are too large
_SHOWN = 60  # characters of a wrong value shown in a message


class FinetuneConfig(Settings, title="Length and number of fine-tuning runs"):
    """Length and number of fine-tuning runs."""

    seeds: int = option(
        3, "Runs with consecutive seeds; the best one on the development set is kept.", least=1)
    seed_list: str = option(
        "", "Seeds to use instead, such as 13,42,100.", metavar="N,...")
    epochs: int = option(20, "Maximum number of passes over the training set.", least=1)
    eval_steps: int = option(
        0, "Steps between evaluations on the development set; 0: once per epoch.")
    patience: int = option(
        3, "Stop after this number of evaluations without improvement on the development set.",
        least=1)
    decay_to_best: bool = option(
        False, "If the best epochs come before the last, train all seeds again for their median "
               "number of epochs, so that the learning rate decays to its end there. The runs that "
               "score better on the development set are kept.")
    batch_size: int = option(16, "Inputs per step.", least=1)
    grid: str = option(
        "", "Settings to try, each with all seeds; the best mean on the development set is kept. "
            'Example: "batch-size=16,32 learning-rate=1e-5,3e-5". blurb and bioptimus try the '
            'settings from a paper, also with changes: "blurb epochs=20".', metavar="NAME=X,...")
    dev_fold: int | None = option(
        None, "Fold whose test part selects epoch and grid settings for all other folds, which "
              "also train on their dev parts; by default each fold's own dev part selects them.")

    def __post_init__(self) -> None:
        super().__post_init__()
        listed = split_names(self.seed_list)
        require(all(one.isdecimal() and int(one[:_DIGITS]) <= LAST_SEED for one in listed)
                and len(set(listed)) == len(listed), "seed_list", repr(self.seed_list[:_SHOWN]),
                f"different whole numbers up to {LAST_SEED}, such as 13,42,100")

    def seed_numbers(self, first: int) -> list[int]:
        """Return the seeds of the runs: the listed ones, or consecutive ones from `first`."""
        return [*map(int, split_names(self.seed_list))] or [*range(first, first + self.seeds)]


def uses_folds(sources: Mapping[str, object], config: FinetuneConfig) -> bool:
    """Return whether to fine-tune on folds, which are in the directory given as training set.

    Args:
        sources: `train` and, if given, `dev` and `test`; files, records or a directory of folds.
        config: settings; `dev_fold` requires folds.

    Raises:
        ValueError: if sets or settings contradict each other.
    """
    train = sources["train"]
    folds = isinstance(train, str | PathLike) and Path(train).is_dir()
    require(folds or config.dev_fold is None, "dev_fold", config.dev_fold,
            "no value unless {setting('train')} is a directory of folds")
    require(folds or "dev" in sources, "dev", "none", "a set that selects the epoch and the seed")
    for name in ("dev", "test"):
        require(not folds or name not in sources, name, sources.get(name),
                "no file, because each fold contains its own")
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
        optimization: optimizer settings; its seed is the first run's seed.
        schedule: the learning rate over each run.
        regularization: regularization towards the checkpoint's weights.
        freezing: weights to freeze.
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
                f"{LAST_SEED - seeds + 1} at most with {setting('seeds')} {seeds}")

    def settings(self) -> JsonObject:
        """Return the settings of the task and of fine-tuning by name."""
        return {"task": self.task, **asdict(self.config), **{
            name: value for part in PLAN_PARTS
            for name, value in asdict(getattr(self, part)).items()}}


PLAN_PARTS = {"finetuning": FinetuneConfig, "schedule": LearningRateConfig,
              "optimization": OptimizationConfig, "regularization": RegularizationConfig,
              "freezing": FreezeConfig}
"""Settings of fine-tuning that all tasks share, by their field in `FinetunePlan`."""


class PredictConfig(Settings, title="Prediction with a fine-tuned model"):
    """Prediction with a fine-tuned model."""

    into: str = option(
        "predicted", "Key under which to add the object of predictions. The task's own key, such "
                     "as entities or label, replaces the record's annotations and removes "
                     "relations of replaced entities.")
    max_length: int = option(0, "Maximum input length in tokens; 0: as in training.")
    batch_size: int = option(32, "Inputs per pass.", least=1)
    device: str = option("auto", "Device for the model: auto (a GPU if present), cpu, cuda or "
                                 "cuda:N.", metavar="auto|cpu|cuda[:N]")
    precision: Literal["float32", "bf16", "fp16"] = option(
        "float32", "Data type of matrix products; bf16 changes predictions by rounding.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.max_length == 0 or self.max_length >= 8, "max_length", self.max_length,
                "0, or 8 or more")


class TaskScoresConfig(Settings, title="Predictions"):
    """Predictions: their key in records and their definition.

    For settings that are None, the definition stored with the predictions is used.
    """

    task: Literal["ner", "pico", "relations", "classification", "multilabel", "similarity", "qa",
                  "factoid"] | None = option(
        None, "Task whose metrics to compute: classification also for nli and yesno; factoid is "
              "BioASQ's and merges the answers from a question's snippets. Default: the task whose "
              "key gold records and predictions contain.")
    predicted: str = option("predicted", "Key of the predictions: of an object as `predict` writes "
                                         "it, or the task's own key.", metavar="KEY")
    negative: str | None = option(
        None, "Class that is not a finding, such as pairs without a relation; it counts only for "
              "accuracy, not for F1. Default: the class with which the model was trained.",
        metavar="LABEL")
    types: str | None = option(
        None, "Types of entities or relations to score; others are ignored in gold and "
              "predictions. Default: the types with which the model was trained.",
        metavar="NAME,...")
    merge_types: str | None = option(
        None, "One name that replaces all entity types in gold and predictions. Default: as the "
              "model was trained.", metavar="NAME")
    undirected: bool | None = option(
        None, "Relations have no direction: either entity may be the head. Default: as the model "
              "was trained.")


# Gu et al. 2021 (BLURB), section 6.2, with five of its epochs from 2 to 60; Pavlova and Makhlouf
# 2023 (BIOptimus), table 9; early stopping replaces their 5 to 11 epochs.
NAMED = {"blurb": "learning_rate=1e-5,3e-5,5e-5 batch_size=16,32 epochs=2,5,10,20,60",
         "bioptimus": "learning_rate=1e-5,2e-5 batch_size=4,8,16"}

# A grid cannot change other settings of the task, which determine the data and the kind of head.
_OF_SEEDS = frozenset({"loss", "class_weights", "oversampling", "head_layers", "head_size",
                       "head_dropout"})
_OF_ALL_RUNS = frozenset({"decay_to_best", "dev_fold", "grid", "precision", "seed", "seed_list",
                          "seeds", "tf32"})


def grid_plans(plan: FinetunePlan) -> Iterator[tuple[JsonObject, FinetunePlan]]:
    """Yield the settings of every combination in a plan's grid, and the plan with these settings.

    Without a grid, yield the plan itself. If the learning rate does not depend on the number of
    epochs, the longest run contains the shorter ones, which are left out.

    Raises:
        BmtoolsError: if a setting is unknown, or a value cannot be read or is out of range.
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
            raise BmtoolsError(f"{setting('grid')}: found {axis!r}, expected values for {name} "
                               f"such as {own}") from error
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
