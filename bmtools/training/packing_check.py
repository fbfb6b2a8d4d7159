"""How documents lie in rows, and proof that those that share one do not see each other there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from accelerate import Accelerator

from bmtools.data.batches import Collator
from bmtools.data.sampler import Sampler
from bmtools.data.shards import Corpus
from bmtools.models.packed import ARCHITECTURES, prepare_packed, self_check
from bmtools.recipes.phases import longest_sequence
from bmtools.recipes.schedule import Schedule
from bmtools.training.plan import TrainingPlan

_WIDTH_STEP = 16


def is_packed(plan: TrainingPlan, accelerator: Accelerator) -> bool:
    """Tell whether documents share rows; all phases say the same."""
    layout = plan.config.phases[0].batch.layout
    return layout == "packed" or (layout == "auto" and accelerator.device.type == "cuda")


def row_widths(timeline: Schedule, accelerator: Accelerator) -> list[int] | None:
    """List the lengths of padded rows; None where any will do.

    In halves a processor works best on multiples of some number, and a CPU compiles its products
    anew for each shape that it meets.
    """
    if accelerator.mixed_precision == "no":
        return None
    longest = longest_sequence(timeline)
    return [*range(_WIDTH_STEP, longest, _WIDTH_STEP), longest]


def prepare_fast(model: Any, accelerator: Accelerator) -> None:
    """Let a CPU's attention choose its precision, where the architecture is known."""
    halves = accelerator.mixed_precision != "no" and accelerator.device.type == "cpu"
    if halves and model.config.model_type in ARCHITECTURES:
        prepare_packed(model)


def prepare_checked(model: Any, timeline: Schedule, corpora: Mapping[str, Corpus],
                    collator: Collator,
                    seed: int, accelerator: Accelerator) -> None:
    """Make a model ready for packed rows, and try it on the first rows of each phase.

    Before the model is wrapped or its weights are shared out.

    Raises:
        BmtoolsError: a document changes its neighbour, or is not what it is alone.
    """
    model.to(accelerator.device)
    prepare_packed(model)
    for phase in timeline:
        alone = Schedule([phase], [1])
        plan = Sampler(corpora, alone, True, seed).batch(0)
        samples = plan.select(np.arange(min(2, len(plan)))).samples
        example, _ = collator(samples, phase.objective, 0.15)
        types = example.get("token_type_ids")
        with accelerator.autocast():
            self_check(model, example["input_ids"].to(accelerator.device), example["lengths"],
                       types if types is None else types.to(accelerator.device),
                       causal=phase.objective.objective == "causal")
