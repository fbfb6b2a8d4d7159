"""Accelerator of a run, its layout and precision on this machine, and weights sharded by FSDP2.

torch's `fully_shard` runs on GPUs and on CPUs alike, where the variable BMTOOLS_SHARD or
`accelerate launch --use_fsdp` asks for it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import (
    DistributedDataParallelKwargs,
    broadcast_object_list,
    gather_object,
    parse_flag_from_env,
)
from torch import Tensor, distributed
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from bmtools.distributed import SHARD, local_world_size, shard_processes, world_size
from bmtools.errors import BmtoolsError, setting
from bmtools.io.unfinished import hidden_path
from bmtools.models.hardware import prepare_cuda, resolve_device
from bmtools.models.memory import keep_freed_memory
from bmtools.models.precision import PrecisionChoice, choose_precision
from bmtools.training.layers import encoder_layers
from bmtools.training.plan import LAYOUT, PRECISION, TrainingPlan, recorded_identity

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from bmtools.recipes.settings import OptimizationConfig
    from bmtools.training.objectives import Objective

_Decision = TypeVar("_Decision")
AUTO = "auto"
"""Value of a setting that a run leaves to its machine."""
# A process that died on another machine is noticed after this time at the latest.
_TIMEOUT = timedelta(minutes=30)
# Processes may wait for each other's files, or for the main one to tokenize a large corpus.
_LONG_TIMEOUT = timedelta(days=2)
# A network disk may show a new file to other machines this much later, as NFS does.
_APPEARS_SECONDS = 60


def make_accelerator(settings: OptimizationConfig,
                     find_unused_parameters: bool = False) -> Accelerator:
    """Make an Accelerator, and join the other processes of a launcher if there are some.

    Args:
        settings: of the optimization, with a precision that is no longer `auto`.
        find_unused_parameters: some steps leave weights without a gradient, as a phase freezes
            them or does not use a head.

    Raises:
        BmtoolsError: as for `join_processes`, or a precision that this device does not have.
    """
    join_processes(settings)
    if AcceleratorState._shared_state.get("_mixed_precision", settings.precision) \
            != settings.precision:
        AcceleratorState._reset_state()  # set by an earlier run in this Python process
    try:
        accelerator = Accelerator(
            mixed_precision=settings.precision,
            kwargs_handlers=[DistributedDataParallelKwargs(
                find_unused_parameters=find_unused_parameters)])
    except ValueError as error:
        raise BmtoolsError(f"{setting('precision')}: found {settings.precision}: "
                           f"{error}") from error
    if accelerator.device.type == "cpu":
        keep_freed_memory(not settings.memory_gib)
    return accelerator


def join_processes(settings: OptimizationConfig) -> PartialState:
    """Join the other processes of a launcher, if there are some, and take a device.

    Raises:
        BmtoolsError: a device that is not there, more processes than GPUs, or fp16 without one.
    """
    prepare_cuda(settings.deterministic)
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = settings.tf32
        torch.backends.cudnn.allow_tf32 = settings.tf32
    device = settings.device if settings.device == "auto" else resolve_device(settings.device)
    if device.partition(":")[2]:
        if world_size() > 1:
            raise BmtoolsError(f"{setting('device')}: found {device} with {world_size()} "
                               "processes, expected cuda; each process takes a GPU of its own")
        torch.cuda.set_device(device)
    if 1 < world_size() == local_world_size() and sys.platform == "linux":
        # A machine without a network may not be able to resolve its own name.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if world_size() > 1 and not torch.accelerator.is_available():
        os.environ.setdefault("ACCELERATE_USE_CPU", "true")
    uses_cpu = device == "cpu" or parse_flag_from_env("ACCELERATE_USE_CPU")
    if not uses_cpu and torch.cuda.is_available() \
            and local_world_size() > torch.cuda.device_count():
        raise BmtoolsError(
            f"{setting('processes')}: found {local_world_size()}, but this machine has "
            f"{torch.cuda.device_count()} GPUs; {setting('device')} cpu trains on its processor")
    # Accelerate's own FSDP would wrap the model alone, without heads of objectives, and on GPUs
    # only, and transformers would load weights in the main process alone.
    if os.environ.pop("ACCELERATE_USE_FSDP", "false").lower() in ("1", "true"):
        os.environ[SHARD] = "1"
    # Only an Accelerator reads this variable, and it takes what is joined here as it is.
    state = PartialState(uses_cpu, timeout=_TIMEOUT)
    settings.require_device(state.device.type)
    return state


@contextmanager
def deterministic_algorithms(settings: OptimizationConfig) -> Iterator[None]:
    """Have torch use deterministic algorithms alone inside, where the settings want that.

    Raises:
        BmtoolsError: an operation has none on this device.
    """
    if not settings.deterministic:
        yield
        return
    before = torch.get_deterministic_debug_mode()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        raise BmtoolsError(f"{setting('deterministic')}: {str(error).partition('. ')[0]}; leave "
                           "it out") from error
    finally:
        torch.set_deterministic_debug_mode(before)


def patient_group(accelerator: Accelerator) -> ProcessGroup | None:
    """Make a group of all processes that wait for each other for days; None for one process."""
    return None if accelerator.num_processes == 1 else \
        distributed.new_group(backend="gloo", timeout=_LONG_TIMEOUT)


@contextmanager
def others_wait(accelerator: Accelerator) -> Iterator[None]:
    """Have the other processes wait, for days if need be, for what the main one does inside."""
    group = patient_group(accelerator)
    yield
    if group:
        distributed.barrier(group)
        distributed.destroy_process_group(group)


def decide_by_main_process(decide: Callable[[], _Decision],
                           state: Accelerator | PartialState) -> _Decision:
    """Have the main process alone decide, and tell the others.

    Args:
        decide: called in the main process; what it returns, or an error of bmtools, must be
            picklable.
        state: of the processes.

    Raises:
        BmtoolsError: raised by `decide`, in all processes.
    """
    outcome: list[Any] = [None]
    if state.is_main_process:
        try:
            outcome = [decide()]
        except BmtoolsError as error:
            outcome = [error]
    broadcast_object_list(outcome)
    if isinstance(outcome[0], BmtoolsError):
        raise outcome[0]
    decision: _Decision = outcome[0]
    return decision


def require_shared(directory: Path, state: Accelerator | PartialState) -> None:
    """Check that all processes see a directory, in which the main one makes a file for that.

    Args:
        directory: of the run; made if it is missing.
        state: of the processes.

    Raises:
        BmtoolsError: some process does not see it, in all processes.
    """
    if state.num_processes == 1:
        return

    def make() -> str:
        directory.mkdir(parents=True, exist_ok=True)
        (path := hidden_path(directory / "shared", "partial")).touch()
        return path.name

    path = directory / decide_by_main_process(make, state)
    last = time.monotonic() + _APPEARS_SECONDS
    while not (seen := path.exists()) and time.monotonic() < last:
        time.sleep(0.1)
    unseen = gather_object([] if seen else [f"{os.uname().nodename} (process "
                                            f"{state.process_index})"])
    if state.is_main_process:
        path.unlink()
    if unseen:
        raise BmtoolsError(
            f"{directory}: found no such directory on {', '.join(unseen)}, expected a directory "
            "that all machines share; write to a disk that they share")


def sum_over_processes(sums: Tensor, accelerator: Accelerator) -> list[float]:
    """Sum float64 numbers on the CPU over all processes.

    Apple's GPUs have no float64 and only ever serve one process, which needs no device here.
    """
    if accelerator.num_processes > 1:
        sums = accelerator.reduce(sums.to(accelerator.device), "sum")
    return list(sums.tolist())


def is_sharded(state: Accelerator | PartialState) -> bool:
    """Tell whether weights are sharded; a single process has nothing to shard."""
    return state.num_processes > 1 and os.environ.get(SHARD, "") == "1"


def shard(objective: Objective, accelerator: Accelerator) -> None:
    """Shard a model and the heads of its objective over all processes, in place.

    Each layer is gathered while it computes; weights outside of the layers, tied ones among them,
    form one more unit. Each machine has a copy of its own, see `shard_processes`. Weights and
    gradients are kept and summed in float32; with bf16, copies in bfloat16 are sent and computed
    with. fp16 sends float32, because gradients of norms and embeddings would overflow in fp16.
    """
    objective.to(accelerator.device)
    processes = accelerator.num_processes
    sharing = shard_processes(processes)
    mesh = init_device_mesh(accelerator.device.type, (processes,)) if sharing == processes else \
        init_device_mesh(accelerator.device.type, (processes // sharing, sharing),
                         mesh_dim_names=("replicate", "shard"))
    # Weights are gathered in bfloat16 under bf16; autocast decides on activations as in one
    # process. It computes layer norms of a GPU in float32. On a CPU they need inputs of their
    # weights' precision, so inputs are cast there.
    policy = MixedPrecisionPolicy(
        torch.bfloat16, torch.float32, cast_forward_inputs=accelerator.device.type == "cpu") \
        if accelerator.mixed_precision == "bf16" else MixedPrecisionPolicy()
    for layer in encoder_layers(objective.model):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(objective, mesh=mesh, mp_policy=policy)


def share_after(objective: Any, is_last: bool, passes: int) -> None:
    """Keep gradients, and weights once gathered, on each process until the last pass of a step.

    A step of several passes gathers each layer once instead of twice a pass. Beside the gradients,
    which it adds up whole, it then has whole weights, in bfloat16 under bf16. A step of one pass
    has the weights of a few layers at a time.

    Args:
        objective: sharded.
        is_last: whether the next pass is the last one.
        passes: of the step.
    """
    objective.set_requires_gradient_sync(is_last)
    objective.set_reshard_after_backward(is_last)
    layers: Any = encoder_layers(objective.model)
    for layer in layers:
        layer.set_reshard_after_forward(passes == 1)


def gather_anew(objective: Objective) -> None:
    """Give up gathered weights, which passes without gradients leave behind."""
    for module in objective.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def local_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor, or of this process's shard of it."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).nbytes


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
    recorded = decide_by_main_process(
        lambda: recorded_identity(plan.output) if plan.resume else {}, state)
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
        return choose_precision(config, state.device)

    choice = decide_by_main_process(choose, state)
    precision: Any = choice.precision
    shown = "no (float32)" if precision == "no" else precision
    return replace(settings, precision=precision), [
        f"{setting('precision')} {AUTO}: {shown}, {choice.reason}"]
