"""Fine-tuning: several seeds, each stopped early, the best one kept."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from bmtools.data.batches import RankBatch
from bmtools.errors import BmtoolsError, Reject, refuse, setting
from bmtools.io.directories import new_directory, refuse_existing
from bmtools.io.jsonl import RecordReader, as_records, source_name
from bmtools.io.manifest import Manifest, hash_directory
from bmtools.io.output import encode_lines
from bmtools.masking.corruption import IGNORED
from bmtools.models.checkpoint import check_room, write_checkpoint_files
from bmtools.recipes.settings import LearningRateConfig, OptimizationConfig
from bmtools.records import Record
from bmtools.status import set_status
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.inference import run_model
from bmtools.tasks.registry import load_task
from bmtools.tasks.settings import FINETUNE_DEFAULTS, FinetuneConfig, TaskConfig
from bmtools.tasks.task import DEV, TEST, TRAIN, Evaluation, InputT, Split, Task
from bmtools.training.distributed import make_accelerator
from bmtools.training.loop import Trainer
from bmtools.training.objectives import LossTerm, Objective
from bmtools.vocab.unknown_tokens import warn_of_unknown_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SEEDS = "seeds.jsonl"
_DIGITS = 6
_BUFFERED_BATCHES = 64
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
        super().__init__(model)
        self.loss_terms = {"task": LossTerm(1.0, "labels")}
        self._task = task

    def forward(self, labels: Tensor, **batch: Tensor) -> dict[str, Tensor]:
        """Sum the loss over labels, in nats."""
        return {"task": self._task.loss(self.model, batch, labels)}


@dataclass(frozen=True)
class TaskBatches(Generic[InputT]):
    """Collated batches of a task's training inputs.

    Args:
        task: collates inputs and their labels.
        inputs: to learn from.
        order: numbers of the inputs of each batch.
        micro_batch_size: inputs a pass; 0 for the whole batch.
    """

    task: Task[Any, InputT]
    inputs: Sequence[InputT]
    order: Sequence[np.ndarray]
    micro_batch_size: int = 0

    def batch(self, number: int, rank: int = 0, world_size: int = 1) -> RankBatch:
        """Make one process's part of a batch from its number alone."""
        inputs = [self.inputs[item] for item in self.order[number][rank::world_size]]
        batch = self.task.collate(inputs)
        labels = self.task.collate_labels(inputs, batch)
        size = self.micro_batch_size or len(inputs)
        micro_batches = [{name: torch.from_numpy(value[start:start + size])
                          for name, value in {**batch, "labels": labels}.items()}
                         for start in range(0, len(inputs), size)]
        return RankBatch(micro_batches, {"tokens": int(batch["attention_mask"].sum()),
                                         "labels": int((labels != IGNORED).sum())})


def shuffle_batches(lengths: np.ndarray, batch_size: int, seed: int,
                    epoch: int) -> list[np.ndarray]:
    """Shuffle inputs into batches of indices, (batch_size,) each; the last one drawn may be short.

    Inputs of some batches at a time are sorted by length, which keeps padding low, and the batches
    are shuffled again.

    Args:
        lengths: (inputs,) tokens of each.
        batch_size: inputs a batch.
        seed: seed of the order, with the number of the epoch.
        epoch: from 0.
    """
    rng = np.random.default_rng((seed, epoch))
    order = rng.permutation(len(lengths))
    batches: list[np.ndarray] = []
    for start in range(0, len(order), batch_size * _BUFFERED_BATCHES):
        buffer = order[start:start + batch_size * _BUFFERED_BATCHES]
        by_length = buffer[np.argsort(lengths[buffer], kind="stable")]
        similar = np.split(by_length, range(batch_size, len(buffer), batch_size))
        batches.extend(similar[index] for index in rng.permutation(len(similar)))
    return batches


@dataclass
class _Best:
    """The best epoch of a seed; `weights` are in main memory, the highest `rank` is best."""

    seed: int
    epoch: int
    rank: tuple[float, float]
    dev: Evaluation
    weights: dict[str, Tensor]
    tokens_seen: int


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
    kinds: dict[str, Any] = {
        "config": load_task(task).config_class, "finetuning": FinetuneConfig,
        "optimization": OptimizationConfig, "schedule": LearningRateConfig}
    names = {part: {field.name for field in fields(kind)} for part, kind in kinds.items()}
    known = set().union(*names.values())
    if unknown := sorted(settings.keys() - known):
        raise TypeError(f"found settings {', '.join(unknown)}, expected some of "
                        f"{', '.join(sorted(known))}")
    settings = {**FINETUNE_DEFAULTS, **settings}
    plan = FinetunePlan(task, model=Path(model), output=Path(output), overwrite=overwrite, **{
        part: kind(**{name: settings[name] for name in settings.keys() & names[part]})
        for part, kind in kinds.items()})
    sources = {TRAIN: train, DEV: dev, **({} if test is None else {TEST: test})}
    line: Report = {}
    for line in run_finetuning(plan, {
            name: RecordReader((str(source),), reject) if isinstance(source, str | PathLike)
            else as_records(source, reject) for name, source in sources.items()}, reject):
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
    splits = {}
    unknown_id = task.checkpoint.tokenizer.unk_token_id
    for name, records in sources.items():
        set_status(f"reading {name}")
        splits[name] = task.read(name, records, reject)
        ids = [item.ids for example in splits[name].examples for item in example.inputs]
        warn_of_unknown_tokens(
            str(plan.model), sum(int(np.count_nonzero(one == unknown_id)) for one in ids),
            sum(map(len, ids)), map(source_name, getattr(records, "names", ())))
        yield from ({"note": note} for note in splits[name].notes)
        yield {"split": name, **splits[name].counts}
    best: _Best | None = None
    lines = []
    for seed in range(plan.optimization.seed, plan.optimization.seed + plan.finetuning.seeds):
        found, line = yield from _train(plan, task, splits, seed, accelerator)
        lines.append(line)
        yield line
        best = found if best is None or found.rank > best.rank else best
        accelerator.free_memory()
    assert best is not None
    yield _write(plan, task, sources, best, lines, started)


def _train(plan: FinetunePlan, task: Task[Any, Any], splits: Mapping[str, Split[Any]], seed: int,
           accelerator: Accelerator) -> Generator[Report, None, tuple[_Best, Report]]:
    """Train with one seed until it no longer improves; yield a line per epoch.

    Returns:
        the best epoch, and the seed's line of the report.
    """
    batch_size = plan.finetuning.batch_size
    model = task.new_model(seed)
    check_room(plan.output, model)
    inputs = [item for example in splits[TRAIN].examples for item in example.inputs]
    lengths = np.array([len(item) for item in inputs])
    order = [batch for epoch in range(plan.finetuning.epochs)
             for batch in shuffle_batches(lengths, batch_size, seed, epoch)]
    steps = len(order)
    trainer = Trainer(TaskObjective(task, model),
                      steps, lambda step: plan.schedule.at(step, steps),
                      replace(plan.optimization, seed=seed), accelerator)
    best: _Best | None = None
    losses: list[float] = []
    tokens_seen = 0
    of_seeds = f"seed {seed - plan.optimization.seed + 1} of {plan.finetuning.seeds}"
    for step in trainer.run(TaskBatches(task, inputs, order, plan.optimization.micro_batch_size)):
        losses.append(step.losses["loss"])
        tokens_seen += step.counts["tokens"]
        epoch, remainder = divmod(step.number, steps // plan.finetuning.epochs)
        set_status(f"{of_seeds}, epoch {min(epoch + 1, plan.finetuning.epochs)} of "
                   f"{plan.finetuning.epochs}", remainder or steps // plan.finetuning.epochs,
                   steps // plan.finetuning.epochs, "batches", loss=step.losses["loss"],
                   tokens=tokens_seen)
        if remainder:
            continue
        dev = task.score(splits[DEV].examples,
                         run_model(task, model, splits[DEV].examples, batch_size))
        yield {"seed": seed, "epoch": epoch, "of": plan.finetuning.epochs,
               "loss": round(statistics.fmean(losses), _DIGITS),
               "dev_loss": round(dev.loss, _DIGITS), "dev": dev.scores}
        losses = []
        score = dev.scores[task.metric]
        rank = score, 0.0 if score else -dev.loss  # while it is 0, a falling loss is progress too
        if best is None or rank > best.rank:
            weights = {name: value.detach().to("cpu", copy=True)
                       for name, value in model.state_dict().items()}
            best = _Best(seed, epoch, rank, dev, weights, tokens_seen)
        elif epoch - best.epoch >= plan.finetuning.patience:
            break
    assert best is not None
    model.load_state_dict(best.weights)
    line = {"seed": seed, "best_epoch": best.epoch, "epochs": epoch,
            "dev": {**best.dev.scores, **best.dev.details}}
    if TEST in splits:
        test = task.score(splits[TEST].examples,
                          run_model(task, model, splits[TEST].examples, batch_size))
        line["test"] = {**test.scores, **test.details}
    return best, line


def _write(plan: FinetunePlan, task: Task[Any, Any], sources: Mapping[str, Iterable[Record]],
           best: _Best, lines: Sequence[Report], started: float) -> Report:
    """Write the best model, its manifest with the resolved settings, and the seeds' lines.

    Returns:
        the summary: of each metric mean and sample deviation over seeds, None for one seed.
    """
    summary: Report = {"best_seed": best.seed, "seeds": len(lines)}
    for name, metric in itertools.product((DEV, TEST), task.metrics):
        if values := [line[name][metric] for line in lines if name in line]:
            summary[f"{name}_{metric}"] = {
                "mean": round(statistics.fmean(values), _DIGITS),
                "deviation": round(statistics.stdev(values), _DIGITS) if len(values) > 1 else None}
    wall_seconds = round(time.monotonic() - started, 3)
    files = {name: source for name, source in sources.items() if isinstance(source, RecordReader)}
    names = {name: files[name].names[0] if name in files else "<memory>" for name in sources}
    settings = {"model": str(plan.model), "task": plan.task, **asdict(plan.config),
                "max_length": task.max_length, **names, **asdict(plan.finetuning),
                **asdict(plan.optimization), **asdict(plan.schedule)}
    hashes = {name: digest for file in files.values() for name, digest in file.hashes.items()}
    manifest = Manifest("finetune", settings, task.checkpoint.vocabulary, best.seed, hashes,
                        {"model": hash_directory(plan.model)}, best.tokens_seen, wall_seconds,
                        {**summary, **(files[TRAIN].origins() if TRAIN in files else {})})
    set_status(f"writing {plan.output}")
    model = task.new_model(best.seed)
    model.load_state_dict(best.weights)
    with new_directory(plan.output, plan.overwrite) as partial:
        write_checkpoint_files(partial, model, task.checkpoint.tokenizer, manifest)
        (partial / SEEDS).write_bytes(encode_lines(lines))
    return {"checkpoint": str(plan.output), "model": str(plan.model), **summary,
            "wall_seconds": wall_seconds}
