"""Layout of sequences, and a check that packed documents do not see each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from accelerate import Accelerator

from bmtools.data.batches import Collator
from bmtools.data.sampler import Sampler
from bmtools.data.shards import Corpus
from bmtools.models.packed import ARCHITECTURES, prepare_packed, self_check
from bmtools.recipes.phases import longest_sequence
from bmtools.recipes.schedule import Schedule
from bmtools.training.plan import TrainingPlan

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LENGTH_STEP = 16


def is_packed(plan: TrainingPlan, accelerator: Accelerator) -> bool:
    """Tell whether documents share sequences, which is the same in all phases."""
    layout = plan.config.phases[0].batch.layout
    return layout == "packed" or (layout == "auto" and accelerator.device.type == "cuda")


def padded_lengths(schedule: Schedule, accelerator: Accelerator) -> list[int] | None:
    """List the lengths of padded sequences; None where any length will do.

    In half precision a processor works best on multiples of some number, and a CPU compiles its
    products anew for each shape.
    """
    if accelerator.mixed_precision == "no":
        return None
    longest = longest_sequence(schedule.phases)
    return [*range(_LENGTH_STEP, longest, _LENGTH_STEP), longest]


def prepare_fast(model: PreTrainedModel, accelerator: Accelerator) -> None:
    """Let a CPU's attention choose its precision, where the architecture is known."""
    half = accelerator.mixed_precision != "no" and accelerator.device.type == "cpu"
    if half and model.config.model_type in ARCHITECTURES:
        prepare_packed(model)


def prepare_packing(model: PreTrainedModel, schedule: Schedule, corpora: Mapping[str, Corpus],
                    collator: Collator, seed: int, accelerator: Accelerator) -> None:
    """Prepare a model for packed sequences, and check it on the first ones of each phase.

    Call it before the model is wrapped or sharded.

    Raises:
        BmtoolsError: a document changes its neighbour, or differs from itself alone.
    """
    model.to(accelerator.device)
    prepare_packed(model)
    for phase in schedule.phases:
        plan = Sampler(corpora, Schedule([phase], [1]), True, seed).batch(0)
        inputs, _ = collator(np.concatenate(plan.sequences[:2]), phase.objective, 0.15)
        types = inputs.get("token_type_ids")
        with accelerator.autocast():
            self_check(model, inputs["input_ids"].to(accelerator.device), inputs["lengths"],
                       types if types is None else types.to(accelerator.device),
                       causal=phase.objective.objective == "causal")
