"""Settings that all tasks share; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bmtools.errors import check_choices, require, require_at_least

TruncationSide = Literal["right", "left"]

# Defaults of fine-tuning where they differ from those of pretraining.
FINETUNE_DEFAULTS = {"learning_rate": 5e-5, "dropout": 0.1}


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
class NerConfig(TaskConfig):
    """Settings of named entity recognition.

    Args:
        max_length: longest window in tokens, special tokens included; shorter where the model
            reads less.
        merge_types: one name for entities of every type; empty keeps the types apart.
    """

    merge_types: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.merge_types == self.merge_types.strip(), "merge_types",
                repr(self.merge_types), "a name without spaces around it")


@dataclass(frozen=True)
class ClassificationConfig(TaskConfig):
    """Settings of classification.

    Args:
        max_length: longest input in tokens, special tokens included; shorter where the model reads
            less. The longer of two texts is truncated first.
        truncation_side: end at which texts that are too long lose tokens.
        metric_for_best_model: score on the development set that chooses the epoch and the seed.
    """

    truncation_side: TruncationSide = "right"
    metric_for_best_model: Literal["accuracy", "macro_f1", "micro_f1"] = "accuracy"


@dataclass(frozen=True)
class FinetuneConfig:
    """Length and number of fine-tuning runs.

    Args:
        seeds: runs, each with the next seed; the best on the development set is kept.
        epochs: most passes over the training set.
        patience: epochs without a better score on the development set after which a run ends.
        batch_size: inputs a step.
    """

    seeds: int = 3
    epochs: int = 20
    patience: int = 3
    batch_size: int = 16

    def __post_init__(self) -> None:
        require_at_least(self, seeds=1, epochs=1, patience=1, batch_size=1)


@dataclass(frozen=True)
class PredictConfig:
    """Passage of records through a fine-tuned model.

    Args:
        into: key of the object that predictions are added as, beside annotations of the record;
            entities (ner) or label (classification) replaces the record's own by them, and drops
            relations of replaced entities.
        max_length: longest input in tokens, special tokens included; 0 for the length it was
            trained with.
        batch_size: inputs a pass.
        device: device of the model: auto (a GPU if there is one), cpu, cuda or cuda:N.
    """

    into: str = "predicted"
    max_length: int = 0
    batch_size: int = 32
    device: str = "auto"

    def __post_init__(self) -> None:
        require(self.max_length == 0 or self.max_length >= 8, "max_length", self.max_length,
                "0, or 8 or more")
        require_at_least(self, batch_size=1)
