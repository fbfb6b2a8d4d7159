"""Distillation of one masked language model into another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from accelerate import Accelerator

from bmtools.distributed import is_main_process
from bmtools.errors import BmtoolsError, CheckpointError, Reject, refuse, setting
from bmtools.models.architectures import build_model, max_tokens
from bmtools.models.checkpoint import Checkpoint, load_checkpoint
from bmtools.models.checkpoint_files import check_checkpoint
from bmtools.models.hardware import resolve_device
from bmtools.models.packed import prepare_packed
from bmtools.models.precision import FLOAT32_ONLY
from bmtools.recipes.distillation import DistillationConfig
from bmtools.recipes.phases import DISTILLATION_FIELDS
from bmtools.recipes.settings import ObjectiveConfig
from bmtools.training.checks import check_shared_length
from bmtools.training.distillation.align_tokens import AlignedTeacher
from bmtools.training.distillation.cached_teacher import CachedTeacher, TeacherCache
from bmtools.training.distillation.objective import DistillationObjective
from bmtools.training.distillation.teacher import Needs, Teacher, needs_of
from bmtools.training.evaluation import HELD_OUT
from bmtools.training.model_init import InitialModel, load_initial_model
from bmtools.training.objectives import MaskedObjective, PhasedObjective
from bmtools.training.plan import (
    DISTILLATION_WARMUP,
    EVALUATE,
    RETAIN,
    Data,
    DataConfig,
    ModelInit,
    TrainingPlan,
    distillation_init,
    make_data_config,
    make_plan,
    make_run_config,
)
from bmtools.training.run import run_to_end, train
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import fingerprint, is_uncased

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bmtools.models.next_sentence import NextSentenceHead
    from bmtools.records import JsonObject

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
# What a run's identity shares with that of a cache: which tokens are masked, and what is kept.
_MASKING = {"content of the teacher", "vocabulary", "phases", "seed", "max_length", "temperature",
            "kl_positions", "teacher_top_k", *(field.name for field in fields(ObjectiveConfig))}
_HELD_OUT = {f"inputs of {role}" for role in (EVALUATE, RETAIN)}


def distill(data: Data, output: str | Path, *, teacher: str | Path,
            student: str | Path | None = None, architecture: str | None = None,
            take_layers: str = "", tokenizer: str | Path | None = None,
            recipe: str | None = None, phases: str | Path | None = None,
            on_report: Callable[[JsonObject], None] | None = None, resume: bool = False,
            overwrite: bool = False, **settings: object) -> JsonObject:
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
        recipe, phases, on_report, resume, overwrite: as for `pretrain`.
        settings: as for `pretrain`, and those of `DistillationConfig`, such as `temperature`.

    Returns:
        description of the checkpoint, as for `pretrain`.

    Raises:
        ValueError: a setting that is unknown, out of range or at odds with another one.
        BmtoolsError: data, model or output that cannot be used, or a loss that diverged.
    """
    data_config, settings = make_data_config(data, settings)
    given = {name: settings.pop(name) for name in DISTILLATION_FIELDS if name in settings}
    config = make_run_config(recipe, phases, settings, warmup_ratio=DISTILLATION_WARMUP)
    distillation = DistillationConfig(**{**config.distillation, **given})
    init = distillation_init(teacher, student, architecture, tokenizer, take_layers)
    plan = make_plan(Path(output), config, init, data_config, resume, overwrite, Path(teacher),
                     distillation)
    return run_to_end(plan, lambda: distill_lines(plan, init, Path(teacher), data_config,
                                                  distillation, refuse), on_report)


def distill_lines(plan: TrainingPlan, student: ModelInit, teacher: Path, data: DataConfig,
                  settings: DistillationConfig, reject: Reject) -> Iterator[JsonObject]:
    """Train a student to predict masked tokens as its teacher does, and yield metrics.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1; the paper starts from a pretrained student;
    an architecture starts from new weights instead.

    Raises:
        CheckpointError: a checkpoint cannot be used, or the two have different vocabularies.
        BmtoolsError: sequences longer than the positions of either model.
    """
    taught = _without_weights(teacher) if settings.teacher_cache else load_checkpoint(teacher)
    initial = load_initial_model(student, plan.optimization.seed, tokenizer=taught.tokenizer,
                                 positions=plan.initialization.positions)
    is_aligned = initial.vocabulary != taught.vocabulary
    notes = _check_vocabularies(initial, taught, settings) if is_aligned else []
    check_shared_length(plan.config.phases, initial.max_length, max_tokens(taught.model))

    def make_objective(plan: TrainingPlan, model: PreTrainedModel,
                       head: NextSentenceHead | None, accelerator: Accelerator,
                       identity: Mapping[str, object]) -> PhasedObjective:
        _, needs = needs_of(settings, model.config, taught.model.config)
        source = _make_teacher(taught, needs, plan, settings, accelerator.device, identity)
        aligned = AlignedTeacher(source, taught.tokenizer, initial.tokenizer,
                                 max_tokens(taught.model)) if is_aligned else source
        torch.manual_seed(plan.optimization.seed)
        return PhasedObjective(model, {"masked": DistillationObjective(model, aligned, settings),
                                       HELD_OUT: MaskedObjective(model)}, head)

    return chain(notes if is_main_process() else [],
                 train(plan, initial, data, reject, make_objective))


def _without_weights(directory: Path) -> Checkpoint:
    """Load what is known of a teacher before its weights are, which a cache may do without."""
    from transformers import AutoConfig

    check_checkpoint(directory)
    config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    tokenizer = load_tokenizer(directory)
    return Checkpoint(directory, build_model(config, "meta"), tokenizer, fingerprint(tokenizer))


def _make_teacher(taught: Checkpoint, needs: Needs, plan: TrainingPlan,
                  settings: DistillationConfig, device: torch.device,
                  identity: Mapping[str, object]) -> Teacher | CachedTeacher:
    """Make the teacher of a run, live or with a cache; the run's identity names its data."""
    precision: str = settings.teacher_precision
    if precision == "auto":
        precision = plan.optimization.mixed_precision
    dtype = None if taught.model.config.model_type in FLOAT32_ONLY else _DTYPES.get(precision)
    if settings.teacher_device != "same":
        device = torch.device(resolve_device(settings.teacher_device, "teacher_device"))

    def make_live(checkpoint: Checkpoint, needs: Needs) -> Teacher:
        if plan.layout == "packed":
            prepare_packed(checkpoint.model)
        return Teacher(checkpoint.model, needs, dtype, device)

    if not settings.teacher_cache:
        return make_live(taught, needs)
    cache = TeacherCache(Path(settings.teacher_cache), {
        **{name: value for name, value in identity.items() if name not in _HELD_OUT
           and (name.rpartition(": ")[2] in _MASKING or name.startswith("inputs of "))},
        "teacher_precision": precision if dtype else "float32", "logits": needs.logits,
        "last states": needs.last_states})
    kept = Needs(cache.identity["logits"], cache.identity["last states"])
    compute = lru_cache(lambda: make_live(load_checkpoint(taught.path), kept))
    return CachedTeacher(taught.model.config, compute, cache, needs, settings,
                         len(taught.tokenizer))


def _check_vocabularies(student: InitialModel, teacher: Checkpoint,
                        settings: DistillationConfig) -> list[dict[str, str]]:
    """Refuse losses that different vocabularies do not allow; return what is to be said."""
    uncased = [is_uncased(one.tokenizer) for one in (student, teacher)]
    casing = "" if uncased[0] == uncased[1] else \
        f"; the {'student' if uncased[0] else 'teacher'} alone lower-cases text"
    if not settings.align_tokens:
        raise CheckpointError(
            f"{teacher.path}: found vocabulary {teacher.vocabulary[:12]}, but the student has "
            f"{student.vocabulary[:12]}{casing}; {setting('align_tokens')} compares states of "
            "different vocabularies")
    for name in ("kl_weight", "logit_mse_weight", "relation_weight"):
        if getattr(settings, name):
            raise BmtoolsError(f"{setting(name)}: found {getattr(settings, name):g}, but student "
                               "and teacher have different vocabularies, of which states alone "
                               "can be compared; expected 0")
    return [{"note": "the student lower-cases text, which its cased teacher reads so, too"}] \
        if uncased == [True, False] else []
