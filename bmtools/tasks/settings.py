"""Settings of tasks; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bmtools.errors import require


@dataclass(frozen=True)
class NerConfig:
    """How annotated text becomes windows of tagged words.

    Args:
        max_length: longest window, special tokens included; shorter where the model reads less.
        merge_types: one name for entities of every type; empty keeps the types apart.
    """

    max_length: int = 512
    merge_types: str = ""

    def __post_init__(self) -> None:
        require(self.max_length >= 8, "--max-length", self.max_length, "8 or more")
        require(self.merge_types == self.merge_types.strip(), "--merge-types",
                repr(self.merge_types), "a name without spaces around it")


@dataclass(frozen=True)
class FinetuneConfig:
    """How long a checkpoint is fine-tuned, and how often.

    Args:
        seeds: runs, with the seeds that follow `seed`; the best on the development set is kept.
        epochs: most passes over the training set.
        patience: epochs without a better score on the development set after which a run ends.
        batch_size: windows a step.
    """

    seeds: int = 3
    epochs: int = 20
    patience: int = 3
    batch_size: int = 16

    def __post_init__(self) -> None:
        require(self.seeds >= 1, "--seeds", self.seeds, "1 or more")
        require(self.epochs >= 1, "--epochs", self.epochs, "1 or more")
        require(self.patience >= 1, "--patience", self.patience, "1 or more")
        require(self.batch_size >= 1, "--batch-size", self.batch_size, "1 or more")


@dataclass(frozen=True)
class PredictConfig:
    """How records pass through a fine-tuned model.

    Args:
        max_length: longest window, special tokens included; 0 for the length it was trained with.
        batch_size: windows a pass.
        device: where the model runs: auto (a GPU if there is one), cpu, cuda or cuda:N.
    """

    max_length: int = 0
    batch_size: int = 32
    device: str = "auto"

    def __post_init__(self) -> None:
        require(self.max_length == 0 or self.max_length >= 8, "--max-length", self.max_length,
                "0, or 8 or more")
        require(self.batch_size >= 1, "--batch-size", self.batch_size, "1 or more")
