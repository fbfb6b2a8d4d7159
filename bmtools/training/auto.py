"""Settings that a run leaves to its machine, `auto`: the layout of sequences, and the precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accelerate import PartialState

from bmtools.errors import setting
from bmtools.models.precision import PrecisionChoice, choose_precision
from bmtools.training.checkpoints import recorded_identity
from bmtools.training.distributed import decide_by_main_process, is_sharded
from bmtools.training.plan import LAYOUT, PRECISION, TrainingPlan

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from bmtools.recipes.settings import OptimizationConfig

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
    layout, precision = plan.layout, str(plan.optimization.precision)
    if AUTO not in (layout, precision):
        return plan, []

    def decide() -> tuple[str, PrecisionChoice]:
        recorded = recorded_identity(plan)
        suited = str(recorded.get(LAYOUT) or ("packed" if state.device.type == "cuda" else "padded")
                     ) if layout == AUTO else layout
        if precision != AUTO:
            return suited, PrecisionChoice(precision, "")
        if PRECISION in recorded:
            return suited, PrecisionChoice(str(recorded[PRECISION]), "as the run was begun with it")
        return suited, _suited_precision(plan, config, state)

    suited, choice = decide_by_main_process(decide, state)
    return plan.resolved(suited, choice.precision), \
        [_explain(choice)] if precision == AUTO else []


def resolve_precision(settings: OptimizationConfig, config: PretrainedConfig,
                      state: PartialState) -> tuple[OptimizationConfig, list[str]]:
    """Resolve the precision of a run that is never resumed; as for `resolve_auto`."""
    if settings.precision != AUTO:
        return settings, []
    choice = decide_by_main_process(lambda: choose_precision(config, state.device), state)
    precision: Any = choice.precision
    return replace(settings, precision=precision), [_explain(choice)]


def _suited_precision(plan: TrainingPlan, config: PretrainedConfig,
                      state: PartialState) -> PrecisionChoice:
    if plan.pretraining.adversarial:
        return PrecisionChoice("no", "as half precision blurs the noise of adversarial training")
    choice = choose_precision(config, state.device)
    if choice.precision == "fp16" and is_sharded(state):
        return PrecisionChoice("no", f"{choice.reason}, and sharded weights go without fp16")
    return choice


def _explain(choice: PrecisionChoice) -> str:
    precision = "no (float32)" if choice.precision == "no" else choice.precision
    return f"{setting('precision')} {AUTO}: {precision}, {choice.reason}"
