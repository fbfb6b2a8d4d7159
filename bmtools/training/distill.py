"""Distillation of one masked language model into another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from bmtools.errors import CheckpointError, Reject, refuse
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import load_checkpoint
from bmtools.models.families import require_length
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.packed import prepare_packed
from bmtools.models.precision import FLOAT32_ONLY
from bmtools.records import JsonObject
from bmtools.training.distillation import DistillationObjective, Teacher
from bmtools.training.evaluation import HELD_OUT
from bmtools.training.forecast import run_to_end
from bmtools.training.model_init import load_initial_model
from bmtools.training.objectives import MaskedObjective, PhasedObjective
from bmtools.training.plan import (
    DISTILLATION_WARMUP,
    Data,
    DataConfig,
    ModelInit,
    TrainingPlan,
    distillation_init,
    make_data_config,
    make_plan,
    make_run_config,
)
from bmtools.training.run import StartRun, train

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def distill(data: Data, output: str | Path, *, teacher: str | Path,
            student: str | Path | None = None, architecture: str | None = None,
            take_layers: str = "", tokenizer: str | Path | None = None,
            recipe: str | None = None, phases: str | Path | None = None,
            on_report: Callable[[JsonObject], None] | None = None, resume: bool = False,
            overwrite: bool = False, dry_run: bool = False, **settings: object) -> JsonObject:
    """Train a smaller masked language model to predict as a larger one, to the end.

        distill("corpus.jsonl", "small", teacher="model", architecture="bert-tiny", steps=1000)

    Args:
        data: paths of records or shards, or corpora by name for mixtures.
        output: directory of the checkpoint.
        teacher: checkpoint to learn from.
        student: checkpoint to train, with the teacher's vocabulary; or else
        architecture: of a student with new weights.
        take_layers: start from some layers of the student, or of the teacher: even, how many, or
            their numbers from 0.
        tokenizer: directory of an architecture's vocabulary; the teacher's if left out.
        recipe, phases, on_report, resume, overwrite, dry_run: as for `pretrain`.
        settings: as for `pretrain`, and those of `DistillationConfig`, such as `temperature`.

    Returns:
        description of the checkpoint, as for `pretrain`.

    Raises:
        ValueError: a setting that is unknown, out of range or at odds with another one.
        BmtoolsError: data, model or output that cannot be used, or a loss that diverged.
    """
    data_config, settings = make_data_config(data, settings)
    config = make_run_config(recipe, phases, settings, warmup_ratio=DISTILLATION_WARMUP)
    init = distillation_init(teacher, student, architecture, tokenizer, take_layers)
    plan = make_plan(Path(output), config, init, data_config, resume, overwrite, Path(teacher))
    lines = partial(distill_lines, plan, init, Path(teacher), data_config, refuse)
    return run_to_end(plan, lines, on_report, dry_run)


def distill_lines(plan: TrainingPlan, student: ModelInit, teacher: Path, data: DataConfig,
                  reject: Reject, start: StartRun = train) -> Iterator[JsonObject]:
    """Train a student to predict masked tokens as its teacher does, and yield metrics.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1; the paper starts from a pretrained student;
    an architecture starts from new weights instead.

    Raises:
        CheckpointError: a checkpoint cannot be used, or the two have different vocabularies.
        BmtoolsError: sequences longer than the positions of either model.
    """
    taught = load_checkpoint(teacher)
    initial = load_initial_model(student, plan.optimization.seed, tokenizer=taught.tokenizer,
                                 positions=plan.pretraining.positions)
    if initial.vocabulary != taught.vocabulary:
        raise CheckpointError(
            f"{teacher}: found vocabulary {taught.vocabulary[:12]}, but the student has "
            f"{initial.vocabulary[:12]}; expected the same vocabulary")
    require_length(max(phase.batch.max_length for phase in plan.config.phases),
                   max_tokens(taught.model), "the teacher")

    def make_objectives(plan: TrainingPlan, model: PreTrainedModel,
                        head: NextSentenceHead | None,
                        device: torch.device) -> PhasedObjective:
        assert plan.distillation is not None
        dtype = None if taught.model.config.model_type in FLOAT32_ONLY \
            else _DTYPES.get(plan.optimization.precision)
        if plan.layout == "packed":
            prepare_packed(taught.model)
        source = Teacher(taught.model.to(device), dtype)  # type: ignore[arg-type]
        torch.manual_seed(plan.optimization.seed)
        return PhasedObjective(
            model, {"masked": DistillationObjective(model, source, plan.distillation),
                    HELD_OUT: MaskedObjective(model)}, head)

    return start(plan, replace(initial, make_objectives=make_objectives), data, reject)
