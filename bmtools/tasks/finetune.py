"""Fine-tuning: several seeds, each stopped early, the best one kept."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from accelerate import Accelerator
from torch import Tensor

from bmtools.data.batches import Batches, MicroBatched
from bmtools.errors import BmtoolsError, Reject, refuse
from bmtools.io.atomic import new_directory
from bmtools.io.jsonl import encode_line
from bmtools.io.manifest import Manifest
from bmtools.models.checkpoint import write_checkpoint_files
from bmtools.recipes.schedule import learning_rate
from bmtools.recipes.settings import LearningRateConfig, OptimizationConfig
from bmtools.records import Record
from bmtools.tasks.settings import FinetuneConfig
from bmtools.training.distributed import make_accelerator
from bmtools.training.loop import LoopPlan, Trainer
from bmtools.training.objectives import Objective

SEEDS = "seeds.jsonl"
_DIGITS = 6


@dataclass(frozen=True)
class Evaluation:
    """How a model does on a set.

    Args:
        scores: by name; the task's metric is one of them.
        details: what is told of the best epoch only.
        loss: mean loss in nats, where the set allows one.
    """

    scores: dict[str, Any]
    details: dict[str, Any]
    loss: float


class EpochBatches(Batches, Protocol):
    """Batches that know when everything was seen."""

    @property
    def per_epoch(self) -> int:
        """Batches that show everything once."""


class Task(Protocol):
    """What fine-tuning needs to know of a task."""

    metric: str
    tokenizer: Any
    vocabulary: str

    def read(self, splits: Mapping[str, Iterable[Record]],
             reject: Reject = refuse) -> Iterator[dict[str, Any]]:
        """Read the sets, `train` first, and tell of each what it holds."""

    def settings(self) -> dict[str, Any]:
        """What the task adds to the settings of the run, as resolved."""

    def start(self, seed: int) -> Any:
        """Make a model to train."""

    def objective(self, model: Any) -> Objective:
        """Put the loss around a model."""

    def batches(self, seed: int) -> EpochBatches:
        """Make the batches of a run."""

    def evaluate(self, model: Any, name: str) -> Evaluation:
        """Score a model on a set."""


@dataclass(frozen=True)
class FinetunePlan:
    """Fine-tuning as asked for.

    Args:
        model: checkpoint to start from.
        output: checkpoint to write.
        settings: how long and how often.
        loop: how to optimise; its seed is the first of the seeds.
        schedule: the learning rate over each run.
        extra: further settings that make the run what it is, by name.
        parents: hash of the checkpoint it starts from.
        overwrite: replace what the output directory holds.
    """

    model: Path
    output: Path
    settings: FinetuneConfig
    loop: OptimizationConfig
    schedule: LearningRateConfig = field(default_factory=LearningRateConfig)
    extra: Mapping[str, Any] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    overwrite: bool = False


@dataclass
class _Best:
    """The best epoch of a seed; `weights` lie in main memory."""

    seed: int
    epoch: int
    dev: Evaluation
    weights: dict[str, Tensor]
    tokens_seen: int
    line: dict[str, Any] = field(default_factory=dict)


def finetune(plan: FinetunePlan, task: Task, splits: Mapping[str, Iterable[Record]],
             hashes: Callable[[], Mapping[str, str]],
             reject: Reject = refuse) -> Iterator[dict[str, Any]]:
    """Train once per seed, write the seed that does best on `dev`, and yield what happens.

    A line for each set, for each epoch and for each seed, then a summary. Weights of the best
    seed and of the one in training are held in main memory.

    Args:
        plan: fine-tuning as asked for.
        task: what is learned.
        splits: records of `train`, `dev` and perhaps `test`.
        hashes: gives the hash of each input once records are read.
        reject: receives records that the task cannot take.

    Raises:
        DataError: a set that nothing can be learned from or measured by.
        BmtoolsError: several processes, or a loss that is no number.
    """
    started = time.monotonic()
    accelerator = make_accelerator(plan.loop)
    if accelerator.num_processes > 1:
        raise BmtoolsError("fine-tuning runs in one process; start it without accelerate launch, "
                           "with another --seed on each machine")
    yield from task.read(splits, reject)
    best: _Best | None = None
    lines = []
    for seed in range(plan.loop.seed, plan.loop.seed + plan.settings.seeds):
        tried = yield from _train(plan, task, seed, accelerator, "test" in splits)
        lines.append(tried.line)
        yield tried.line
        if best is None or _rank(task, tried.dev) > _rank(task, best.dev):
            best = tried
        accelerator.free_memory()
    assert best is not None
    summary = _summary(lines, best.seed, task.metric)
    wall_seconds = round(time.monotonic() - started, 3)
    settings = {"model": str(plan.model), **plan.extra, **task.settings(),
                **asdict(plan.settings), **asdict(plan.loop), **asdict(plan.schedule)}
    manifest = Manifest("finetune", settings, task.vocabulary, best.seed, hashes(), plan.parents,
                        best.tokens_seen, wall_seconds, summary)
    model = task.start(best.seed)
    model.load_state_dict(best.weights)
    with new_directory(plan.output, plan.overwrite) as partial:
        write_checkpoint_files(partial, model, task.tokenizer, manifest)
        (partial / SEEDS).write_bytes(b"".join(map(encode_line, lines)))
    yield {"checkpoint": str(plan.output), "model": str(plan.model), **summary,
           "wall_seconds": wall_seconds}


def _train(plan: FinetunePlan, task: Task, seed: int, accelerator: Accelerator,
           has_test: bool) -> Generator[dict[str, Any], None, _Best]:
    """Train one seed until it no longer gets better; yield a line per epoch."""
    model = task.start(seed)
    batches = task.batches(seed)
    passes: Batches = MicroBatched(batches,
                                   plan.loop.micro_batch_size) if plan.loop.micro_batch_size \
        else batches
    steps = plan.settings.epochs * batches.per_epoch
    course = LoopPlan(steps, lambda number: learning_rate(number, steps, plan.schedule))
    trainer = Trainer(task.objective(model), course, replace(plan.loop, seed=seed), accelerator)
    best: _Best | None = None
    losses: list[float] = []
    tokens_seen = 0
    for step in trainer.run(passes):
        losses.append(step.loss)
        tokens_seen += step.counts["tokens"]
        epoch, left = divmod(step.number, batches.per_epoch)
        if left:
            continue
        dev = task.evaluate(model, "dev")
        yield {"seed": seed, "epoch": epoch, "of": plan.settings.epochs,
               "loss": round(statistics.fmean(losses), _DIGITS),
               "dev_loss": round(dev.loss, _DIGITS), "dev": dev.scores}
        losses = []
        if best is None or _rank(task, dev) > _rank(task, best.dev):
            best = _Best(seed, epoch, dev, _copied(model), tokens_seen)
        elif epoch - best.epoch >= plan.settings.patience:
            break
    assert best is not None
    model.load_state_dict(best.weights)
    best.line = {"seed": seed, "best_epoch": best.epoch, "epochs": epoch,
                 "dev": {**best.dev.scores, **best.dev.details}}
    if has_test:
        test = task.evaluate(model, "test")
        best.line["test"] = {**test.scores, **test.details}
    return best


def _rank(task: Task, dev: Evaluation) -> tuple[float, float]:
    """Order by the metric; as long as it is 0, a falling loss is progress too."""
    score = dev.scores[task.metric]
    return score, 0.0 if score else -dev.loss


def _copied(model: Any) -> dict[str, Tensor]:
    return {name: value.detach().to("cpu", copy=True)
            for name, value in model.state_dict().items()}


def _summary(lines: Sequence[Mapping[str, Any]], best_seed: int, metric: str) -> dict[str, Any]:
    """Mean and sample standard deviation over seeds; one seed has no deviation."""
    summary: dict[str, Any] = {"best_seed": best_seed, "seeds": len(lines)}
    for name in ("dev", "test"):
        values = [line[name][metric] for line in lines if name in line]
        if values:
            spread = round(statistics.stdev(values), _DIGITS) if len(values) > 1 else None
            summary[f"{name}_{metric}"] = {"mean": round(statistics.fmean(values), _DIGITS),
                                           "deviation": spread}
    return summary
