"""Settings that a run leaves to its machine, `auto`: the layout of sequences, and the precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accelerate import PartialState

from bmtools.errors import BmtoolsError, setting
from bmtools.models.precision import PrecisionChoice, choose_precision
from bmtools.training.distributed import decide_by_main_process, is_sharded
from bmtools.training.plan import LAYOUT, PRECISION, TrainingPlan
from bmtools.training.progress import recorded_identity
from bmtools.training.run_directories import runs_directory

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

    Raises:
        BmtoolsError: the run was begun in a precision that this device does not have.
    """
    def decide() -> tuple[str, str, list[str]]:
        recorded = recorded_identity(plan)
        layout, note = _resolve_layout(plan, recorded.get(LAYOUT), state)
        precision, other = _resolve_precision(plan, config, recorded.get(PRECISION), state)
        return layout, precision, [*note, *other]

    if AUTO not in (plan.layout, plan.optimization.mixed_precision):
        return plan, []
    layout, precision, notes = decide_by_main_process(decide, state)
    return plan.with_layout(layout).with_precision(precision), notes


def resolve_precision(settings: OptimizationConfig, config: PretrainedConfig,
                      state: PartialState) -> tuple[OptimizationConfig, list[str]]:
    """Resolve the precision of a run that is never resumed; as for `resolve_auto`."""
    if settings.mixed_precision != AUTO:
        return settings, []
    choice = decide_by_main_process(lambda: choose_precision(config, state.device), state)
    precision: Any = choice.precision
    return replace(settings, mixed_precision=precision), [_explain(choice)]


def _resolve_layout(plan: TrainingPlan, recorded: object,
                    state: PartialState) -> tuple[str, list[str]]:
    if plan.layout != AUTO:
        return plan.layout, []
    suited = choose_layout(state)
    if recorded not in ("padded", "packed") or recorded == suited:
        return suited, []
    return str(recorded), [f"the run keeps {setting('layout')} {recorded}, which it was begun with"]


def _resolve_precision(plan: TrainingPlan, config: PretrainedConfig, recorded: object,
                       state: PartialState) -> tuple[str, list[str]]:
    if plan.optimization.mixed_precision != AUTO:
        return plan.optimization.mixed_precision, []
    suited = _suited_precision(plan, config, state)
    if recorded not in ("no", "bf16", "fp16"):
        return suited.precision, [_explain(suited)]
    if recorded == "fp16" and state.device.type == "cpu":
        raise BmtoolsError(
            f"{runs_directory(plan.output)}: the unfinished run trains in fp16, which a CPU "
            f"cannot; resume it on a GPU, or start again with {setting('overwrite')}")
    kept = PrecisionChoice(str(recorded), "as the run was begun with it")
    other = "" if recorded == suited.precision else \
        f"; a new run would take {_shown(suited.precision)} here, {suited.reason}"
    return kept.precision, [_explain(kept) + other]


def _suited_precision(plan: TrainingPlan, config: PretrainedConfig,
                      state: PartialState) -> PrecisionChoice:
    if plan.pretraining.adversarial:
        return PrecisionChoice("no", "as half precision blurs the noise of adversarial training")
    choice = choose_precision(config, state.device)
    if choice.precision == "fp16" and is_sharded(state):
        return PrecisionChoice("no", f"{choice.reason}, and sharded weights go without fp16")
    return choice


def _explain(choice: PrecisionChoice) -> str:
    return f"{setting('mixed_precision')} {AUTO}: {_shown(choice.precision)}, {choice.reason}"


def _shown(precision: str) -> str:
    return "no (float32)" if precision == "no" else precision


def choose_layout(state: PartialState) -> str:
    """Choose the layout of sequences that suits a device: packed on a GPU, padded elsewhere."""
    return "packed" if state.device.type == "cuda" else "padded"
