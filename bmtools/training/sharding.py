"""Sharded training by FSDP2: each process holds a part of every weight and optimizer state.

torch's `fully_shard` runs on GPUs and on CPUs alike, where a command's `--shard` or
`accelerate launch --use_fsdp` asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from bmtools.models.architectures import build_model
from bmtools.training.layers import encoder_layers
from bmtools.training.objectives import Objective
from bmtools.training.plan import SHARD

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ACCELERATE_FSDP = "ACCELERATE_USE_FSDP"


def take_over_fsdp() -> None:
    """Replace Accelerate's FSDP by ours, before an Accelerator is made.

    Accelerate would wrap the model alone, without heads of objectives, and on GPUs only, and
    transformers would load weights in the main process alone.
    """
    if os.environ.pop(_ACCELERATE_FSDP, "false").lower() in ("1", "true"):
        os.environ[SHARD] = "1"


def is_sharded(accelerator: Accelerator) -> bool:
    """Tell whether weights are sharded; a single process has nothing to shard."""
    return accelerator.num_processes > 1 and os.environ.get(SHARD, "") == "1"


def shard(objective: Objective, accelerator: Accelerator) -> None:
    """Shard a model and the heads of its objective over all processes, in place.

    Each layer is gathered while it computes; weights outside of the layers, tied ones among them,
    form one more unit. Weights are kept and sent in float32.
    """
    objective.to(accelerator.device)
    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    for layer in encoder_layers(objective.model):
        fully_shard(layer, mesh=mesh)
    fully_shard(objective, mesh=mesh)


def gather_shards(tensors: Iterable[tuple[str, Tensor]], keep: bool) -> dict[str, Tensor]:
    """Gather sharded tensors, one at a time; every process takes part.

    Args:
        tensors: names and tensors, in the same order on all processes.
        keep: whether this process needs them; gathered tensors are moved to the CPU.
    """
    gathered = {}
    for name, tensor in tensors:
        value = tensor.detach()
        if isinstance(value, DTensor):
            value = value.full_tensor()
            value = value.cpu() if keep else value
        if keep:
            gathered[name] = value.contiguous()
    return gathered


def shard_like(value: Tensor, weight: Tensor) -> Tensor:
    """Shard a tensor like a weight of its shape; else move it to the weight's device."""
    value = value.to(weight.device)
    if isinstance(weight, DTensor) and value.shape == weight.shape:
        return distribute_tensor(value, weight.device_mesh, weight.placements)
    return value


def unsharded_model(model: PreTrainedModel, keep: bool) -> Any:
    """Return the model itself, or a copy with gathered weights on the CPU where it is sharded.

    Every process takes part; those that do not keep it get None.
    """
    if not any(isinstance(weight, DTensor) for weight in model.parameters()):
        return model if keep else None
    weights = gather_shards(model.state_dict().items(), keep)
    if not keep:
        return None
    copy = build_model(model.config, "meta")
    copy.load_state_dict(weights, assign=True)
    copy.tie_weights()
    return copy


def local_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor, or of this process's shard of it."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).nbytes


def norm_of(total: Tensor) -> float:
    """Return a norm as a number; where weights are sharded every process takes part."""
    return float(total.full_tensor() if isinstance(total, DTensor) else total)


def set_gradient_sync(module: nn.Module, enabled: bool) -> None:
    """Choose whether the next backward pass reduces gradients over processes."""
    module.set_requires_gradient_sync(enabled)  # type: ignore[operator]
