"""Fine-tuning: several seeds, each stopped early, the best one kept; of one set or of its folds."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from bmtools.errors import DataError, Reject, refuse, setting
from bmtools.io.directories import new_directory, refuse_existing
from bmtools.io.jsonl import RecordReader, as_records
from bmtools.io.output import encode_lines
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest
from bmtools.models.checkpoint import write_checkpoint_files
from bmtools.records import Record, RecordSource
from bmtools.settings import split_settings
from bmtools.status import set_status
from bmtools.tasks.registry import load_task
from bmtools.tasks.runs import Runs, summarize, train_runs
from bmtools.tasks.seed_run import Report, Reporter, Stop, trained_model
from bmtools.tasks.settings import FINETUNE_DEFAULTS, PLAN_PARTS, FinetunePlan, uses_folds
from bmtools.tasks.task import DEV, TEST, TRAIN
from bmtools.training.metrics import DivergedError

SEEDS, FOLDS = "seeds.jsonl", "folds.jsonl"
Sources = Mapping[str, Iterable[Record]]


def finetune(task: str, model: str | PathLike[str], train: RecordSource, dev: RecordSource | None,
             output: str | PathLike[str], test: RecordSource | None = None, *,
             reject: Reject = refuse, overwrite: bool = False, report: Reporter | None = None,
             **settings: object) -> Report:
    """Fine-tune a checkpoint on a task with several seeds and write the best one.

    Args:
        task: ner, classification or another name of the registry.
        model: checkpoint to start from; it is not changed.
        train: records or dictionaries to learn from, or a file of them; or a directory of folds
            that `bmtools split` wrote.
        dev: records that choose the epoch and the seed; None with folds.
        output: directory to write.
        test: records to score each seed by; they choose nothing.
        reject: receives bad records; by default the first one raises.
        overwrite: replace the content of the output directory.
        report: receives a dictionary for each set, epoch and seed, as the command prints them,
            and `{"note": ...}` about data that cannot be used or expressed fully.
        settings: of the task, `FinetuneConfig`, `OptimizationConfig`, `LearningRateConfig`,
            `RegularizationConfig` or `FreezeConfig`, by name, such as `seeds=1, max_length=128`.

    Returns:
        `checkpoint`, `model`, `best_seed`, `seeds` (their number), for each metric of the task
        `dev_METRIC` and, with a test set, `test_METRIC` (each `mean`, `median`, sample
        `deviation` over seeds, None for one seed, and the mean's 95 % `interval` by Student's t),
        the chosen values of a `grid`, and `wall_seconds`. Scores of each seed, by type or label
        too, are in the directory's `seeds.jsonl`. Of folds, whose models are the directories
        `fold-0` and so on, `folds` is their number, `seeds` that of each, and means, medians and
        deviations are over folds, whose own are in `folds.jsonl`. `diverged` is the number of runs
        that did, if any.

    Raises:
        TypeError: a setting that none of them has.
        ValueError: a setting out of its range.
        BmtoolsError: data, checkpoint or directory that cannot be used.
    """
    kinds: dict[str, Any] = {"config": load_task(task).config_class, **PLAN_PARTS}
    parts = split_settings({**FINETUNE_DEFAULTS, **settings}, *kinds.values())
    plan = FinetunePlan(task, model=Path(model), output=Path(output), overwrite=overwrite,
                        **dict(zip(kinds, parts, strict=True)))
    sources = {name: source for name, source in ((TRAIN, train), (DEV, dev), (TEST, test))
               if source is not None}
    report = report or (lambda line: None)
    with plan.step.metered():
        summary = run_finetuning(plan, sources, report, reject)
    report(summary)
    return summary


def run_finetuning(plan: FinetunePlan, sources: Mapping[str, RecordSource], report: Reporter,
                   reject: Reject = refuse) -> Report:
    """Fine-tune on sets or on folds, write the best models, and return the summary.

    A seed or a fold whose loss diverges is reported, counted and left out.

    Args:
        plan: task, checkpoints and settings.
        sources: of `train`, `dev` and perhaps `test`, in this order, or of `train` alone with
            folds; files, records, or a directory of folds.
        report: receives a line for each set, evaluation, seed, fold and combination of a grid.
        reject: receives bad records, and those that the task cannot use.

    Raises:
        ValueError: sets or settings that contradict each other.
        DataError: a set that the model cannot learn from or be scored by.
        BmtoolsError: several processes, or runs that all diverge.
    """
    started = time.monotonic()
    if uses_folds(sources, plan.finetuning):
        summary = _run_folds(plan, Path(str(sources[TRAIN])), report, reject, started)
    else:
        refuse_existing(plan.output, plan.overwrite)
        sets: Sources = {name: RecordReader([str(source)], reject)
                         if isinstance(source, str | PathLike) else source
                         if isinstance(source, RecordReader) else as_records(source, reject)
                         for name, source in sources.items()}
        summary = _write(train_runs(plan, sets, report, reject), sets, started)
    return {"checkpoint": str(plan.output), "model": str(plan.model), **summary,
            "wall_seconds": _seconds_since(started)}


def _run_folds(plan: FinetunePlan, directory: Path, report: Reporter, reject: Reject,
               started: float) -> Report:
    """Fine-tune on each fold and write its best model, as `fold-0` and so on.

    Where the first fold has no `test`, it chooses epochs and the settings of a grid for the others,
    which have no `dev`; no model of it is written. Lines have the number of their `fold`, and a
    note is reported once.
    """
    folds = read_folds(directory, plan.finetuning.dev_fold, reject)
    notes: set[str] = set()
    lines: list[Report] = []
    stops: Mapping[int, Stop] | None = None
    lost = 0

    def report_of_fold(number: int, line: Report) -> None:
        if "note" not in line:
            report({"fold": number, **line})
        elif line["note"] not in notes:
            notes.add(line["note"])
            report({"note": f"fold {number}: {line['note']}"})

    with new_directory(plan.output, plan.overwrite) as partial_output:
        for fold in folds:
            fold_started = time.monotonic()
            try:
                runs = train_runs(replace(plan, output=partial_output / f"fold-{fold.number}"),
                                  fold.sources, partial(report_of_fold, fold.number), reject,
                                  stops)
            except DivergedError as found:
                if TEST not in fold.sources:
                    raise
                error, lost = found, lost + 1
                report({"note": f"fold {fold.number} diverged: {error}"})
                continue
            if TEST not in fold.sources:
                stops = runs.stops
                plan = replace(runs.plan, output=plan.output,
                               finetuning=replace(runs.plan.finetuning, grid=""))
                continue
            lines.append({"fold": fold.number, **_write(runs, fold.sources, fold_started)})
            report(lines[-1])
        if not lines:
            raise error
        summary = _summarize_folds(lines, lost)
        (partial_output / FOLDS).write_bytes(encode_lines(lines))
        hashes = {name: digest for fold in folds for reader in fold.sources.values()
                  for name, digest in reader.hashes.items()}
        replace(_manifest(runs, folds[0].sources, summary, started),
                inputs=hashes).write(partial_output)
    return summary


def _write(runs: Runs, sources: Sources, started: float) -> Report:
    """Write the best model, its manifest with the resolved settings, and the seeds' lines.

    Returns:
        the summary: of each metric mean, median, sample deviation and interval over seeds.
    """
    plan, task, best = runs.plan, runs.task, runs.best
    summary: Report = {"best_seed": best.seed, "seeds": len(runs.lines),
                       **({"diverged": runs.diverged} if runs.diverged else {}),
                       **({"grid": runs.values} if runs.values else {})}
    for name, metric in itertools.product((DEV, TEST), task.metrics):
        if values := [line[name][metric] for line in runs.lines if name in line]:
            summary[f"{name}_{metric}"] = summarize(values)
    set_status(f"writing {plan.output}")
    model = task.finish(trained_model(task, best))
    with new_directory(plan.output, plan.overwrite) as partial:
        (partial / SEEDS).write_bytes(encode_lines(runs.lines))
        write_checkpoint_files(partial, model, task.checkpoint.tokenizer,
                               _manifest(runs, sources, summary, started))
    return summary


def _manifest(runs: Runs, sources: Sources, summary: Report, started: float) -> Manifest:
    """Describe runs on some sets."""
    plan, best = runs.plan, runs.best
    readers = {name: source for name, source in sources.items()
               if isinstance(source, RecordReader)}
    settings = {"model": str(plan.model), "task": plan.task, **asdict(plan.config),
                **best.dev.settings, "max_length": runs.task.max_length,
                **{name: readers[name].names[0] if name in readers else "<memory>"
                   for name in sources}}
    for part in PLAN_PARTS:
        settings |= asdict(getattr(plan, part))
    train = readers.get(TRAIN)
    return Manifest("finetune", settings, runs.task.checkpoint.vocabulary, best.seed,
                    {name: digest for reader in readers.values()
                     for name, digest in reader.hashes.items()},
                    DirectoryHashes({"model": plan.model}), best.tokens_seen,
                    _seconds_since(started), {**summary, **(train.origins() if train else {})},
                    {TRAIN: train.licences()} if train else {}, plan.step)


def _summarize_folds(lines: list[Report], lost: int) -> Report:
    """Summarize scores over folds, each a mean over seeds.

    There is no interval: the folds' training sets overlap, so that their scores depend on each
    other and Student's t would be too narrow (Nadeau and Bengio 2003).

    Args:
        lines: of the folds.
        lost: number of folds whose seeds all diverged.
    """
    runs = sum(line.get("diverged", 0) for line in lines)
    summary: Report = {"folds": len(lines), "seeds": max(line["seeds"] for line in lines),
                       **({"diverged": runs} if runs else {}),
                       **({"diverged_folds": lost} if lost else {})}
    for name in lines[0]:
        if name.startswith((f"{DEV}_", f"{TEST}_")):
            summary[name] = summarize([line[name]["mean"] for line in lines], interval=False)
    return summary


def _seconds_since(started: float) -> float:
    return round(time.monotonic() - started, 3)


@dataclass(frozen=True)
class Fold:
    """One fold of a set.

    Args:
        number: of the fold.
        sources: records of `train`, `dev` and `test`, in this order; `dev` or `test` may lack.
    """

    number: int
    sources: Mapping[str, RecordReader]


def read_folds(directory: Path, dev_fold: int | None, reject: Reject) -> list[Fold]:
    """Find the files of folds; the one that chooses for the others comes first.

    Args:
        directory: of `fold-0` and so on, each with `train.jsonl`, `test.jsonl` and, if it
            chooses for itself, `dev.jsonl`.
        dev_fold: number of the fold that chooses; then the dev part of each belongs to its
            training set, and its test part is the dev set of all.
        reject: receives bad records.

    Raises:
        DataError: no such folds.
    """
    numbers = sorted(int(path.name.removeprefix("fold-")) for path in directory.glob("fold-*")
                     if path.name.removeprefix("fold-").isdecimal())
    if len(numbers) < 2:
        raise DataError(f"{directory}: found {len(numbers)} directories of folds, expected fold-0 "
                        "and so on, as bmtools split --folds 10 writes them")
    if dev_fold is not None and dev_fold not in numbers:
        raise DataError(f"{setting('dev_fold')}: found {dev_fold}, expected one of "
                        f"{', '.join(map(str, numbers))}")
    return [Fold(number, _sources(directory / f"fold-{number}", number, dev_fold, reject))
            for number in sorted(numbers, key=lambda number: number != dev_fold)]


def _sources(directory: Path, number: int, dev_fold: int | None,
             reject: Reject) -> dict[str, RecordReader]:
    files = {name: [str(directory / f"{name}.jsonl")] for name in (TRAIN, DEV, TEST)
             if (directory / f"{name}.jsonl").is_file()}
    if lacking := [name for name in (TRAIN, TEST) if name not in files]:
        raise DataError(f"{directory}: found no {lacking[0]}.jsonl, expected one in each fold")
    if dev_fold is not None:
        part = DEV if number == dev_fold else TEST
        files = {TRAIN: files[TRAIN] + files.get(DEV, []), part: files[TEST]}
    elif DEV not in files:
        raise DataError(f"{directory}: found no dev.jsonl, expected one that chooses the epoch, "
                        f"or {setting('dev_fold')}")
    return {name: RecordReader(paths, reject) for name, paths in files.items()}
