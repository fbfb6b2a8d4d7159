"""Fine-tuning: several seeds, each stopped early, the best one kept."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import Accelerator

from bmtools.errors import BmtoolsError, Reject, refuse, setting
from bmtools.evaluation.seeds import t_interval
from bmtools.io.directories import new_directory, refuse_existing
from bmtools.io.jsonl import RecordReader, as_records, source_name
from bmtools.io.manifest import Manifest, hash_directory
from bmtools.io.output import encode_lines
from bmtools.models.checkpoint import write_checkpoint_files
from bmtools.records import Record
from bmtools.status import set_status
from bmtools.tasks.grid import grid_plans
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.registry import load_task
from bmtools.tasks.run_settings import FINETUNE_DEFAULTS, PLAN_PARTS, FinetunePlan
from bmtools.tasks.seed_run import Best, Report, SeedRun, trained_model
from bmtools.tasks.task import DEV, TEST, TRAIN, Split, Task
from bmtools.training.distributed import make_accelerator
from bmtools.vocab.unknown_tokens import warn_of_unknown_tokens

SEEDS = "seeds.jsonl"
_DIGITS = 6
_CONFIDENCE = 0.95
Source = str | PathLike[str] | Iterable[Any]


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
        settings: of the task, `FinetuneConfig`, `LoraConfig`, `OptimizationConfig`,
            `LearningRateConfig`, `RegularizationConfig` or `FreezeConfig`, by name, such as
            `seeds=1, max_length=128`.

    Returns:
        `checkpoint`, `model`, `best_seed`, `seeds` (their number), for each metric of the task
        `dev_METRIC` and, with a test set, `test_METRIC` (each `mean`, `median`, sample
        `deviation` over seeds, None for one seed, and the mean's 95 % `interval` by Student's t),
        the chosen values of a `grid`, and `wall_seconds`. Scores of each seed, by type or label
        too, are in the directory's `seeds.jsonl`.

    Raises:
        TypeError: a setting that none of them has.
        ValueError: a setting out of its range.
        BmtoolsError: data, checkpoint or directory that cannot be used.
    """
    kinds: dict[str, Any] = {"config": load_task(task).config_class, **PLAN_PARTS}
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

    A line for each set, evaluation, seed and combination of a grid, then a summary. Weights of the
    best seed and of the one in training are in main memory.

    Args:
        plan: task, checkpoints and settings.
        sources: records of `train`, `dev` and perhaps `test`, in this order.
        reject: receives records that the task cannot use.

    Raises:
        DataError: a set that the model cannot learn from or be scored by.
        BmtoolsError: several processes, or a loss that is not finite.
    """
    started = time.monotonic()
    plans = list(grid_plans(plan))
    refuse_existing(plan.output, plan.overwrite)
    accelerator = make_accelerator(plan.optimization)
    if accelerator.num_processes > 1:
        raise BmtoolsError("fine-tuning runs in one process; start it without accelerate launch, "
                           f"with another {setting('seed')} on each machine")
    task_class = load_task(plan.task)
    task = task_class(plan.config, load_encoder(plan.model,
                                                task_class.model_class_for(plan.config)))
    task.keeps_head = not plan.finetuning.reinitialize_head
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
    if task.trained_head() is not None:
        yield {"note": f"the output layer of {plan.model} is trained further"}
    chosen: _Runs | None = None
    for values, one in plans:
        runs = yield from _run_seeds(one, task, splits, values, accelerator)
        if values:
            yield {"grid": values, f"dev_{task.metric}": summarize(
                [line[DEV][task.metric] for line in runs.lines])}
        chosen = runs if chosen is None or runs.score > chosen.score else chosen
    assert chosen is not None
    yield _write(chosen, task, sources, started)


@dataclass(frozen=True)
class _Runs:
    """The runs of one combination of settings: best evaluation, lines, mean score on dev."""

    plan: FinetunePlan
    values: dict[str, Any]
    best: Best
    lines: list[Report]
    score: float


def _run_seeds(plan: FinetunePlan, task: Task[Any, Any], splits: Mapping[str, Split[Any]],
               values: dict[str, Any], accelerator: Accelerator) -> Generator[Report, None, _Runs]:
    """Train with each seed, and yield a line for each evaluation and seed."""
    best: Best | None = None
    lines = []
    for seed in plan.finetuning.seed_numbers(plan.optimization.seed):
        found, line = yield from SeedRun(plan, task, splits, seed, accelerator).run()
        lines.append({**line, **({"grid": values} if values else {})})
        yield lines[-1]
        best = found if best is None or found.rank > best.rank else best
        accelerator.free_memory()
    assert best is not None
    return _Runs(plan, values, best, lines,
                 statistics.fmean(line[DEV][task.metric] for line in lines))


def summarize(values: Sequence[float]) -> dict[str, Any]:
    """Compute mean, median, sample deviation and t interval over seeds; one has no last two."""
    bounds = t_interval(values, _CONFIDENCE)
    return {"mean": round(statistics.fmean(values), _DIGITS),
            "median": round(statistics.median(values), _DIGITS),
            "deviation": round(statistics.stdev(values), _DIGITS) if len(values) > 1 else None,
            **({"interval": [round(bound, _DIGITS) for bound in bounds]} if bounds else {})}


def _write(runs: _Runs, task: Task[Any, Any], sources: Mapping[str, Iterable[Record]],
           started: float) -> Report:
    """Write the best model, its manifest with the resolved settings, and the seeds' lines.

    Returns:
        the summary: of each metric mean, median, sample deviation and interval over seeds.
    """
    plan, best, lines = runs.plan, runs.best, runs.lines
    summary: Report = {"best_seed": best.seed, "seeds": len(lines),
                       **({"grid": runs.values} if runs.values else {})}
    for name, metric in itertools.product((DEV, TEST), task.metrics):
        if values := [line[name][metric] for line in lines if name in line]:
            summary[f"{name}_{metric}"] = summarize(values)
    wall_seconds = round(time.monotonic() - started, 3)
    files = {name: source for name, source in sources.items() if isinstance(source, RecordReader)}
    names = {name: files[name].names[0] if name in files else "<memory>" for name in sources}
    settings = {"model": str(plan.model), "task": plan.task, **asdict(plan.config),
                **best.dev.settings, "max_length": task.max_length, **names,
                **asdict(plan.finetuning), **asdict(plan.optimization),
                **asdict(plan.schedule), **asdict(plan.regularization), **asdict(plan.freezing),
                **asdict(plan.lora)}
    hashes = {name: digest for file in files.values() for name, digest in file.hashes.items()}
    manifest = Manifest("finetune", settings, task.checkpoint.vocabulary, best.seed, hashes,
                        {"model": hash_directory(plan.model)}, best.tokens_seen, wall_seconds,
                        {**summary, **(files[TRAIN].origins() if TRAIN in files else {})})
    set_status(f"writing {plan.output}")
    model = task.finish(trained_model(plan, task, best))
    with new_directory(plan.output, plan.overwrite) as partial:
        write_checkpoint_files(partial, model, task.checkpoint.tokenizer, manifest)
        (partial / SEEDS).write_bytes(encode_lines(lines))
    return {"checkpoint": str(plan.output), "model": str(plan.model), **summary,
            "wall_seconds": wall_seconds}
