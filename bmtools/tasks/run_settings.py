"""Settings of fine-tuning and prediction, whatever the task; importing this costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal

from bmtools.errors import (
    SEEDS,
    check_choices,
    require,
    require_at_least,
    setting,
)
from bmtools.io.step import Step
from bmtools.recipes.settings import (
    FreezeConfig,
    LearningRateConfig,
    OptimizationConfig,
    RegularizationConfig,
)
from bmtools.settings import Settings, option
from bmtools.tasks.settings import TaskConfig

# Defaults of fine-tuning where they differ from those of pretraining.
FINETUNE_DEFAULTS = {"learning_rate": 5e-5, "dropout": 0.1}
_DIGITS = 11  # of a seed; one with more is too large in any case
_SHOWN = 60  # characters of a wrong value in a message


class FinetuneConfig(Settings, title="Length and number of fine-tuning runs"):
    """Length and number of fine-tuning runs."""

    seeds: int = option(
        3, "Runs, each with the next seed; the best on the development set is kept.")
    seed_list: str = option(
        "", "Seeds of the runs instead, separated by commas, such as 13,42,100.", metavar="N,...")
    epochs: int = option(20, "Most passes over the training set.")
    eval_steps: int = option(
        0, "Steps between evaluations on the development set; 0: after each epoch.")
    patience: int = option(
        3, "Evaluations without a better score on the development set after which a run ends.")
    batch_size: int = option(16, "Inputs a step.")
    grid: str = option(
        "", "Settings to try, each with all seeds; the best mean on the development set is kept. "
            'Values by name, such as "batch-size=16,32 learning-rate=1e-5,3e-5", or blurb or '
            "bioptimus for those that a paper tried.", metavar="NAME=X,...")
    dev_fold: int | None = option(
        None, "Number of the fold whose test part chooses the epoch, and the settings of a grid, "
              "for all others, which learn from all records outside of their own test part; by "
              "default each fold's dev part chooses its own.")

    def __post_init__(self) -> None:
        require_at_least(self, seeds=1, epochs=1, eval_steps=0, patience=1, batch_size=1)
        listed = self.seed_list.split(",") if self.seed_list else []
        require(all(one.strip().isdecimal() and int(one[:_DIGITS]) < SEEDS for one in listed)
                and len(set(listed)) == len(listed), "seed_list", repr(self.seed_list[:_SHOWN]),
                f"different whole numbers up to {SEEDS - 1}, such as 13,42,100")

    def seed_numbers(self, first: int) -> list[int]:
        """List the seeds of the runs, from `first` where they are not listed."""
        return [int(number) for number in self.seed_list.split(",")] if self.seed_list \
            else list(range(first, first + self.seeds))


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
    step: Step = field(default_factory=Step, compare=False)

    def __post_init__(self) -> None:
        first, seeds = self.optimization.seed, self.finetuning.seeds
        require(bool(self.finetuning.seed_list) or first + seeds <= SEEDS, "seed", first,
                f"{SEEDS - seeds} at most beside {setting('seeds')} {seeds}")


PLAN_PARTS = {"finetuning": FinetuneConfig, "schedule": LearningRateConfig,
              "optimization": OptimizationConfig, "regularization": RegularizationConfig,
              "freezing": FreezeConfig}
"""Settings of every task's fine-tuning, by their field of `FinetunePlan`."""


class PredictConfig(Settings, title="Passage of records through a fine-tuned model"):
    """Passage of records through a fine-tuned model."""

    into: str = option(
        "predicted", "Key of the object that predictions are added as, beside annotations of the "
                     "record; the task's own, such as entities or label, replaces the record's by "
                     "them, and drops relations of replaced entities.")
    max_length: int = option(0, "Longest input in tokens, special tokens included; 0 for the "
                                "length it was trained with.")
    batch_size: int = option(32, "Inputs a pass.")
    device: str = option("auto", "Device of the model: auto (a GPU if there is one), cpu, cuda or "
                                 "cuda:N.", metavar="auto|cpu|cuda[:N]")
    precision: Literal["float32", "bf16", "fp16"] = option(
        "float32", "Data type of matrix products; in bf16 predictions move by its rounding.")

    def __post_init__(self) -> None:
        check_choices(self)
        require(self.max_length == 0 or self.max_length >= 8, "max_length", self.max_length,
                "0, or 8 or more")
        require_at_least(self, batch_size=1)
