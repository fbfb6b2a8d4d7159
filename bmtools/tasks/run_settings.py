"""Settings of fine-tuning and prediction, whatever the task; importing this costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal

from bmtools.errors import (
    SEEDS,
    check_choices,
    require,
    require_above_0,
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
_MOST_RUNS = 1000
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
    group_by_length: bool = option(
        True, "Put inputs of similar length into a batch, as transformers does by the same name: "
              "inputs of 64 random batches are sorted by length and these batches shuffled. Off: "
              "batches are random, and pad more.")
    grid: str = option(
        "", "Settings to try, each with all seeds; the best mean on the development set is kept. "
            'Values by name, such as "batch-size=16,32 learning-rate=1e-5,3e-5", or blurb or '
            "bioptimus for those that a paper tried; with `trials` ranges, too, such as "
            "learning-rate=1e-5..1e-4.", metavar="NAME=X,...")
    trials: int = option(0, "Combinations of a grid to try instead of all: optuna proposes each "
                            "after the scores of those before, and draws from ranges, on a "
                            "logarithmic scale where the ends differ tenfold.")
    reinitialize_head: bool = option(
        False, "Draw a new output layer, although the checkpoint has one for the same labels; only "
               "its encoder is then the start.")
    folds: int = option(0, "Number of folds to split the training set into by document, stratified "
                           "by its labels; a model is trained for each, with all seeds.")
    dev_fold: int | None = option(
        None, "Number of the fold whose test part chooses the epoch, and the settings of a grid, "
              "for all others, which learn from all records outside of their own test part; by "
              "default each fold's dev part chooses its own.")

    def __post_init__(self) -> None:
        require_at_least(self, seeds=1, epochs=1, eval_steps=0, patience=1, batch_size=1, trials=0)
        require(not self.trials or bool(self.grid), "trials", self.trials,
                f"0 without {setting('grid')}, which names what is tried")
        require(self.folds == 0 or self.folds >= 3, "folds", self.folds, "3 or more")
        require(self.dev_fold is None or 0 <= self.dev_fold < (self.folds or self.dev_fold + 1),
                "dev_fold", self.dev_fold, f"0 to {self.folds - 1}" if self.folds else "0 or more")
        require(self.seeds <= _MOST_RUNS, "seeds", self.seeds, f"{_MOST_RUNS:,} at most")
        if self.seed_list:
            self._check_seed_list()

    def _check_seed_list(self) -> None:
        listed = self.seed_list.split(",")
        try:
            numbers = [int(number) for number in listed]
        except ValueError:
            numbers = [-1]
        require(min(numbers) >= 0 and max(numbers) < SEEDS and len(set(numbers)) == len(numbers),
                "seed_list", repr(self.seed_list[:_SHOWN]),
                f"different whole numbers up to {SEEDS - 1}, such as 13,42,100")
        require(len(numbers) <= _MOST_RUNS, "seed_list", f"{len(numbers):,} seeds",
                f"{_MOST_RUNS:,} at most")

    def seed_numbers(self, first: int) -> list[int]:
        """List the seeds of the runs, from `first` where they are not listed."""
        return [int(number) for number in self.seed_list.split(",")] if self.seed_list \
            else list(range(first, first + self.seeds))


def uses_folds(train: object, others: Mapping[str, object], config: FinetuneConfig) -> bool:
    """Tell whether fine-tuning is over folds.

    Args:
        train: the training set, a directory where it holds folds.
        others: the other sets that are given, by name.
        config: whose `folds` says so for a file.

    Raises:
        ValueError: sets or settings that contradict each other.
    """
    directory = isinstance(train, str | PathLike) and Path(train).is_dir()
    require(not (directory and config.folds), "folds", config.folds,
            f"none beside the directory of folds {train}")
    folds = directory or bool(config.folds)
    require(folds or config.dev_fold is None, "dev_fold", config.dev_fold,
            f"none without {setting('folds')} or a directory of folds")
    for name, source in others.items():
        require(not folds, name, source, "none beside folds, each of which has its own")
    return folds


class LoraConfig(Settings, title="Low-rank adapters"):
    """Low-rank adapters (Hu et al. 2021), merged into the model that is written.

    All maps of the encoder's layers get an adapter; of the rest, only what is above the layers
    is trained.
    """

    lora_rank: int = option(0, "Rank of the adapters; 0 trains all weights instead.")
    lora_alpha: float = option(16.0, "Scale of the adapters, divided by the rank.")

    def __post_init__(self) -> None:
        require_at_least(self, lora_rank=0)
        require_above_0(self, "lora_alpha")


class TaskDistillationConfig(Settings, title="Distillation from a fine-tuned teacher"):
    """Distillation from a fine-tuned teacher (Hinton et al. 2015; Sanh et al. 2020, section 5).

    Each loss is a mean over what the model labels: texts, words, pairs, starts and ends.
    """

    label_weight: float = option(1.0, "Weight of the loss on labels.")
    kl_weight: float = option(1.0, "Weight of the divergence from the teacher's predictions.")
    temperature: float = option(2.0, "Temperature of both softmax distributions.")
    logit_mse_weight: float = option(
        0.0, "Weight of the squared distance between logits, a mean over classes.")

    def __post_init__(self) -> None:
        require_at_least(self, label_weight=0, kl_weight=0, logit_mse_weight=0)
        require(self.kl_weight + self.logit_mse_weight > 0, "kl_weight", self.kl_weight,
                f"more than 0 without {setting('logit_mse_weight')}")
        require_above_0(self, "temperature")


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
        lora: adapters in place of all weights.
        overwrite: replace the content of the output directory.
        teacher: fine-tuned model to learn from, beside labels.
        distillation: losses of its predictions.
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
    lora: LoraConfig = field(default_factory=LoraConfig)
    overwrite: bool = False
    teacher: Path | None = None
    step: Step = field(default_factory=Step, compare=False)
    distillation: TaskDistillationConfig = field(default_factory=TaskDistillationConfig)

    def __post_init__(self) -> None:
        for name, value in asdict(self.distillation).items():
            default = getattr(TaskDistillationConfig, name)
            require(self.teacher is not None or value == default, name, value,
                    f"{default} without {setting('teacher')}")
        regularized = self.regularization != RegularizationConfig() \
            or self.freezing != FreezeConfig()
        require(not (self.lora.lora_rank and regularized), "lora_rank", self.lora.lora_rank,
                f"0 beside {setting('layer_decay')}, {setting('mixout')}, {setting('l2_sp')}, "
                f"{setting('frozen_layers')} or {setting('frozen')}, which concern all weights")
        first, seeds = self.optimization.seed, self.finetuning.seeds
        require(bool(self.finetuning.seed_list) or first + seeds <= SEEDS, "seed", first,
                f"{SEEDS - seeds} at most beside {setting('seeds')} {seeds}")


PLAN_PARTS = {"finetuning": FinetuneConfig, "schedule": LearningRateConfig, "lora": LoraConfig,
              "optimization": OptimizationConfig, "regularization": RegularizationConfig,
              "freezing": FreezeConfig, "distillation": TaskDistillationConfig}
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
