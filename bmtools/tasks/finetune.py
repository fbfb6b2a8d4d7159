"""Fine-tuning with several seeds and early stopping, on one data set or on its folds."""

from __future__ import annotations

import itertools
import json
import math
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from accelerate.utils import gather_object
from torch import Tensor

from bmtools.distributed import is_main_process
from bmtools.errors import BmtoolsError, DataError, Reject, count_of, refuse, setting
from bmtools.io.directories import new_directory, refuse_existing
from bmtools.io.jsonl import RecordReader, as_records
from bmtools.io.output import encode_lines
from bmtools.io.provenance.licence_check import (
    check_licences,
    known_licences,
    warn_of_no_derivatives,
)
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest
from bmtools.io.sources import source_name
from bmtools.models.checkpoint import check_room, write_checkpoint_files
from bmtools.models.offload import offload
from bmtools.records import Record, RecordSource
from bmtools.settings import split_settings
from bmtools.status import set_status
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.metrics.seeds import t_interval
from bmtools.tasks.registry import TASKS, load_task
from bmtools.tasks.seed_run import Report, Reporter, SeedRun, Stop, read_tokens, trained_model
from bmtools.tasks.settings import (
    FINETUNE_DEFAULTS,
    PLAN_PARTS,
    FinetunePlan,
    grid_plans,
    uses_folds,
)
from bmtools.tasks.task import DEV, TEST, TRAIN, AnySplit, AnyTask, notes_on_sets
from bmtools.tasks.unfinished import Best, Run, Unfinished, unfinished_run
from bmtools.training.distributed import (
    deterministic_algorithms,
    is_sharded,
    join_processes,
    make_accelerator,
    resolve_precision,
)
from bmtools.training.metrics import DivergedError
from bmtools.vocab.unknown_tokens import warn_of_unknown_tokens

SEEDS, FOLDS, GRID = "seeds.jsonl", "folds.jsonl", "grid.toml"
_PARTS = (TRAIN, DEV, TEST)
_DIGITS = 6
_CONFIDENCE = 0.95
Sources = Mapping[str, Iterable[Record]]
_Ranked = TypeVar("_Ranked", Best, "Runs")


def finetune(task: str, model: str | PathLike[str], train: RecordSource, dev: RecordSource | None,
             output: str | PathLike[str], test: RecordSource | None = None, *,
             reject: Reject = refuse, overwrite: bool = False, resume: bool = False,
             report: Reporter | None = None, **settings: object) -> Report:
    """Fine-tune a checkpoint on a task with several seeds and write the best one.

    Args:
        task: ner, classification or another name in the registry.
        model: checkpoint to start from; it is not changed.
        train: records or dictionaries to learn from, or a file of them; or a directory of folds
            that `bmtools split` wrote.
        dev: records used to select the epoch and the seed; None with folds.
        output: directory to write.
        test: records to score each seed on; not used to select a model.
        reject: receives bad records; by default the first one raises.
        overwrite: replace the content of the output directory.
        resume: continue an unfinished run, if there is one; finished seeds are kept.
        report: receives a dictionary for each set, epoch and seed, as the command prints them,
            and `{"note": ...}` about data that the task cannot use or represent completely.
        settings: fields of the task's settings, `FinetuneConfig`, `OptimizationConfig`,
            `LearningRateConfig`, `RegularizationConfig` or `FreezeConfig`, such as `seeds=1`.

    Returns:
        `checkpoint`, `model`, `best_seed`, `seeds` (their number), the chosen values of a `grid`,
        `wall_seconds`, and for each metric of the task `dev_METRIC` and, with a test set,
        `test_METRIC`. Each metric has `mean`, `median` and sample `deviation` over seeds (None for
        one seed), and the mean's 95 % `interval` by Student's t. Scores of each seed, also by type
        or label, are in the directory's `seeds.jsonl`. With folds, the models are the directories
        `fold-0` and so on. `folds` is the number of folds, `seeds` is the number of seeds per
        fold, means, medians and deviations are over folds, and the scores of each fold are in
        `folds.jsonl`. `diverged` is the number of runs that diverged, if any.

    Raises:
        ValueError: if a setting is unknown, or a value is out of range or has a wrong type.
        BmtoolsError: if data, checkpoint or directory cannot be used.
    """
    load_task(task)
    kinds: dict[str, Any] = {"config": TASKS[task][1], **PLAN_PARTS}
    parts = split_settings({**FINETUNE_DEFAULTS, **settings}, *kinds.values())
    plan = FinetunePlan(task, model=Path(model), output=Path(output), overwrite=overwrite,
                        resume=resume, **dict(zip(kinds, parts, strict=True)))
    sources = {name: source for name, source in zip(_PARTS, (train, dev, test), strict=True)
               if source is not None}
    report = report or (lambda line: None)
    with plan.step.metered():
        summary = run_finetuning(plan, sources, report, reject)
    report(summary)
    return summary


def run_finetuning(plan: FinetunePlan, sources: Mapping[str, RecordSource], report: Reporter,
                   reject: Reject = refuse) -> Report:
    """Fine-tune on sets or on folds, write the best models, and return the summary.

    A seed whose loss diverges is reported, counted and left out.

    Args:
        plan: task, checkpoints and settings.
        sources: `train`, `dev` and, if given, `test`, in this order; or only `train` with folds;
            files, records, or a directory of folds.
        report: receives a line for each set, evaluation, seed, fold and combination of a grid.
        reject: receives bad records, and records that the task cannot use.

    Raises:
        ValueError: if sets or settings contradict each other.
        DataError: if the model cannot learn from a set or be scored on it.
        BmtoolsError: if weights are sharded, or all runs diverge.
    """
    if not is_main_process():
        report = lambda line: None  # noqa: E731
    folds = uses_folds(sources, plan.finetuning)
    refuse_existing(plan.output, plan.overwrite)
    with unfinished_run(plan, join_processes(plan.optimization)) as unfinished:
        if unfinished.progress.identity:
            report({"note": "continuing an unfinished run"})
        if folds:
            summary = _run_folds(plan, Path(str(sources[TRAIN])), report, reject, unfinished)
        else:
            sets: Sources = {name: RecordReader([str(source)], reject)
                             if isinstance(source, str | PathLike) else source
                             if isinstance(source, RecordReader) else as_records(source, reject)
                             for name, source in sources.items()}
            summary = _write(train_runs(plan, sets, report, reject, unfinished), sets, unfinished)
    return {"checkpoint": str(plan.output), "model": str(plan.model), **summary,
            "wall_seconds": round(time.monotonic() - unfinished.began, 3)}


def _run_folds(plan: FinetunePlan, directory: Path, report: Reporter, reject: Reject,
               unfinished: Unfinished) -> Report:
    """Fine-tune on each fold and write its best model to `fold-0` and so on.

    If the first fold has no `test`, it selects epochs and grid settings for the other folds, which
    have no `dev`, and its model is not written. Lines contain the number of their `fold`, and each
    note is reported once.
    """
    folds = read_folds(directory, plan.finetuning.dev_fold, reject)
    notes: set[str] = set()
    lines: list[Report] = []
    tokens_seen = 0
    stops: Mapping[int, Stop] | None = None
    values: Mapping[str, object] = {}

    def report_of_fold(number: int, line: Report) -> None:
        if "note" not in line:
            report({"fold": number, **line})
        elif line["note"] not in notes:
            notes.add(line["note"])
            report({"note": f"fold {number}: {line['note']}"})

    with new_directory(plan.output, plan.overwrite) \
            if is_main_process() else nullcontext(plan.output) as partial_output:
        for fold, sources in folds.items():
            unfinished.part = f"fold {fold}"
            runs = train_runs(replace(plan, output=partial_output / f"fold-{fold}"), sources,
                              partial(report_of_fold, fold), reject, unfinished, stops)
            if TEST not in sources:
                stops, values = runs.stops, runs.values
                plan = replace(runs.plan, output=plan.output,
                               finetuning=replace(runs.plan.finetuning, grid=""))
                continue
            lines.append({"fold": fold, **_write(runs, sources, unfinished)})
            report(lines[-1])
            tokens_seen += runs.best.tokens_seen
        summary = _summarize_folds(lines)
        if not is_main_process():
            return summary
        (partial_output / FOLDS).write_bytes(encode_lines(lines))
        _write_grid(partial_output, values)
        hashes = {name: digest for sources in folds.values() for reader in sources.values()
                  for name, digest in reader.hashes.items()}
        replace(_manifest(runs, next(iter(folds.values())), summary, unfinished.began),
                inputs=hashes, tokens_seen=tokens_seen).write(partial_output)
    return summary


def _write(runs: Runs, sources: Sources, unfinished: Unfinished) -> Report:
    """Write the best model, its manifest with the resolved settings, and the seeds' lines.

    Returns:
        the summary: mean, median, sample deviation and interval over seeds for each metric.
    """
    plan, task, best = runs.plan, runs.task, runs.best
    summary: Report = {"best_seed": best.seed, "seeds": len(runs.lines),
                       **_given(diverged=runs.diverged, grid=runs.values)}
    for name, metric in itertools.product((DEV, TEST), task.metrics):
        if values := [line[name][metric] for line in runs.lines if name in line]:
            summary[f"{name}_{metric}"] = summarize(values, metric)
    plan.step.gather_energy(gather_object)
    if not is_main_process():
        return summary
    set_status(f"writing {plan.output}")
    model = task.finish(trained_model(task, best, runs.tokens, unfinished))
    with new_directory(plan.output, plan.overwrite) as partial:
        (partial / SEEDS).write_bytes(encode_lines(runs.lines))
        _write_grid(partial, runs.values)
        write_checkpoint_files(partial, model, task.checkpoint.tokenizer,
                               _manifest(runs, sources, summary, unfinished.began))
    return summary


def _write_grid(directory: Path, values: Mapping[str, object]) -> None:
    """Write the settings that a grid selected, if any, as a file for `--config`."""
    if values:  # these JSON values are also valid TOML
        (directory / GRID).write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value
                                              in values.items()), encoding="utf-8")


def _manifest(runs: Runs, sources: Sources, summary: Report, began: float) -> Manifest:
    """Describe the runs in a manifest."""
    plan, best = runs.plan, runs.best
    readers = {name: source for name, source in sources.items()
               if isinstance(source, RecordReader)}
    settings = {"model": str(plan.model), **plan.settings(),
                **best.dev.settings, "max_length": runs.task.max_length,
                **{name: readers[name].names[0] if name in readers else "<memory>"
                   for name in sources}}
    train = readers.get(TRAIN)
    return Manifest("finetune", settings, runs.task.checkpoint.vocabulary, best.seed,
                    {name: digest for reader in readers.values()
                     for name, digest in reader.hashes.items()},
                    DirectoryHashes({"model": plan.model}), best.tokens_seen,
                    round(time.monotonic() - began, 3),
                    {**summary, **(train.origins() if train else {})},
                    {TRAIN: train.licences()} if train else {}, plan.step)


def _summarize_folds(lines: list[Report]) -> Report:
    """Summarize scores over folds; the score of a fold is a mean over seeds.

    There is no interval, because the folds' training sets overlap. Their scores are therefore
    dependent, and Student's t would be too narrow (Nadeau and Bengio 2003).
    """
    return {"folds": len(lines), "seeds": max(line["seeds"] for line in lines),
            **_given(diverged=sum(line.get("diverged", 0) for line in lines)),
            **{name: summarize([line[name]["mean"] for line in lines], interval=False)
               for name in lines[0] if name.startswith((f"{DEV}_", f"{TEST}_"))}}


def read_folds(directory: Path, dev_fold: int | None,
               reject: Reject) -> dict[int, dict[str, RecordReader]]:
    """Find the files of folds, by number; the fold that selects for the others comes first.

    Args:
        directory: contains `fold-0` and so on, each with `train.jsonl`, `test.jsonl` and, unless
            another fold selects for it, `dev.jsonl`.
        dev_fold: number of the fold that selects. Each fold's dev part is then added to its
            training set, and the test part of this fold is the development set of all folds.
        reject: receives bad records.

    Returns:
        records of `train`, `dev` and `test` of each fold, in this order; `dev` or `test` may be
        missing.

    Raises:
        DataError: if there are no such folds.
    """
    numbers = sorted(int(path.name.removeprefix("fold-")) for path in directory.glob("fold-*")
                     if path.name.removeprefix("fold-").isdecimal())
    if len(numbers) < 2:
        raise DataError(f"{directory}: found {len(numbers)} directories of folds, expected fold-0 "
                        "and so on, as bmtools split --folds 10 writes them")
    if dev_fold is not None and dev_fold not in numbers:
        raise DataError(f"{setting('dev_fold')}: found {dev_fold}, expected one of "
                        f"{', '.join(map(str, numbers))}")
    folds = {}
    for number in sorted(numbers, key=lambda number: number != dev_fold):
        paths = {name: directory / f"fold-{number}" / f"{name}.jsonl" for name in _PARTS}
        files = {name: [str(path)] for name, path in paths.items() if path.is_file()}
        if lacking := [name for name in (TRAIN, TEST) if name not in files]:
            raise DataError(f"{paths[TRAIN].parent}: found no {lacking[0]}.jsonl, expected one in "
                            "each fold")
        if dev_fold is not None:
            part = DEV if number == dev_fold else TEST
            files = {TRAIN: files[TRAIN] + files.get(DEV, []), part: files[TEST]}
        elif DEV not in files:
            raise DataError(f"{paths[TRAIN].parent}: found no dev.jsonl to select the epoch; "
                            f"add it, or use {setting('dev_fold', 0)}")
        folds[number] = {name: RecordReader(own, reject) for name, own in files.items()}
    return folds


@dataclass(frozen=True)
class Runs:
    """The runs with one combination of settings.

    Args:
        plan: plan with these settings.
        task: task whose sets were read.
        values: settings of the grid.
        best: the best evaluation of all seeds.
        tokens: ids of the tokens whose embeddings were trained; None for all.
        lines: lines of the seeds that did not diverge.
        stops: point where each of these seeds was best.
        diverged: number of seeds that diverged.
    """

    plan: FinetunePlan
    task: AnyTask
    values: Mapping[str, object]
    best: Best
    tokens: Tensor | None
    lines: Sequence[Report]
    stops: Mapping[int, Stop]
    diverged: int

    @property
    def dev_scores(self) -> list[float]:
        """Each seed's score used for selection; empty if another fold selected."""
        return [line[DEV][self.task.metric] for line in self.lines if DEV in line]

    @property
    def rank(self) -> tuple[int, float]:
        """Rank, higher is better: fewer diverged seeds, then a higher mean of the others."""
        return -self.diverged, statistics.fmean(self.dev_scores or [0.0])


def train_runs(plan: FinetunePlan, sources: Sources, report: Reporter, reject: Reject,
               unfinished: Unfinished, stops: Mapping[int, Stop] | None = None) -> Runs:
    """Train with each seed and each combination of a grid.

    Weights are in memory only during training. The encoder's weights and the best ones are in
    files next to the output.

    Args:
        plan: task, checkpoints and settings.
        sources: `train`, `dev` and, if given, `test`, in this order; or without `dev`.
        report: receives a line for each set, evaluation, seed and combination.
        reject: receives records that the task cannot use.
        unfinished: finished work of the runs.
        stops: point where each seed's run stops; by default `dev` determines it.

    Returns:
        the runs of the best combination.
    """
    list(grid_plans(plan))  # raises for a wrong grid before anything is loaded
    if is_sharded(unfinished.processes):
        raise BmtoolsError("fine-tuning does not shard weights; leave out --use_fsdp")
    task_class = load_task(plan.task)
    task = task_class(plan.config,
                      load_encoder(plan.model, task_class.head_for(plan.config)[0]))
    splits = _read(task, sources, reject, report)
    texts = {", ".join(source.names): source.licences() for name, source in sources.items()
             if name == TRAIN and isinstance(source, RecordReader)}
    check_licences({**texts, str(plan.model): known_licences(plan.model)})
    warn_of_no_derivatives(texts)
    optimization, notes = resolve_precision(plan.optimization, task.checkpoint.model.config,
                                            unfinished.processes, unfinished.precision)
    for note in notes:
        report({"note": note})
    plan = replace(plan, optimization=optimization)
    unfinished.require(plan, splits)
    # The encoder's weights, a seed's best weights, and a training state with the optimizer.
    check_room(plan.output, task.checkpoint.model, copies=5)
    task.checkpoint = offload(task.checkpoint, plan.output)
    chosen = _best_runs(grid_plans(plan), task, splits, stops, report, unfinished)
    if shorter := [*_shortened(chosen)]:
        with suppress(DivergedError):
            chosen = _better(chosen, _best_runs(shorter, task, splits, stops, report, unfinished))
    if failed := chosen.dev_scores.count(0):
        report({"note": f"{task.metric} on {setting('dev')} is 0 in {count_of(failed, 'seeds')}, "
                        f"probably after too few or too small steps; raise {setting('epochs')} or "
                        f"{setting('learning_rate')}, or lower {setting('batch_size')}"})
    return chosen


def _best_runs(plans: Iterable[tuple[Mapping[str, object], FinetunePlan]], task: AnyTask,
               splits: Mapping[str, AnySplit], stops: Mapping[int, Stop] | None,
               report: Reporter, unfinished: Unfinished) -> Runs:
    """Train with each combination of settings, report on each, and return the best runs.

    Raises:
        DivergedError: if all runs diverged.
    """
    chosen: Runs | None = None
    for values, plan in plans:
        try:
            runs = _run_seeds(plan, task, splits, values, stops, report, unfinished)
            scores = {f"dev_{task.metric}": summarize(runs.dev_scores, task.metric),
                      **_given(diverged=runs.diverged)} if values else {}
            chosen = _better(chosen, runs)
        except DivergedError as found:
            error, scores = found, {"diverged": len(plan.finetuning.seed_numbers(
                plan.optimization.seed))}
        if values:
            report({"grid": values, **scores})
    if chosen is None:
        raise error
    return chosen


def _better(first: _Ranked | None, second: _Ranked) -> _Ranked:
    """Return the better of two, and discard the weights of the other."""
    if first is None:
        return second
    better, other = (second, first) if second.rank > first.rank else (first, second)
    (other.best if isinstance(other, Runs) else other).weights = ""
    return better


def _shortened(runs: Runs) -> Iterator[tuple[Mapping[str, object], FinetunePlan]]:
    """Yield a plan whose learning rate decays completely by the epoch that was best in the runs.

    Source: Goodfellow et al. 2016 (Deep Learning), algorithm 7.2: early stopping determines the
    length of training, then training starts again with this length.
    """
    settings = runs.plan.finetuning
    epochs = math.ceil(statistics.median(at["epoch"] for at, _ in runs.stops.values()))
    if settings.decay_to_best and runs.dev_scores and epochs < settings.epochs \
            and runs.plan.schedule.depends_on_length:
        yield ({**runs.values, "epochs": epochs},
               replace(runs.plan, finetuning=replace(settings, epochs=epochs)))


def _read(task: AnyTask, sources: Sources, reject: Reject,
          report: Reporter) -> dict[str, AnySplit]:
    """Read the sets, and report on each."""
    splits = {}
    model, unknown_id = task.checkpoint.path, task.checkpoint.tokenizer.unk_token_id
    for name, records in sources.items():
        set_status(f"reading {name}")
        splits[name] = task.read(name, records, reject)
        ids = np.concatenate([np.zeros(0), *(item.ids for item in splits[name].inputs)])
        warn_of_unknown_tokens(str(model), int(np.count_nonzero(ids == unknown_id)), len(ids),
                               map(source_name, getattr(records, "names", ())))
        for note in splits[name].notes:
            report({"note": f"{setting(name)}: {note}"})
        report({"split": name, **splits[name].counts})
    for note in notes_on_sets(task, splits):
        report({"note": note})
    if task.trained_head() is not None:
        report({"note": f"the output layer of {model} is trained further"})
    return splits


def _run_seeds(plan: FinetunePlan, task: AnyTask, splits: Mapping[str, AnySplit],
               values: Mapping[str, object], stops: Mapping[int, Stop] | None,
               report: Reporter, unfinished: Unfinished) -> Runs:
    """Train with each seed, and report each evaluation and seed.

    Raises:
        DivergedError: if every seed diverged.
    """
    seeds = list(stops) if stops else plan.finetuning.seed_numbers(plan.optimization.seed)
    task = copy(task)
    task.config = plan.config
    best: Best | None = None
    lines: list[Report] = []
    done: dict[int, Stop] = {}
    tokens = read_tokens(plan, task, splits)
    for seed in seeds:
        key = json.dumps([unfinished.part, values, seed])
        run = unfinished.progress.finished.get(key)
        if run is None:
            # Make a new one, because the loss scale of fp16 would carry over to the next seed.
            accelerator = make_accelerator(plan.optimization)
            seed_run = SeedRun(plan, task, splits, seed, accelerator, tokens,
                               stops[seed] if stops else None)
            try:
                with deterministic_algorithms(plan.optimization):
                    run = seed_run.run(report, unfinished, key)
            except DivergedError as diverged:
                run = Run({"seed": seed, "diverged": str(diverged)})
            finally:
                del seed_run  # free memory before the next model is made
                accelerator.free_memory()
            unfinished.finish(key, run)
        if run.best is None:
            error = DivergedError(run.line["diverged"])
            report(run.line)
            if len(seeds) > 1:
                report({"note": f"seed {seed} diverged: {error}"})
            continue
        lines.append({**run.line, **_given(grid=values)})
        report(lines[-1])
        done[seed] = run.best.at, run.best.dev.settings
        best = _better(best, run.best)
    if best is None:
        raise error
    return Runs(plan, task, values, best, tokens, lines, done, len(seeds) - len(lines))


def _given(**values: object) -> Report:
    """Return the values that are not empty."""
    return {name: value for name, value in values.items() if value}


def summarize(values: Sequence[float], metric: str = "", interval: bool = True) -> Report:
    """Compute mean, median, sample deviation and t interval over runs; one run has no last two.

    Args:
        values: the score of each run.
        metric: name of the score; its range limits the interval.
        interval: whether the runs are independent of each other, unlike folds.
    """
    bounds = t_interval(values, _CONFIDENCE, metric) if interval else None
    return {"mean": round(statistics.fmean(values), _DIGITS),
            "median": round(statistics.median(values), _DIGITS),
            "deviation": round(statistics.stdev(values), _DIGITS) if len(values) > 1 else None,
            **({"interval": [round(bound, _DIGITS) for bound in bounds]} if bounds else {})}
