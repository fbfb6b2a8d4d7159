"""Accelerator of a run, its layout and precision on this machine, and weights sharded by FSDP2.

torch's `fully_shard` runs on GPUs and CPUs, if it is requested with the variable BMTOOLS_SHARD or
with `accelerate launch --use_fsdp`.
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
"""Value of a setting that is chosen for the machine."""
# Maximum time after which a dead process on another machine is noticed.
_TIMEOUT = timedelta(minutes=30)
# Processes may wait for files of other processes, or for the main process to tokenize a large
# corpus.
_LONG_TIMEOUT = timedelta(days=2)
# Maximum delay after which a network disk such as NFS shows a new file on other machines.
_APPEARS_SECONDS = 60


def make_accelerator(settings: OptimizationConfig,
                     find_unused_parameters: bool = False) -> Accelerator:
    """Make an Accelerator, and join the other processes of a launcher, if any.

    Args:
        settings: settings of the optimization, with a precision other than `auto`.
        find_unused_parameters: whether some weights have no gradient in some steps, because a phase
            freezes them or does not use a head.

    Raises:
        BmtoolsError: see `join_processes`; or the device does not support the precision.
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
    """Join the other processes of a launcher, if any, and choose a device.

    Raises:
        BmtoolsError: the device does not exist, there are more processes than GPUs, or fp16 is set
            without a GPU.
    """
    prepare_cuda(settings.deterministic)
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = settings.tf32
        torch.backends.cudnn.allow_tf32 = settings.tf32
    device = settings.device if settings.device == "auto" else resolve_device(settings.device)
    if device.partition(":")[2]:
        if world_size() > 1:
            raise BmtoolsError(f"{setting('device')}: found {device} with {world_size()} "
                               "processes, expected cuda; each process uses its own GPU")
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
            f"{torch.cuda.device_count()} GPUs; use {setting('device')} cpu instead")
    # Accelerate's FSDP wraps only the model without the heads of objectives, and works only on
    # GPUs. With it, transformers loads weights only in the main process.
    if os.environ.pop("ACCELERATE_USE_FSDP", "false").lower() in ("1", "true"):
        os.environ[SHARD] = "1"
    # Only an Accelerator reads this variable, and it reuses the state that is created here.
    state = PartialState(uses_cpu, timeout=_TIMEOUT)
    settings.require_device(state.device.type)
    return state


@contextmanager
def deterministic_algorithms(settings: OptimizationConfig) -> Iterator[None]:
    """Make torch use only deterministic algorithms inside, if the settings request it.

    Raises:
        BmtoolsError: an operation has no deterministic algorithm on this device.
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
    """Make a group of all processes with a timeout of days; None for one process."""
    return None if accelerator.num_processes == 1 else \
        distributed.new_group(backend="gloo", timeout=_LONG_TIMEOUT)


@contextmanager
def others_wait(accelerator: Accelerator) -> Iterator[None]:
    """Let the other processes wait, up to days, while the main process works inside."""
    group = patient_group(accelerator)
    yield
    if group:
        distributed.barrier(group)
        distributed.destroy_process_group(group)


def decide_by_main_process(decide: Callable[[], _Decision],
                           state: Accelerator | PartialState) -> _Decision:
    """Let only the main process decide, and send the result to the others.

    Args:
        decide: function that is called in the main process; its result or BmtoolsError must be
            picklable.
        state: state of the processes.

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
    """Check that all processes see a directory, by a file that the main process creates in it.

    Args:
        directory: directory of the run; created if it is missing.
        state: state of the processes.

    Raises:
        BmtoolsError: a process does not see it; raised in all processes.
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
            "that all machines share; write to a shared disk")


def sum_over_processes(sums: Tensor, accelerator: Accelerator) -> list[float]:
    """Sum float64 numbers on the CPU over all processes.

    Apple's GPUs do not support float64, but they are only used by single processes, which do not
    need a device here.
    """
    if accelerator.num_processes > 1:
        sums = accelerator.reduce(sums.to(accelerator.device), "sum")
    return list(sums.tolist())


def is_sharded(state: Accelerator | PartialState) -> bool:
    """Return whether weights are sharded; a single process never shards them."""
    return state.num_processes > 1 and os.environ.get(SHARD, "") == "1"


def shard(objective: Objective, accelerator: Accelerator) -> None:
    """Shard a model and the heads of its objective over all processes, in place.

    Each layer is gathered while it computes. Weights outside of the layers, including tied weights,
    form one more unit. Each machine has its own copy; see `shard_processes`. Weights and gradients
    are kept and summed in float32. With bf16, copies in bfloat16 are sent and used in computations.
    With fp16, float32 is sent, because gradients of norms and embeddings would overflow in fp16.
    """
    objective.to(accelerator.device)
    processes = accelerator.num_processes
    sharing = shard_processes(processes)
    mesh = init_device_mesh(accelerator.device.type, (processes,)) if sharing == processes else \
        init_device_mesh(accelerator.device.type, (processes // sharing, sharing),
                         mesh_dim_names=("replicate", "shard"))
    # Under bf16, weights are gathered in bfloat16, and autocast handles activations as in one
    # process. On a GPU it computes layer norms in float32. On a CPU layer norms need inputs in the
    # precision of their weights, so inputs are cast.
    policy = MixedPrecisionPolicy(
        torch.bfloat16, torch.float32, cast_forward_inputs=accelerator.device.type == "cpu") \
        if accelerator.mixed_precision == "bf16" else MixedPrecisionPolicy()
    for layer in encoder_layers(objective.model):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(objective, mesh=mesh, mp_policy=policy)


def share_after(objective: Any, is_last: bool, passes: int) -> None:
    """Keep gradients and gathered weights on each process until the last pass of a step.

    A step with several passes then gathers each layer once instead of twice per pass. It keeps
    complete gradients and complete weights in memory, with weights in bfloat16 under bf16. A step
    with one pass keeps the weights of a few layers at a time.

    Args:
        objective: the sharded objective.
        is_last: whether the next pass is the last one.
        passes: number of passes of the step.
    """
    objective.set_requires_gradient_sync(is_last)
    objective.set_reshard_after_backward(is_last)
    layers: Any = encoder_layers(objective.model)
    for layer in layers:
        layer.set_reshard_after_forward(passes == 1)


def gather_anew(objective: Objective) -> None:
    """Free gathered weights that passes without gradients keep in memory."""
    for module in objective.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def local_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor or of this process's shard."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).nbytes


def resolve_auto(plan: TrainingPlan, config: PretrainedConfig,
                 state: PartialState) -> tuple[TrainingPlan, list[str]]:
    """Resolve `auto` layout and precision: the values of the resumed run, or suitable ones.

    The main process decides for all processes, so that all use the same values.

    Args:
        plan: plan of the run.
        config: the model's configuration.
        state: state of the processes.

    Returns:
        the plan, and messages for the user.
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
    """Resolve the precision of a run; see `resolve_auto`.

    Args:
        settings: settings of the run.
        config: the model's configuration.
        state: state of the processes.
        recorded: precision of the run that is resumed, if any.
        adversarial: whether embeddings are perturbed.
    """
    if settings.precision != AUTO:
        return settings, []

    def choose() -> PrecisionChoice:
        if recorded:
            return PrecisionChoice(recorded, "because the run was started with it")
        if adversarial:
            return PrecisionChoice("no", "because half precision blurs the noise of "
                                         "adversarial training")
        return choose_precision(config, state.device)

    choice = decide_by_main_process(choose, state)
    precision: Any = choice.precision
    shown = "no (float32)" if precision == "no" else precision
    return replace(settings, precision=precision), [
        f"{setting('precision')} {AUTO}: {shown}, {choice.reason}"]
