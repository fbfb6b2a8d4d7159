"""Pretraining of a masked language model, from scratch or continued, in phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bmtools.errors import Reject, refuse
from bmtools.records import JsonObject
from bmtools.training.forecast import run_to_end
from bmtools.training.model_init import load_initial_model
from bmtools.training.plan import (
    Data,
    DataConfig,
    ModelInit,
    Scorer,
    TrainingPlan,
    continued_defaults,
    make_data_config,
    make_init,
    make_plan,
    make_run_config,
)
from bmtools.training.run import StartRun, train


def pretrain(data: Data, output: str | Path, *, model: str | Path | None = None,
             architecture: str | None = None, tokenizer: str | Path | None = None,
             recipe: str | None = None, phases: str | Path | None = None,
             on_report: Callable[[JsonObject], None] | None = None,
             scorers: Sequence[Scorer] = (), resume: bool = False,
             overwrite: bool = False, dry_run: bool = False, **settings: object) -> JsonObject:
    """Train a masked language model to the end, and write its checkpoint.

        pretrain("corpus.jsonl", "model", architecture="bert-small", tokenizer="vocabulary",
                 max_length=128, steps=1000)

    Args:
        data: paths of records or shards, or corpora by name for mixtures.
        output: directory of the checkpoint.
        model: checkpoint to continue; or else
        architecture: of a model with new weights: bert-base, modernbert-4x256, a config.json ...
        tokenizer: directory of the tokenizer for an architecture.
        recipe: name of a recipe that gives phases and settings.
        phases: TOML file that gives them.
        on_report: called with each line of metrics, a dictionary, and with `{"note": ...}` for
            what is to be said to people.
        scorers: called with the directory of a checkpoint at the start, at each phase's end and
            every `eval_steps`; the first line of scores joins the metrics. For example
            `[partial(bmtools.scoring.mrr, "curated.jsonl")]`.
        resume: continue from the newest state; a finished run is left alone.
        overwrite: replace an existing checkpoint or unfinished run.
        dry_run: write nothing, and return a forecast of the run; see `forecast`.
        settings: of all phases or of the run by name, such as `max_length`, `steps` or `seed`;
            and `replay`, `evaluate`, `retain`, `lang`, `segmenter` and `terms`, as for the command.

    Returns:
        description of the checkpoint: `checkpoint` (its path), `steps`, `layout`, `corpora`
        (documents and tokens by name), `last` (the last line of metrics), `tokens_seen`,
        `wall_seconds`, and `evaluate` and `retained` where those corpora were given. A run that
        its `budget` or a signal ended has `stopped` (the step), `of`, `state` and `wall_seconds`
        instead.

    Raises:
        ValueError: a setting that is unknown, out of range or at odds with another one.
        BmtoolsError: data, model or output that cannot be used, or a loss that diverged.
    """
    data_config, settings = make_data_config(data, settings)
    config = make_run_config(recipe, phases, settings,
                             **continued_defaults(model, Path(output), resume))
    init = make_init(model, architecture or ("" if model else config.architecture), tokenizer)
    plan = replace(make_plan(Path(output), config, init, data_config, resume, overwrite),
                   scorers=scorers)
    return run_to_end(plan, partial(pretrain_lines, plan, init, data_config, refuse), on_report,
                      dry_run)


def pretrain_lines(plan: TrainingPlan, model: ModelInit, data: DataConfig,
                   reject: Reject, start: StartRun = train) -> Iterator[JsonObject]:
    """Train a masked language model and yield its metrics; see `train` for the lines.

    Args:
        plan: settings of the run.
        model: initial weights.
        data: corpora of the run.
        reject: receives bad records.
        start: trains the loaded model, or forecasts that.

    Raises:
        CheckpointError: a checkpoint, tokenizer or directory of shards cannot be used.
        BmtoolsError: as for `train`.
    """
    initial = load_initial_model(model, plan.optimization.seed, plan.config.phases,
                                 positions=plan.pretraining.positions)
    return start(plan, initial, data, reject)
