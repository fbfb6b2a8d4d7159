"""Pretraining of a masked language model, from scratch or continued, in phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator

from bmtools.errors import Reject, refuse
from bmtools.io.json_files import read_manifest
from bmtools.io.provenance.manifest import is_finished
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.training.adversarial import AdversarialObjective
from bmtools.training.evaluation import HELD_OUT
from bmtools.training.model_init import load_initial_model
from bmtools.training.objectives import (
    CausalObjective,
    MaskedObjective,
    Objective,
    PairObjective,
    PhasedObjective,
)
from bmtools.training.plan import (
    Data,
    DataConfig,
    ModelInit,
    TrainingPlan,
    check_targets,
    make_data_config,
    make_plan,
    make_run_config,
    pretraining_init,
)
from bmtools.training.run import describe, train
from bmtools.training.run_directories import runs_directory

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def pretrain(data: Data, output: str | Path, *, model: str | Path | None = None,
             architecture: str | None = None, tokenizer: str | Path | None = None,
             recipe: str | None = None, phases: str | Path | None = None,
             on_report: Callable[[dict[str, Any]], None] | None = None, resume: bool = False,
             overwrite: bool = False, **settings: Any) -> dict[str, Any]:
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
        resume: continue from the newest state; a finished run is left alone.
        overwrite: replace an existing checkpoint or unfinished run.
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
    config = make_run_config(recipe, phases, settings)
    init = pretraining_init(model, architecture, tokenizer, config)
    plan = make_plan(Path(output), config, init, data_config, resume, overwrite)
    return run_to_end(plan, lambda: pretrain_lines(plan, init, data_config, refuse), on_report)


def run_to_end(plan: TrainingPlan, start: Callable[[], Iterable[dict[str, Any]]],
               on_report: Callable[[dict[str, Any]], None] | None) -> dict[str, Any]:
    """Run a plan to its end and return its last line; a finished run that resumes has no others.

    Args:
        plan: settings of the run.
        start: returns the lines of the run.
        on_report: called with each line but the last.
    """
    if plan.resume and is_finished(plan.output, runs_directory(plan.output)):
        return describe(str(plan.output), read_manifest(plan.output))
    check_targets(plan)
    last: dict[str, Any] = {}
    for line in start():
        if last and on_report:
            on_report(last)
        last = line
    return last


def pretrain_lines(plan: TrainingPlan, model: ModelInit, data: DataConfig,
                   reject: Reject) -> Iterator[dict[str, Any]]:
    """Train a masked language model and yield its metrics; see `train` for the lines.

    Args:
        plan: settings of the run.
        model: initial weights.
        data: corpora of the run.
        reject: receives bad records.

    Raises:
        CheckpointError: a checkpoint, tokenizer or directory of shards cannot be used.
        BmtoolsError: as for `train`.
    """
    initial = load_initial_model(model, plan.optimization.seed, plan.config.phases,
                                 positions=plan.initialization.positions)
    return train(plan, initial, data, reject, make_objectives)


def make_objectives(plan: TrainingPlan, model: PreTrainedModel, head: NextSentenceHead | None,
                    _accelerator: Accelerator,
                    _identity: Mapping[str, Any]) -> PhasedObjective:
    """Make the objectives of all phases of a plan, and of held-out text, around a model.

    Args:
        plan: settings of the run.
        model: to train.
        head: of sentence pairs that came with the model; None for a new one if needed.
    """
    terms = {phase.objective.objective: phase.objective.pair_term for phase in plan.config.phases}
    if head is None and any(terms.values()):
        head = NextSentenceHead(model.config.hidden_size, plan.optimization.seed,
                                model.config.initializer_range)
    objectives: dict[str, Objective] = {}
    for name, term in sorted(terms.items()):
        own_head = head if term else None
        if name == "causal":
            objectives[name] = CausalObjective(model)
        elif plan.adversarial.adversarial:
            objectives[name] = AdversarialObjective(model, plan.adversarial, own_head, term)
        else:
            objectives[name] = PairObjective(model, own_head, term) if own_head else \
                MaskedObjective(model)
    return PhasedObjective(model, {**objectives, HELD_OUT: MaskedObjective(model)}, head)
