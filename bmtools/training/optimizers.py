"""Optimizers by name, and their parameter groups.

All states have the names and shapes of torch's AdamW or Muon, so that a state can be saved and
resumed for any optimizer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import AdamW, Optimizer

from bmtools.errors import CheckpointError
from bmtools.models.hardware import describe_hardware
from bmtools.records import JsonObject
from bmtools.training.layers import encoder_layers

if TYPE_CHECKING:
    from bmtools.training.objectives import Objective

Group = JsonObject
"""Weights and settings of an optimizer's group."""
_MUON_MOMENTUM = 0.95
_NEWTON_STEPS = 5
_NEWTON_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_EPSILON = 1e-7


def parameter_groups(objective: Objective, weight_decay: float,
                     lr_scales: Mapping[str, float] | None = None) -> list[Group]:
    """Group weights by learning rate and decay: matrices decay, biases and norms do not.

    Each group has `lr_scale`, a factor of the scheduled learning rate, and `use_muon`, true for
    matrices of the encoder's layers. Frozen weights are also grouped, so that a later phase can
    train them. An optimizer skips weights without a gradient.

    Args:
        objective: contains the model as `model`, and may have other weights.
        weight_decay: weight decay of matrices.
        lr_scales: factor of the learning rate by name in the model, such as the result of
            `layerwise_lr_scales`; default: 1.
    """
    weights_of_model = dict(objective.model.named_parameters())
    scales = {id(weights_of_model[name]): scale for name, scale in (lr_scales or {}).items()}
    try:
        layer_matrices = {id(weight) for weight in encoder_layers(objective.model).parameters()
                          if weight.ndim == 2}
    except CheckpointError:
        layer_matrices = set()
    groups: dict[tuple[float, bool, bool], list[nn.Parameter]] = defaultdict(list)
    for weight in objective.parameters():
        key = (scales.get(id(weight), 1.0), weight.ndim >= 2, id(weight) in layer_matrices)
        groups[key].append(weight)
    return [{"params": weights, "weight_decay": weight_decay if is_matrix else 0.0,
             "lr_scale": scale, "use_muon": use_muon}
            for (scale, is_matrix, use_muon), weights in groups.items()]


def make_optimizer(name: str, groups: list[Group], learning_rate: float,
                   betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-6) -> Optimizer:
    """Make an optimizer for groups of `parameter_groups`.

    Args:
        name: adamw or muon.
        groups: each with its own weight decay.
        learning_rate: learning rate before the first step; the loop sets it at each step.
        betas: decay of the means of gradients and squared gradients; Muon uses its own values.
        epsilon: epsilon of AdamW.

    Raises:
        CheckpointError: for muon, if the model has no layers with matrices.
    """
    if name == "adamw":
        return AdamW(groups, lr=learning_rate, betas=betas, eps=epsilon, fused=True)
    return Muon(groups, learning_rate, betas, epsilon)


class Muon(AdamW):
    """Orthogonalised momentum for the matrices of the layers, AdamW for all other weights.

    The step of a matrix is scaled by 0.2 times the root of its longer side. This gives it the size
    of AdamW's steps, so that both use the same learning rate and decay. A fused matrix, such as
    ModernBERT's queries, keys and values, is orthogonalised as one matrix.

    This is `torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"`, whose Newton-Schulz steps
    always run in bfloat16, one matrix after the other. On a CPU with bfloat16 instructions both
    give the same bits for matrices of 768. Without these instructions torch emulates bfloat16,
    which took fifty times as long as float32 here and moved weights 0.7 % differently.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv
    2502.16982, equation 4, for the scale.

    Args:
        groups: weights, their decay, and `use_muon` if Muon trains them.
        learning_rate: learning rate before the first step.
        betas: betas of AdamW.
        epsilon: epsilon of AdamW.
    """

    def __init__(self, groups: Iterable[Group], learning_rate: float,
                 betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-6) -> None:
        super().__init__(groups, lr=learning_rate, betas=betas, eps=epsilon, fused=True)
        # AdamW would undo a loss scale inside its step, and skip infinite gradients there.
        self._step_supports_amp_scaling = False

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient."""
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group["use_muon"]]
        super().step(closure)
        self.param_groups = groups
        for group in groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for weight in group["params"] if group["use_muon"] else ():
                if weight.grad is not None:
                    by_shape[weight.shape].append(weight)
            for matrices in by_shape.values():
                self._step_matrices(group, matrices)

    def _step_matrices(self, group: Group, weights: list[nn.Parameter]) -> None:
        """Update matrices of the same shape, which are orthogonalised in one batch."""
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] = {"momentum_buffer": torch.zeros_like(weight)}
        momenta = [self.state[weight]["momentum_buffer"] for weight in weights]
        torch._foreach_lerp_(momenta, gradients, 1 - _MUON_MOMENTUM)
        nesterov = torch._foreach_lerp(gradients, momenta, _MUON_MOMENTUM)
        stacked = torch.stack(nesterov)
        # If weights are sharded, each process gathers the matrices, and all processes do the same
        # work.
        whole = stacked.full_tensor() if isinstance(stacked, DTensor) else stacked
        updates = orthogonalise(whole).to(weights[0].dtype)
        if isinstance(stacked, DTensor):
            updates = distribute_tensor(updates, stacked.device_mesh, stacked.placements,
                                        src_data_rank=None)
        learning_rate = group["lr"] * 0.2 * max(weights[0].shape) ** 0.5
        torch._foreach_mul_(list(weights), 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(list(weights), list(updates.unbind()), alpha=-learning_rate)


def orthogonalise(matrices: Tensor) -> Tensor:
    """Move the singular values of matrices close to 1 with a few Newton-Schulz steps.

    The steps run in bfloat16, as published, or in float32 on a CPU without bfloat16 instructions.

    Args:
        matrices: (number, rows, columns).
    """
    a, b, c = _NEWTON_COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.to(_newton_dtype(matrices.device.type))
    x = x.mT if tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=_EPSILON)
    for _ in range(_NEWTON_STEPS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x.mT if tall else x


@cache
def _newton_dtype(kind: str) -> torch.dtype:
    return torch.bfloat16 if kind != "cpu" or describe_hardware().bf16 else torch.float32
