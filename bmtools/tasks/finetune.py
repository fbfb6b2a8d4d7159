"""Fine-tuning: several seeds, each stopped early, the best one kept."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator
from torch import Tensor

from bmtools.data.batches import Batches, MicroBatched
from bmtools.errors import BmtoolsError, Reject, refuse, setting
from bmtools.io.atomic import new_directory, refuse_existing
from bmtools.io.jsonl import RecordReader, as_records, encode_lines
from bmtools.io.manifest import Manifest, hash_directory
from bmtools.models.checkpoint import write_checkpoint_files
from bmtools.recipes.schedule import learning_rate
from bmtools.recipes.settings import LearningRateConfig, OptimizationConfig
from bmtools.records import Record
from bmtools.tasks.batches import EpochBatches
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.inference import run_model
from bmtools.tasks.registry import load_task
from bmtools.tasks.settings import FINETUNE_DEFAULTS, FinetuneConfig, TaskConfig
from bmtools.tasks.task import DEV, TEST, TRAIN, Evaluation, Split, Task
from bmtools.training.distributed import make_accelerator
from bmtools.training.loop import LoopPlan, Trainer
from bmtools.training.objectives import LossTerm, Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SEEDS = "seeds.jsonl"
_DIGITS = 6
Source = str | PathLike[str] | Iterable[Any]
Report = dict[str, Any]


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
        overwrite: replace the content of the output directory.
    """

    task: str
    config: TaskConfig
    model: Path
    output: Path
    finetuning: FinetuneConfig = field(default_factory=FinetuneConfig)
    optimization: OptimizationConfig = field(default_factory=OptimizationConfig)
    schedule: LearningRateConfig = field(default_factory=LearningRateConfig)
    overwrite: bool = False


class TaskObjective(Objective):
    """The loss of a task: a mean over labels."""

    def __init__(self, task: Task[Any, Any], model: PreTrainedModel) -> None:
        super().__init__()
        self.loss_terms = {"task": LossTerm(1.0, "labels")}
        self.model = model
        self._task = task

    def forward(self, labels: Tensor, **batch: Tensor) -> dict[str, Tensor]:
        """Sum the loss over labels, in nats."""
        return {"task": self._task.loss(self.model, batch, labels)}


@dataclass
class _Best:
    """The best epoch of a seed; `weights` are in main memory."""

    epoch: int
    dev: Evaluation
    weights: dict[str, Tensor]
    tokens_seen: int


@dataclass
class _Run:
    """The result of a seed, and its line of the report."""

    seed: int
    best: _Best
    line: Report


def finetune(task: str, model: str | PathLike[str], train: Source, dev: Source,
             output: str | PathLike[str], test: Source | None = None, *,
             reject: Reject = refuse, overwrite: bool = False,
             report: Callable[[Report], object] | None = None, **settings: Any) -> Report:
    """Fine-tune a checkpoint on a task with several seeds and write the best one.

    Args:
        task: ner, classification or another name of the registry.
        model: checkpoint to start from; it is not changed.
        train: records or dictionaries to learn from, or a file of them.
        dev: records that choose the epoch and the seed.
        output: directory to write.
        test: records to score each seed by; they choose nothing.
        reject: receives bad records; by default the first one raises.
        overwrite: replace the content of the output directory.
        report: receives a dictionary for each set, epoch and seed, as the command prints them,
            and `{"note": ...}` about data that cannot be used or expressed fully.
        settings: of the task, `FinetuneConfig`, `OptimizationConfig` or `LearningRateConfig`, by
            name, such as `seeds=1, max_length=128`.

    Returns:
        `checkpoint`, `model`, `best_seed`, `seeds` (their number), for each metric of the task
        `dev_METRIC` and, with a test set, `test_METRIC` (each `mean` and sample `deviation` over
        seeds, None for one seed), and `wall_seconds`. Scores of each seed, by type or label too,
        are in the directory's `seeds.jsonl`.

    Raises:
        TypeError: a setting that none of them has.
        ValueError: a setting out of its range.
        BmtoolsError: data, checkpoint or directory that cannot be used.
    """
    task_class = load_task(task)
    kinds = (task_class.config_class, FinetuneConfig, OptimizationConfig, LearningRateConfig)
    config, finetuning, optimization, schedule = _configs(kinds, {**FINETUNE_DEFAULTS, **settings})
    plan = FinetunePlan(task, config, Path(model), Path(output), finetuning, optimization, schedule,
                        overwrite)
    sources = {TRAIN: train, DEV: dev, **({} if test is None else {TEST: test})}
    line: Report = {}
    for line in run_finetuning(plan, {name: _records(source, reject)
                                      for name, source in sources.items()}, reject):
        if report:
            report(line)
    return line


def run_finetuning(plan: FinetunePlan, sources: Mapping[str, Iterable[Record]],
                   reject: Reject = refuse) -> Iterator[Report]:
    """Fine-tune with each seed, write the one that is best on `dev`, and yield reports.

    A line for each set, epoch and seed, then a summary. Weights of the best seed and of the one in
    training are in main memory.

    Args:
        plan: task, checkpoints and settings.
        sources: records of `train`, `dev` and perhaps `test`, in this order.
        reject: receives records that the task cannot use.

    Raises:
        DataError: a set that the model cannot learn from or be scored by.
        BmtoolsError: several processes, or a loss that is not finite.
    """
    started = time.monotonic()
    refuse_existing(plan.output, plan.overwrite)
    accelerator = make_accelerator(plan.optimization)
    if accelerator.num_processes > 1:
        raise BmtoolsError("fine-tuning runs in one process; start it without accelerate launch, "
                           f"with another {setting('seed')} on each machine")
    task_class = load_task(plan.task)
    task = task_class(plan.config, load_encoder(plan.model, task_class.model_class))
    parent = hash_directory(plan.model)
    splits = {}
    for name, records in sources.items():
        splits[name] = task.read(name, records, reject)
        yield from ({"note": note} for note in splits[name].notes)
        yield {"split": name, **splits[name].counts}
    best: _Run | None = None
    lines = []
    for seed in range(plan.optimization.seed, plan.optimization.seed + plan.finetuning.seeds):
        run = yield from _train(plan, task, splits, seed, accelerator)
        lines.append(run.line)
        yield run.line
        if best is None or _rank(task, run.best.dev) > _rank(task, best.best.dev):
            best = run
        accelerator.free_memory()
    assert best is not None
    summary = {"best_seed": best.seed, "seeds": len(lines), **_summary(lines, task.metrics)}
    wall_seconds = round(time.monotonic() - started, 3)
    manifest = Manifest(
        "finetune", _settings(plan, task, sources), task.checkpoint.vocabulary, best.seed,
        {name: digest for source in sources.values() if isinstance(source, RecordReader)
         for name, digest in source.hashes.items()},
        {"model": parent}, best.best.tokens_seen, wall_seconds, summary)
    model = task.new_model(best.seed)
    model.load_state_dict(best.best.weights)
    with new_directory(plan.output, plan.overwrite) as partial:
        write_checkpoint_files(partial, model, task.checkpoint.tokenizer, manifest)
        (partial / SEEDS).write_bytes(encode_lines(lines))
    yield {"checkpoint": str(plan.output), "model": str(plan.model), **summary,
           "wall_seconds": wall_seconds}


def _train(plan: FinetunePlan, task: Task[Any, Any], splits: Mapping[str, Split[Any]], seed: int,
           accelerator: Accelerator) -> Generator[Report, None, _Run]:
    """Train with one seed until it no longer improves; yield a line per epoch."""
    batch_size, micro_batch_size = plan.finetuning.batch_size, plan.optimization.micro_batch_size
    model = task.new_model(seed)
    batches = EpochBatches(task, task.training_inputs(splits[TRAIN].examples), batch_size, seed)
    passes: Batches = MicroBatched(batches, micro_batch_size) if micro_batch_size else batches
    steps = plan.finetuning.epochs * batches.per_epoch
    trainer = Trainer(TaskObjective(task, model),
                      LoopPlan(steps, lambda number: learning_rate(number, steps, plan.schedule)),
                      replace(plan.optimization, seed=seed), accelerator)

    def evaluate(name: str) -> Evaluation:
        examples = splits[name].examples
        return task.score(examples, run_model(task, model, examples, batch_size))

    best: _Best | None = None
    losses: list[float] = []
    tokens_seen = 0
    for step in trainer.run(passes):
        losses.append(step.loss)
        tokens_seen += step.counts["tokens"]
        epoch, remainder = divmod(step.number, batches.per_epoch)
        if remainder:
            continue
        dev = evaluate(DEV)
        yield {"seed": seed, "epoch": epoch, "of": plan.finetuning.epochs,
               "loss": round(statistics.fmean(losses), _DIGITS),
               "dev_loss": round(dev.loss, _DIGITS), "dev": dev.scores}
        losses = []
        if best is None or _rank(task, dev) > _rank(task, best.dev):
            best = _Best(epoch, dev, _copy_weights(model), tokens_seen)
        elif epoch - best.epoch >= plan.finetuning.patience:
            break
    assert best is not None
    model.load_state_dict(best.weights)
    line = {"seed": seed, "best_epoch": best.epoch, "epochs": epoch,
            "dev": {**best.dev.scores, **best.dev.details}}
    if TEST in splits:
        test = evaluate(TEST)
        line["test"] = {**test.scores, **test.details}
    return _Run(seed, best, line)


def _rank(task: Task[Any, Any], dev: Evaluation) -> tuple[float, float]:
    """Order by the metric; as long as it is 0, a falling loss is progress too."""
    score = dev.scores[task.metric]
    return score, 0.0 if score else -dev.loss


def _copy_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: value.detach().to("cpu", copy=True)
            for name, value in model.state_dict().items()}


def _summary(lines: Sequence[Report], metrics: Iterable[str]) -> Report:
    """Mean and sample standard deviation over seeds; one seed has no deviation."""
    summary: Report = {}
    for name in (DEV, TEST):
        for metric in metrics:
            values = [line[name][metric] for line in lines if name in line]
            if values:
                spread = round(statistics.stdev(values), _DIGITS) if len(values) > 1 else None
                summary[f"{name}_{metric}"] = {"mean": round(statistics.fmean(values), _DIGITS),
                                               "deviation": spread}
    return summary


def _settings(plan: FinetunePlan, task: Task[Any, Any],
              sources: Mapping[str, Iterable[Record]]) -> dict[str, Any]:
    """List resolved settings for the manifest."""
    names = {name: source.names[0] if isinstance(source, RecordReader) else "<memory>"
             for name, source in sources.items()}
    return {"model": str(plan.model), "task": plan.task, **task.settings(), **names,
            **asdict(plan.finetuning), **asdict(plan.optimization), **asdict(plan.schedule)}


def _configs(kinds: Sequence[type], settings: Mapping[str, Any]) -> list[Any]:
    """Share settings out to the dataclasses that have them.

    Raises:
        TypeError: a name that none of them has.
    """
    names = {kind: {field.name for field in fields(kind)} for kind in kinds}
    unknown = sorted(settings.keys() - set().union(*names.values()))
    if unknown:
        raise TypeError(f"found settings {', '.join(unknown)}, expected some of "
                        f"{', '.join(sorted(set().union(*names.values())))}")
    return [kind(**{name: value for name, value in settings.items() if name in names[kind]})
            for kind in kinds]


def _records(source: Source, reject: Reject) -> Iterable[Record]:
    if isinstance(source, str | PathLike):
        return RecordReader((str(source),), reject)
    return as_records(source, reject)
