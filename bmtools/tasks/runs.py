"""The runs of fine-tuning: every seed of every combination of settings, the best one kept."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bmtools.errors import BmtoolsError, Reject, refuse, setting
from bmtools.io.jsonl import RecordReader
from bmtools.io.provenance.licence_check import (
    check_licences,
    known_licences,
    warn_of_no_derivatives,
)
from bmtools.io.sources import source_name
from bmtools.models.checkpoint import check_room
from bmtools.models.offload import offload
from bmtools.records import Record
from bmtools.status import set_status
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.metrics.seeds import t_interval
from bmtools.tasks.registry import load_task
from bmtools.tasks.seed_run import Best, Report, Reporter, SeedRun, Stop
from bmtools.tasks.settings import FinetunePlan, grid_plans
from bmtools.tasks.task import DEV, TRAIN, AnySplit, AnyTask
from bmtools.training.auto import resolve_precision
from bmtools.training.distributed import (
    deterministic_algorithms,
    join_processes,
    make_accelerator,
)
from bmtools.training.metrics import DivergedError
from bmtools.vocab.unknown_tokens import warn_of_unknown_tokens

_DIGITS = 6
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Runs:
    """The runs of one combination of settings.

    Args:
        plan: with these settings.
        task: whose sets were read.
        values: settings of the grid.
        best: the best evaluation of all seeds.
        lines: of each seed that did not diverge.
        stops: where each of them was best.
        diverged: number of the others.
    """

    plan: FinetunePlan
    task: AnyTask
    values: Mapping[str, object]
    best: Best
    lines: Sequence[Report]
    stops: Mapping[int, Stop]
    diverged: int

    @property
    def dev_scores(self) -> list[float]:
        """Scores that choose, of each seed; none where another fold chose."""
        return [line[DEV][self.task.metric] for line in self.lines if DEV in line]

    @property
    def rank(self) -> tuple[int, float]:
        """The highest is best: seeds that diverge count before the mean of the others."""
        return -self.diverged, statistics.fmean(self.dev_scores or [0.0])


def train_runs(plan: FinetunePlan, sources: Mapping[str, Iterable[Record]], report: Reporter,
               reject: Reject = refuse, stops: Mapping[int, Stop] | None = None) -> Runs:
    """Train with each seed and each combination of a grid.

    Memory holds the weights in training alone; those of the encoder and the best ones are in files
    beside the output.

    Args:
        plan: task, checkpoints and settings.
        sources: records of `train`, `dev` and perhaps `test`, in this order; or without `dev`.
        report: receives a line for each set, evaluation, seed and combination.
        reject: receives records that the task cannot use.
        stops: where the run of each seed stops, instead of by `dev`.

    Returns:
        the runs of the best combination.
    """
    plans = list(grid_plans(plan))
    processes = join_processes(plan.optimization)
    if processes.num_processes > 1:
        raise BmtoolsError("fine-tuning runs in one process; start it without accelerate launch, "
                           f"with another {setting('seed')} on each machine")
    task_class = load_task(plan.task)
    task = task_class(plan.config, load_encoder(plan.model,
                                                task_class.model_class_for(plan.config)))
    splits = _read(task, sources, reject, report)
    texts = {", ".join(source.names): source.licences() for name, source in sources.items()
             if name == TRAIN and isinstance(source, RecordReader)}
    check_licences({**texts, str(plan.model): known_licences(plan.model)})
    warn_of_no_derivatives(texts)
    optimization, notes = resolve_precision(plan.optimization, task.checkpoint.model.config,
                                            processes)
    for note in notes:
        report({"note": note})
    # The encoder's weights, those of a seed's best evaluation, and of the best seed before it.
    check_room(plan.output, task.checkpoint.model, copies=3)
    task.checkpoint = offload(task.checkpoint, plan.output)
    chosen: Runs | None = None
    for values, one in plans:
        one = replace(one, optimization=replace(
            one.optimization, precision=optimization.precision))
        runs: Runs | None = None
        try:
            runs = _run_seeds(one, task, splits, values, stops, report)
        except DivergedError as found:
            error = found
        if values:
            report({"grid": values, **_grid_scores(runs, one)})
        if runs and (chosen is None or runs.rank > chosen.rank):
            chosen = runs
    if chosen is None:
        raise error
    return chosen


def _read(task: AnyTask, sources: Mapping[str, Iterable[Record]], reject: Reject,
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
            report({"note": note})
        report({"split": name, **splits[name].counts})
    if task.trained_head() is not None:
        report({"note": f"the output layer of {model} is trained further"})
    return splits


def _run_seeds(plan: FinetunePlan, task: AnyTask, splits: Mapping[str, AnySplit],
               values: Mapping[str, object], stops: Mapping[int, Stop] | None,
               report: Reporter) -> Runs:
    """Train with each seed, and report each evaluation and seed.

    Raises:
        DivergedError: every seed diverged.
    """
    seeds = list(stops) if stops else plan.finetuning.seed_numbers(plan.optimization.seed)
    best: Best | None = None
    lines: list[Report] = []
    done: dict[int, Stop] = {}
    for seed in seeds:
        # A new one, since the loss scale of fp16 would go on from seed to seed.
        accelerator = make_accelerator(plan.optimization)
        run = SeedRun(plan, task, splits, seed, accelerator, stops[seed] if stops else None)
        try:
            with deterministic_algorithms(plan.optimization):
                found, line = run.run(report)
        except DivergedError as diverged:
            error = diverged
            report({"seed": seed, "diverged": str(error)})
            if len(seeds) > 1:
                report({"note": f"seed {seed} diverged: {error}"})
            continue
        finally:
            del run  # before there is another model
            accelerator.free_memory()
        lines.append({**line, **({"grid": values} if values else {})})
        report(lines[-1])
        done[seed] = found.at, found.dev.settings
        best = found if best is None or found.rank > best.rank else best
    if best is None:
        raise error
    return Runs(plan, task, values, best, lines, done, len(seeds) - len(lines))


def _grid_scores(runs: Runs | None, plan: FinetunePlan) -> Report:
    """Summarize a combination; `diverged` is the number of seeds that did, all where none is."""
    if runs is None:
        return {"diverged": len(plan.finetuning.seed_numbers(plan.optimization.seed))}
    return {f"dev_{runs.task.metric}": summarize(runs.dev_scores),
            **({"diverged": runs.diverged} if runs.diverged else {})}


def summarize(values: Sequence[float], interval: bool = True) -> Report:
    """Compute mean, median, sample deviation and t interval over runs; one has no last two.

    Args:
        values: a score of each.
        interval: whether the runs are independent of each other, as those of folds are not.
    """
    bounds = t_interval(values, _CONFIDENCE) if interval else None
    return {"mean": round(statistics.fmean(values), _DIGITS),
            "median": round(statistics.median(values), _DIGITS),
            "deviation": round(statistics.stdev(values), _DIGITS) if len(values) > 1 else None,
            **({"interval": [round(bound, _DIGITS) for bound in bounds]} if bounds else {})}
