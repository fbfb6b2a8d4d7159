"""Fine-tuning: several seeds, each stopped early, the best one kept; of one set or of its folds."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path

from bmtools.errors import Reject, refuse, require, setting
from bmtools.io.directories import new_directory, refuse_existing
from bmtools.io.jsonl import RecordReader, as_records
from bmtools.io.output import encode_lines
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest
from bmtools.models.checkpoint import write_checkpoint_files
from bmtools.records import Record, RecordSource
from bmtools.settings import split_settings
from bmtools.status import set_status
from bmtools.tasks.folds import Fold, read_folds
from bmtools.tasks.registry import load_task
from bmtools.tasks.run_settings import (
    FINETUNE_DEFAULTS,
    PLAN_PARTS,
    FinetunePlan,
    uses_folds,
)
from bmtools.tasks.runs import Runs, summarize, train_runs
from bmtools.tasks.seed_run import Report, Reporter, Stop
from bmtools.tasks.task import DEV, TEST, TRAIN, UNLABELLED
from bmtools.tasks.trained_model import trained_model
from bmtools.training.metrics import DivergedError

SEEDS, FOLDS = "seeds.jsonl", "folds.jsonl"


def finetune(task: str, model: str | PathLike[str], train: RecordSource, dev: RecordSource | None,
             output: str | PathLike[str], test: RecordSource | None = None, *,
             teacher: str | PathLike[str] | None = None, unlabelled: RecordSource | None = None,
             reject: Reject = refuse, overwrite: bool = False,
             report: Reporter | None = None, **settings: object) -> Report:
    """Fine-tune a checkpoint on a task with several seeds and write the best one.

    Args:
        task: ner, classification or another name of the registry.
        model: checkpoint to start from; it is not changed.
        train: records or dictionaries to learn from, or a file of them; or a directory of folds
            that `bmtools split` wrote.
        dev: records that choose the epoch and the seed; None with folds.
        output: directory to write.
        test: records to score each seed by; they choose nothing.
        teacher: model fine-tuned on the task, whose predictions are learned beside the labels.
        unlabelled: records that only the teacher labels.
        reject: receives bad records; by default the first one raises.
        overwrite: replace the content of the output directory.
        report: receives a dictionary for each set, epoch and seed, as the command prints them,
            and `{"note": ...}` about data that cannot be used or expressed fully.
        settings: of the task, `FinetuneConfig`, `LoraConfig`, `OptimizationConfig`,
            `LearningRateConfig`, `RegularizationConfig`, `FreezeConfig` or
            `TaskDistillationConfig`, by name, such as `seeds=1, max_length=128`.

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
    kinds = {"config": load_task(task).config_class, **PLAN_PARTS}
    known = {field.name for kind in kinds.values() for field in fields(kind)}
    if unknown := sorted(settings.keys() - known):
        raise TypeError(f"found settings {', '.join(unknown)}, expected some of "
                        f"{', '.join(sorted(known))}")
    parts = split_settings({**FINETUNE_DEFAULTS, **settings}, *kinds.values())
    plan = FinetunePlan(task, model=Path(model), output=Path(output), overwrite=overwrite,
                        teacher=Path(teacher) if teacher else None,
                        **dict(zip(kinds, parts, strict=True)))
    sources = {name: source for name, source in (
        (TRAIN, train), (DEV, dev), (TEST, test), (UNLABELLED, unlabelled)) if source is not None}
    report = report or (lambda line: None)
    with plan.step.metered():
        summary = run_sources(plan, sources, report, reject)
    report(summary)
    return summary


def run_sources(plan: FinetunePlan, sources: Mapping[str, RecordSource], report: Reporter,
                reject: Reject = refuse) -> Report:
    """Fine-tune on sets or on folds.

    Args:
        plan: task, checkpoints and settings.
        sources: of `train`, `dev` and perhaps `test` and `unlabelled`, or of `train` alone with
            folds; files, several ones in a list, records, or a directory of folds.
        report: receives what `run_finetuning` or `run_folds` report.
        reject: receives bad records.

    Returns:
        the summary, see `finetune`.

    Raises:
        ValueError: sets or settings that contradict each other.
        BmtoolsError: see `run_finetuning` and `run_folds`.
    """
    others = {name: source for name, source in sources.items() if name not in (TRAIN, UNLABELLED)}
    unlabelled = UNLABELLED in sources
    require(plan.teacher is not None or not unlabelled, UNLABELLED, "some",
            f"none without {setting('teacher')}")
    if uses_folds(sources[TRAIN], others, plan.finetuning):
        require(not unlabelled, UNLABELLED, "some", "none beside folds")
        return run_folds(plan, read_folds(sources[TRAIN], load_task(plan.task).key,
                                          plan.finetuning, plan.optimization.seed, reject),
                         report, reject)
    require(DEV in sources, DEV, "none", "a set that chooses the epoch and the seed")
    return run_finetuning(plan, {name: _records(source, reject)
                                 for name, source in sources.items()}, report, reject)


def _records(source: RecordSource, reject: Reject) -> Iterable[Record]:
    """Read records from a file or from several, or take them from memory."""
    files = [source] if isinstance(source, str | PathLike) else source
    if isinstance(files, Sequence) and all(isinstance(file, str | PathLike) for file in files):
        return RecordReader([str(file) for file in files], reject)
    return as_records(files, reject)


def run_finetuning(plan: FinetunePlan, sources: Mapping[str, Iterable[Record]], report: Reporter,
                   reject: Reject = refuse) -> Report:
    """Fine-tune with each seed, write the one that is best on `dev`, and return the summary.

    A seed whose loss diverges is reported, counted and left out.

    Args:
        plan: task, checkpoints and settings.
        sources: records of `train`, `dev` and perhaps `test`, in this order.
        report: receives a line for each set, evaluation, seed and combination of a grid.
        reject: receives records that the task cannot use.

    Raises:
        DataError: a set that the model cannot learn from or be scored by.
        BmtoolsError: several processes, or seeds that all diverge.
    """
    started = time.monotonic()
    refuse_existing(plan.output, plan.overwrite)
    summary = _write(train_runs(plan, sources, report, reject), sources, started)
    return {"checkpoint": str(plan.output), "model": str(plan.model), **summary,
            "wall_seconds": _seconds_since(started)}


def run_folds(plan: FinetunePlan, folds: Sequence[Fold], report: Reporter,
              reject: Reject = refuse) -> Report:
    """Fine-tune on each fold, write the best model of each, and return a summary over folds.

    A fold whose seeds all diverge is reported, counted and left out.

    Args:
        plan: its output gets the models, as `fold-0` and so on.
        folds: if the first one has no `test`, it chooses epochs, and settings of a grid, for the
            others, which have no `dev`; no model of it is written.
        report: receives the lines of `run_finetuning` with the number of their `fold`, each note
            once, and the scores of each fold.
        reject: receives records that the task cannot use.

    Raises:
        DataError: a set that the model cannot learn from or be scored by.
        BmtoolsError: several processes, or folds that all diverge.
    """
    started = time.monotonic()
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
            own = replace(plan, output=partial_output / f"fold-{fold.number}")
            fold_started = time.monotonic()
            try:
                runs = train_runs(own, fold.sources, partial(report_of_fold, fold.number), reject,
                                  stops)
            except DivergedError as found:
                if TEST not in fold.sources:
                    raise
                error, lost = found, lost + 1
                report({"note": f"fold {fold.number} diverged: {error}"})
                continue
            if TEST not in fold.sources:
                stops = runs.stops
                plan = replace(runs.plan, output=plan.output, finetuning=replace(
                    runs.plan.finetuning, grid="", trials=0))
                continue
            lines.append({"fold": fold.number, **_write(runs, fold.sources, fold_started)})
            report(lines[-1])
        if not lines:
            raise error
        summary = _summarize_folds(lines, lost)
        (partial_output / FOLDS).write_bytes(encode_lines(lines))
        _manifest(runs, [fold.sources for fold in folds], summary, started).write(partial_output)
    return {"checkpoint": str(plan.output), "model": str(plan.model), **summary,
            "wall_seconds": _seconds_since(started)}


def _write(runs: Runs, sources: Mapping[str, Iterable[Record]], started: float) -> Report:
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
    model = task.finish(trained_model(plan, task, best))
    with new_directory(plan.output, plan.overwrite) as partial:
        (partial / SEEDS).write_bytes(encode_lines(runs.lines))
        write_checkpoint_files(partial, model, task.checkpoint.tokenizer,
                               _manifest(runs, [sources], summary, started))
    return summary


def _manifest(runs: Runs, sets: Sequence[Mapping[str, Iterable[Record]]], summary: Report,
              started: float) -> Manifest:
    """Describe runs; of several folds the sets of the first are named, and all are hashed."""
    plan, best = runs.plan, runs.best
    readers = [source for sources in sets for source in sources.values()
               if isinstance(source, RecordReader)]
    names = {name: source.names[0] if isinstance(source, RecordReader) else "<memory>"
             for name, source in sets[0].items()}
    train = sets[0][TRAIN]
    settings = {"model": str(plan.model), "task": plan.task, **asdict(plan.config),
                **best.dev.settings, "max_length": runs.task.max_length, **names,
                **asdict(plan.finetuning), **asdict(plan.optimization),
                **asdict(plan.schedule), **asdict(plan.regularization), **asdict(plan.freezing),
                **asdict(plan.lora),
                **({"teacher": str(plan.teacher), **asdict(plan.distillation)}
                   if plan.teacher else {})}
    parents = {"model": plan.model, **({"teacher": plan.teacher} if plan.teacher else {})}
    hashes = {name: digest for reader in readers for name, digest in reader.hashes.items()}
    return Manifest("finetune", settings, runs.task.checkpoint.vocabulary, best.seed, hashes,
                    DirectoryHashes(parents),
                    best.tokens_seen, _seconds_since(started),
                    {**summary, **(train.origins() if isinstance(train, RecordReader) else {})},
                    {name: source.licences() for name, source in sets[0].items()
                     if name in (TRAIN, UNLABELLED) and isinstance(source, RecordReader)},
                    plan.step)


def _summarize_folds(lines: Sequence[Report], lost: int) -> Report:
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
