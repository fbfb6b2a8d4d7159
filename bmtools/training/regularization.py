"""What holds a run to the weights of its start, made for a beginning or a resumed sitting."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from bmtools.training.initial_weights import (
    L2SP,
    copy_initial_weights,
    load_initial_weights,
    save_initial_weights,
)
from bmtools.training.mixout import Mixout
from bmtools.training.plan import TrainingPlan
from bmtools.training.run_directories import runs_directory

_ANCHORS = "start.safetensors"

Adjust = Callable[[float], None]
Around = Callable[[int], AbstractContextManager[None]]


def make_regularizers(plan: TrainingPlan, model: Any, state: Path | None,
                      accelerator: Accelerator) -> tuple[Adjust | None, Around | None]:
    """Make what a loop adds to gradients, and what surrounds its passes.

    The weights of the start lie beside the states, written once.

    Args:
        plan: the run as asked for.
        model: at its start, or as a state left it; moved to the device.
        state: that it comes from; None at the beginning.
        accelerator: of the run.
    """
    settings = plan.regularization
    if not settings.needs_start:
        return None, None
    model.to(accelerator.device)
    path = runs_directory(plan.output) / _ANCHORS
    if state:
        anchors = load_initial_weights(path, model)
    else:
        anchors = copy_initial_weights(model)
        if accelerator.is_main_process:
            save_initial_weights(path, anchors)
    pull = L2SP(model, anchors, settings.l2_sp) if settings.l2_sp else None
    mixout = Mixout(model, anchors, settings.mixout, plan.optimization.seed) \
        if settings.mixout else None
    return pull.add_gradients if pull else None, mixout.mixed if mixout else None
