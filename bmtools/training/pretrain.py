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
    """Train a masked language model, and write its checkpoint.

        pretrain("corpus.jsonl", "model", architecture="bert-small", tokenizer="vocabulary",
                 max_length=128, steps=1000)

    Args:
        data: paths of records or shards, or corpora by name for mixtures.
        output: directory of the checkpoint.
        model: checkpoint to continue; instead of `architecture`.
        architecture: architecture of a model with new weights: bert-base, modernbert-4x256, a
            config.json ...
        tokenizer: directory of the tokenizer for an architecture.
        recipe: name of a recipe with phases and settings.
        phases: TOML file with phases and settings.
        on_report: called with each line of metrics, a dictionary, and with `{"note": ...}` for
            messages to people.
        scorers: called with the directory of a checkpoint at the start, at each phase's end and
            every `eval_steps`; the first line of scores is added to the metrics. For example
            `[partial(bmtools.scoring.mrr, "curated.jsonl")]`.
        resume: continue from the newest state; a finished run is not changed.
        overwrite: replace an existing checkpoint or unfinished run.
        dry_run: only return a forecast of the run, without output; see `forecast`.
        settings: settings of all phases or of the run by name, such as `max_length`, `steps` or
            `seed`; also `replay`, `evaluate`, `retain`, `lang`, `segmenter` and `terms`, as for the
            command.

    Returns:
        description of the checkpoint: `checkpoint` (its path), `steps`, `layout`, `corpora`
        (documents and tokens by name), `last` (the last line of metrics), `tokens_seen`,
        `wall_seconds`, and `evaluate` and `retained` if these corpora were given. If `budget` or a
        signal ended the run, the description is `stopped` (the step), `of`, `state` and
        `wall_seconds`.

    Raises:
        ValueError: a setting is unknown, out of range or contradicts another one. BmtoolsError:
            data, model or output cannot be used, or the loss diverged.
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
        start: trains the loaded model, or makes a forecast.

    Raises:
        CheckpointError: a checkpoint, tokenizer or directory of shards cannot be used.
        BmtoolsError: see `train`.
    """
    initial = load_initial_model(model, plan.optimization.seed, plan.config.phases,
                                 positions=plan.pretraining.positions)
    return start(plan, initial, data, reject)
