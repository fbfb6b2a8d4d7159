"""Weights spread over processes: each holds a part of every one, and of what is remembered of it.

torch's `fully_shard` (FSDP2) does the work, on GPUs and on CPUs alike, where a command's `--shard`
or `accelerate launch --use_fsdp` asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from bmtools.models.architectures import build_on_meta
from bmtools.training.layers import encoder_layers
from bmtools.training.plan import SHARD

_ACCELERATE = "ACCELERATE_USE_FSDP"


def claim() -> None:
    """Take Accelerate's wish over, before an Accelerator is made.

    Told of it, Accelerate would wrap the model in its own way, which knows no losses with weights
    of their own and no CPU, and transformers would load weights in the first process alone.
    """
    if os.environ.pop(_ACCELERATE, "false").lower() in ("1", "true"):
        os.environ[SHARD] = "1"


def is_sharded(accelerator: Accelerator) -> bool:
    """Whether processes share the weights out; one process has nothing to share."""
    return accelerator.num_processes > 1 and os.environ.get(SHARD, "") == "1"


def shard(objective: Any, accelerator: Accelerator) -> None:
    """Spread a model and its losses' own weights over all processes, in place.

    A layer's weights are together on every process while it computes; those outside of the layers
    form one more unit, tied ones among them. Matrices are kept and sent in float32.
    """
    objective.to(accelerator.device)
    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    for layer in encoder_layers(objective.model):
        fully_shard(layer, mesh=mesh)
    fully_shard(objective, mesh=mesh)


def whole(tensors: Iterable[tuple[str, Tensor]], keep: bool) -> dict[str, Tensor]:
    """Bring tensors together, one at a time; every process takes part.

    Args:
        tensors: names and tensors, in the same order everywhere.
        keep: whether this process wants them; shards come to the CPU, others stay where they are.
    """
    found = {}
    for name, tensor in tensors:
        value = tensor.detach()
        if isinstance(value, DTensor):
            value = value.full_tensor()
            value = value.cpu() if keep else value
        if keep:
            found[name] = value.contiguous()
    return found


def like(value: Tensor, weight: Tensor) -> Tensor:
    """Spread a whole tensor as a weight is spread, where it has one's shape; else put it beside."""
    value = value.to(weight.device)
    if isinstance(weight, DTensor) and value.shape == weight.shape:
        return distribute_tensor(value, weight.device_mesh, weight.placements)
    return value


def plain_model(model: Any, keep: bool) -> Any:
    """Give a model whose weights are whole: itself, or a copy on the CPU where they are shards.

    Every process takes part; those that do not keep it get None.
    """
    if not any(isinstance(weight, DTensor) for weight in model.parameters()):
        return model if keep else None
    weights = whole(model.state_dict().items(), keep)
    if not keep:
        return None
    copy = build_on_meta(model.config)
    _fill(copy, weights)
    return copy


def _fill(copy: Any, weights: Mapping[str, Tensor]) -> None:
    """Give an outline its weights and numbers of its own for what is not saved."""
    copy.load_state_dict(weights, assign=True)
    copy.tie_weights()


def local_bytes(tensor: Tensor) -> int:
    """Bytes that this process holds of a tensor."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).nbytes


def norm_of(total: Tensor) -> float:
    """Read a norm off, which is in parts where weights are; every process takes part."""
    return float(total.full_tensor() if isinstance(total, DTensor) else total)


def set_gradient_sync(module: nn.Module, wanted: bool) -> None:
    """Say whether the next backward pass adds gradients up over processes."""
    module.set_requires_gradient_sync(wanted)  # type: ignore[operator]
