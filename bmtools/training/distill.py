"""Distillation of one masked language model into another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator

from bmtools.errors import Reject, refuse
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import load_checkpoint
from bmtools.models.packed import prepare_packed
from bmtools.recipes.settings import DistillationConfig
from bmtools.training.checks import check_shared_length
from bmtools.training.evaluation import HELD_OUT
from bmtools.training.model_init import load_initial_model
from bmtools.training.objectives import DistillationObjective, MaskedObjective, PhasedObjective
from bmtools.training.plan import (
    DISTILLATION_WARMUP,
    Data,
    DataConfig,
    ModelInit,
    TrainingPlan,
    make_data_config,
    make_plan,
    make_run_config,
)
from bmtools.training.pretrain import run_to_end
from bmtools.training.run import train
from bmtools.vocab.tokenizer import require_same_vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bmtools.models.next_sentence import NextSentenceHead


def distill(data: Data, output: str | Path, *, teacher: str | Path,
            student: str | Path | None = None, architecture: str | None = None,
            recipe: str | None = None, phases: str | Path | None = None,
            on_report: Callable[[dict[str, Any]], None] | None = None, resume: bool = False,
            overwrite: bool = False, **settings: Any) -> dict[str, Any]:
    """Train a smaller masked language model to predict as a larger one, to the end.

        distill("corpus.jsonl", "small", teacher="model", architecture="bert-tiny", steps=1000)

    Args:
        data: paths of records or shards, or corpora by name for mixtures.
        output: directory of the checkpoint.
        teacher: checkpoint to learn from.
        student: checkpoint to train, with the teacher's vocabulary; or else
        architecture: of a student with new weights.
        recipe: name of a recipe that gives phases and settings.
        phases: TOML file that gives them.
        on_report: called with each line of metrics, a dictionary, and with `{"note": ...}` for
            what is to be said to people.
        resume: continue from the newest state; a finished run is left alone.
        overwrite: replace an existing checkpoint or unfinished run.
        settings: as for `pretrain`, and those of `DistillationConfig`, such as `temperature`.

    Returns:
        description of the checkpoint, as for `pretrain`.

    Raises:
        ValueError: a setting that is unknown, out of range or at odds with another one.
        BmtoolsError: data, model or output that cannot be used, or a loss that diverged.
    """
    data_config, settings = make_data_config(data, settings)
    names = {field.name for field in fields(DistillationConfig)} & settings.keys()
    distillation = DistillationConfig(**{name: settings.pop(name) for name in names})
    config = make_run_config(recipe, phases, settings, warmup_ratio=DISTILLATION_WARMUP)
    init = ModelInit(Path(student) if student else None, architecture)
    plan = make_plan(Path(output), config, init, data_config, resume, overwrite, Path(teacher),
                     distillation)
    return run_to_end(plan, lambda: distill_lines(plan, init, Path(teacher), data_config,
                                                  distillation, refuse), on_report)


def distill_lines(plan: TrainingPlan, student: ModelInit, teacher: Path, data: DataConfig,
                  settings: DistillationConfig, reject: Reject) -> Iterator[dict[str, Any]]:
    """Train a student to predict masked tokens as its teacher does, and yield metrics.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1; the paper starts from a pretrained student;
    an architecture starts from new weights instead.

    Raises:
        CheckpointError: a checkpoint cannot be used, or the two have different vocabularies.
        BmtoolsError: sequences longer than the positions of either model.
    """
    taught = load_checkpoint(teacher)
    initial = load_initial_model(student, plan.optimization.seed, tokenizer=taught.tokenizer,
                                 positions=plan.initialization.positions)
    if student.checkpoint is not None:
        require_same_vocabulary(initial.vocabulary, taught.vocabulary,
                                f"{student.checkpoint}: student")
    check_shared_length(plan.config.phases, initial.max_length, max_tokens(taught.model))

    def make_objective(plan: TrainingPlan, model: PreTrainedModel,
                       head: NextSentenceHead | None,
                       accelerator: Accelerator) -> PhasedObjective:
        taught.model.to(accelerator.device)
        if plan.layout == "packed":
            prepare_packed(taught.model)
        torch.manual_seed(plan.optimization.seed)
        return PhasedObjective(model, {
            "masked": DistillationObjective(model, taught.model, settings),
            HELD_OUT: MaskedObjective(model)}, head)

    return train(plan, initial, data, reject, make_objective)
