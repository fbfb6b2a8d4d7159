"""Settings that a run leaves to its machine, `auto`: the layout of sequences, and the precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from accelerate import PartialState
from transformers import PretrainedConfig

from bmtools.errors import setting
from bmtools.models.precision import PrecisionChoice, choose_precision
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training.distributed import decide_by_main_process, is_sharded
from bmtools.training.plan import LAYOUT, PRECISION, TrainingPlan, recorded_identity

AUTO = "auto"


def resolve_auto(plan: TrainingPlan, config: PretrainedConfig,
                 state: PartialState) -> tuple[TrainingPlan, list[str]]:
    """Resolve layout and precision where they are `auto`: as the run was begun, or as suits.

    The main process decides for all, so that a run is the same on each of them.

    Args:
        plan: of the run.
        config: of the model.
        state: of the processes.

    Returns:
        the plan, and messages for people.
    """
    layout = plan.layout
    if AUTO not in (layout, plan.optimization.precision):
        return plan, []
    recorded = decide_by_main_process(lambda: recorded_identity(plan), state)
    if layout == AUTO:
        suited = "packed" if state.device.type == "cuda" else "padded"
        layout = str(recorded.get(LAYOUT) or suited)
    optimization, notes = resolve_precision(
        plan.optimization, config, state, str(recorded.get(PRECISION, "")),
        plan.pretraining.adversarial > 0)
    return plan.resolved(layout, optimization.precision), notes


def resolve_precision(settings: OptimizationConfig, config: PretrainedConfig, state: PartialState,
                      recorded: str = "", adversarial: bool = False,
                      ) -> tuple[OptimizationConfig, list[str]]:
    """Resolve the precision of a run; as for `resolve_auto`.

    Args:
        settings: of the run.
        config: of the model.
        state: of the processes.
        recorded: precision that the run was begun with, if it is resumed.
        adversarial: whether embeddings are perturbed.
    """
    if settings.precision != AUTO:
        return settings, []

    def choose() -> PrecisionChoice:
        if recorded:
            return PrecisionChoice(recorded, "as the run was begun with it")
        if adversarial:
            return PrecisionChoice("no", "as half precision blurs the noise of adversarial "
                                         "training")
        choice = choose_precision(config, state.device)
        if choice.precision == "fp16" and is_sharded(state):
            return PrecisionChoice("no", f"{choice.reason}, and sharded weights go without fp16")
        return choice

    choice = decide_by_main_process(choose, state)
    precision: Any = choice.precision
    shown = "no (float32)" if precision == "no" else precision
    return replace(settings, precision=precision), [
        f"{setting('precision')} {AUTO}: {shown}, {choice.reason}"]
