"""Optimizers by name, and the groups of weights they treat alike.

All keep their memory under the names and shapes of torch's AdamW, or of its Muon, so a state can
be saved and resumed without knowing which it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.adamw import adamw

from bmtools.errors import CheckpointError
from bmtools.models.hardware import describe_hardware
from bmtools.training.layers import encoder_layers

_MUON_MOMENTUM = 0.95
_NEWTON_STEPS = 5
_NEWTON_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_TINY = 1e-7


def parameter_groups(objective: Any, weight_decay: float,
                     rates: Mapping[str, float] | None = None) -> list[dict[str, Any]]:
    """Group weights by learning rate and decay: matrices decay, biases and norms do not.

    Each group carries `lr_scale`, which the scheduled rate is multiplied by, and `inner`, whether
    it holds matrices of the encoder's layers. Frozen weights are grouped too, so that a later
    phase can train them; an optimizer passes over what has no gradient.

    Args:
        objective: holds the model as `model`, perhaps with weights beside it.
        weight_decay: of matrices.
        rates: share of the learning rate by name within the model, such as `layer_rates`; 1 for
            weights that are not there.
    """
    weights_of_model = dict(objective.model.named_parameters())
    scales = {id(weights_of_model[name]): rate for name, rate in (rates or {}).items()}
    inner = _inner_matrices(objective.model)
    groups: dict[tuple[float, bool, bool], list[nn.Parameter]] = defaultdict(list)
    for weight in objective.parameters():
        key = (scales.get(id(weight), 1.0), weight.ndim >= 2, id(weight) in inner)
        groups[key].append(weight)
    return [{"params": weights, "weight_decay": weight_decay if decayed else 0.0,
             "lr_scale": scale, "inner": within}
            for (scale, decayed, within), weights in groups.items()]


def _inner_matrices(model: Any) -> set[int]:
    try:
        layers = encoder_layers(model)
    except CheckpointError:
        return set()
    return {id(weight) for weight in layers.parameters() if weight.ndim == 2}


def make_optimizer(name: str, groups: Iterable[dict[str, Any]], learning_rate: float,
                   betas: tuple[float, float] = (0.9, 0.999),
                   epsilon: float = 1e-6) -> Optimizer:
    """Make an optimizer for groups of `parameter_groups`.

    Args:
        name: adamw, stable-adamw or muon.
        groups: each with its own weight decay.
        learning_rate: before the first step; the loop sets it anew at each.
        betas: decay of the means of gradients and of their squares; Muon takes its own.
        epsilon: of AdamW.

    Raises:
        CheckpointError: muon, and the model holds no layers with matrices.
    """
    groups = list(groups)
    if name == "adamw":
        return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=epsilon, fused=True)
    if name == "stable-adamw":
        return StableAdamW(groups, learning_rate, betas, epsilon)
    assert name == "muon"
    if not any(group["inner"] for group in groups):
        raise CheckpointError("--optimizer muon: the model has no layers whose matrices it could "
                              "train, expected an encoder; take adamw")
    return Muon(groups, learning_rate, betas, epsilon)


class StableAdamW(Optimizer):
    """AdamW whose step shrinks, weight by weight, where gradients outgrow their own history.

    The rate of each tensor is divided by max(1, RMS), with RMS the root of the mean of
    g^2 / max(u, epsilon^2), u the unbiased mean of squared gradients. As nothing else changes, a
    step without clipping is AdamW's to the last bit. It asks for no clipping of gradients.

    Source: Wortsman et al. 2023, algorithm 2.

    Args:
        groups: weights and their decay.
        learning_rate: before the first step.
        betas: decay of the means of gradients and of their squares.
        epsilon: added to the root of the second mean.
    """

    def __init__(self, groups: Iterable[Any], learning_rate: float,
                 betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-6) -> None:
        super().__init__(groups, {"lr": learning_rate, "betas": betas, "eps": epsilon,
                                  "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient. Waits for the device twice per group."""
        assert closure is None
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            calm = []
            for weight, size in zip(weights, self._sizes(group, weights), strict=True):
                if size > 1:
                    _adamw(self.state, group, [weight], group["lr"] / size)
                else:
                    calm.append(weight)
            _adamw(self.state, group, calm, group["lr"])

    def _sizes(self, group: dict[str, Any], weights: list[nn.Parameter]) -> list[float]:
        """Root mean square of each gradient over its history, this step being part of it."""
        if not weights:
            return []
        beta, epsilon = group["betas"][1], group["eps"]
        memories = [_adam_memory(self.state, weight) for weight in weights]
        steps = torch.stack([memory["step"] for memory in memories]).tolist()
        corrections = [1 - beta ** (step + 1) for step in steps]
        gradients: list[Any] = [weight.grad for weight in weights]
        squares = torch._foreach_mul(gradients, gradients)
        history = torch._foreach_lerp([memory["exp_avg_sq"] for memory in memories], squares,
                                      1 - beta)
        torch._foreach_clamp_min_(history, [epsilon**2 * bias for bias in corrections])
        torch._foreach_div_(squares, history)
        # Squares are not negative, so the first norm is their sum.
        sums = torch.stack(torch._foreach_norm(squares, 1)).tolist()
        return [(total * bias / weight.numel()) ** 0.5
                for total, bias, weight in zip(sums, corrections, weights, strict=True)]


class Muon(Optimizer):
    """Orthogonalised momentum for the matrices of the layers, AdamW for all other weights.

    The step of a matrix is scaled by 0.2 times the root of its longer side, which gives it the
    size of AdamW's, so that one learning rate and one decay serve both. A matrix that holds
    several maps, such as ModernBERT's queries, keys and values, is orthogonalised as one.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv
    2502.16982, equation 4, for the scale.

    Args:
        groups: weights, their decay, and `inner` where Muon trains them.
        learning_rate: before the first step.
        betas: AdamW's.
        epsilon: AdamW's.
    """

    def __init__(self, groups: Iterable[Any], learning_rate: float,
                 betas: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-6) -> None:
        super().__init__(groups, {"lr": learning_rate, "betas": betas, "eps": epsilon,
                                  "weight_decay": 0.0, "inner": False})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not group["inner"]:
                _adamw(self.state, group, weights, group["lr"])
                continue
            alike: dict[torch.Size, list[Any]] = defaultdict(list)
            for weight in weights:
                alike[weight.shape].append(weight)
            for matrices in alike.values():
                self._turn(group, matrices)

    def _turn(self, group: dict[str, Any], weights: list[Any]) -> None:
        """Update matrices of one shape, orthogonalised together."""
        gradients: list[Any] = [weight.grad for weight in weights]
        momenta = [_momentum(self.state, weight) for weight in weights]
        torch._foreach_lerp_(momenta, gradients, 1 - _MUON_MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, _MUON_MOMENTUM)
        steps = orthogonalise(torch.stack(ahead)).to(weights[0].dtype)
        rate = group["lr"] * 0.2 * max(weights[0].shape) ** 0.5
        torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(weights, list(steps.unbind()), alpha=-rate)


def orthogonalise(matrices: Tensor) -> Tensor:
    """Bring the singular values of matrices near 1 by a few Newton-Schulz steps.

    Works in bfloat16, as published; in float32 on a CPU that would have to emulate it.

    Args:
        matrices: (number, rows, columns).
    """
    a, b, c = _NEWTON_COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    found = matrices.to(_newton_dtype(matrices.device.type))
    found = found.mT if tall else found
    found = found / found.norm(dim=(1, 2), keepdim=True).clamp(min=_TINY)
    for _ in range(_NEWTON_STEPS):
        gram = found @ found.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        found = torch.baddbmm(found, polynomial, found, beta=a)
    return found.mT if tall else found


@cache
def _newton_dtype(kind: str) -> torch.dtype:
    return torch.bfloat16 if kind != "cpu" or describe_hardware().bf16 else torch.float32


def _adamw(state: Any, group: dict[str, Any], weights: list[nn.Parameter], rate: float) -> None:
    """Let torch's fused AdamW update weights at a rate."""
    memories = [_adam_memory(state, weight) for weight in weights]
    beta1, beta2 = group["betas"]
    gradients: list[Any] = [weight.grad for weight in weights]
    adamw(list(weights), gradients, [memory["exp_avg"] for memory in memories],
          [memory["exp_avg_sq"] for memory in memories], [],
          [memory["step"] for memory in memories], fused=True, amsgrad=False, beta1=beta1,
          beta2=beta2, lr=rate, weight_decay=group["weight_decay"], eps=group["eps"],
          maximize=False)


def _adam_memory(state: Any, weight: nn.Parameter) -> dict[str, Tensor]:
    memory = state[weight]
    if not memory:
        memory["step"] = torch.zeros((), dtype=torch.float32, device=weight.device)
        memory["exp_avg"] = torch.zeros_like(weight)
        memory["exp_avg_sq"] = torch.zeros_like(weight)
    return memory


def _momentum(state: Any, weight: nn.Parameter) -> Tensor:
    memory = state[weight]
    if not memory:
        memory["momentum_buffer"] = torch.zeros_like(weight)
    return memory["momentum_buffer"]
