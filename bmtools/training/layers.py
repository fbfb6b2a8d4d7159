"""How deep each weight lies, and what follows from it: slower learning below, frozen layers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from bmtools.errors import BmtoolsError, CheckpointError


def encoder_layers(model: Any) -> nn.ModuleList:
    """Find the list of an encoder's layers, whatever the architecture calls it.

    Raises:
        CheckpointError: the model holds no list of modules.
    """
    base = getattr(model, "base_model", model)
    wanted = getattr(getattr(model, "config", None), "num_hidden_layers", None)
    outermost: dict[str, nn.ModuleList] = {}
    for name, module in base.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in outermost)
        if isinstance(module, nn.ModuleList) and len(module) and not inside:
            outermost[name] = module
    if not outermost:
        raise CheckpointError(f"{type(model).__name__}: found no list of layers, expected an "
                              "encoder that keeps its layers in a torch.nn.ModuleList")
    return max(outermost.values(), key=lambda layers: (len(layers) == wanted, len(layers)))


def layer_numbers(model: Any) -> dict[str, int]:
    """Give each weight its depth: 0 for embeddings, 1 and up for layers, the most for the rest.

    Embeddings are what the encoder holds before its layers, and any lookup table; the rest is
    what stands above them: final norm, pooler, head. A weight that two modules share, such as
    that of a tied decoder, counts once, where it lies deepest.
    """
    base = getattr(model, "base_model", model)
    layers = encoder_layers(model)
    found = {id(weight): number for number, layer in enumerate(layers, start=1)
             for weight in layer.parameters()}
    below = True
    for weight in base.parameters():
        below = below and id(weight) not in found
        if below:
            found[id(weight)] = 0
    for module in base.modules():
        if isinstance(module, nn.Embedding):
            found.setdefault(id(module.weight), 0)
    return {name: found.get(id(weight), len(layers) + 1)
            for name, weight in model.named_parameters()}


def layerwise_lr_scales(model: Any, decay: float) -> dict[str, float]:
    """Share of the learning rate for each weight: 1 above the layers, times `decay` per layer down.

    Source: Buonocore et al. 2023 (BioBIT), "Catastrophic Forgetting Mitigation"; Howard and
    Ruder 2018, section 3.2.
    """
    top = len(encoder_layers(model)) + 1
    return {name: decay ** (top - depth) for name, depth in layer_numbers(model).items()}


def frozen_names(model: Any, layers: int = 0, patterns: Iterable[str] = ()) -> set[str]:
    """Name the weights to freeze: the lowest layers with the embeddings, and what patterns name.

    Freezing the embeddings freezes a decoder that is tied to them, but not its bias.

    Args:
        model: any encoder, with or without a head.
        layers: layers from the bottom; 0 leaves the embeddings free too.
        patterns: names of weights, with `*` and `?`; a tied weight answers to all its names.

    Raises:
        BmtoolsError: fewer layers than asked for, a pattern that matches nothing, or nothing left
            to train.
    """
    depth = layer_numbers(model)
    held = len(encoder_layers(model))
    if layers > held:
        raise BmtoolsError(f"--frozen-layers: found {layers}, but the model has {held} layers")
    frozen = {name for name in depth if layers and depth[name] <= layers}
    first_names = {id(weight): name for name, weight in model.named_parameters()}
    for pattern in patterns:
        named = {first_names[id(weight)]
                 for name, weight in model.named_parameters(remove_duplicate=False)
                 if fnmatchcase(name, pattern)}
        if not named:
            example = next(name for name in depth if depth[name] == 1)
            raise BmtoolsError(f"--frozen: found {pattern!r}, which matches none of the model's "
                               f"weights; they have names such as {example}")
        frozen |= named
    if frozen == set(depth):
        raise BmtoolsError("--frozen-layers and --frozen: found that they freeze every weight, "
                           "expected some to train")
    return frozen


def freeze(model: nn.Module, names: Collection[str]) -> list[nn.Parameter]:
    """Keep the named weights as they are; returns those that were trained, for `thaw`.

    An optimizer passes over weights without a gradient: no decay, no momentum.
    """
    held = [weight for name, weight in model.named_parameters()
            if name in names and weight.requires_grad]
    for weight in held:
        weight.requires_grad_(False)
        weight.grad = None
    return held


def thaw(weights: Iterable[nn.Parameter]) -> None:
    """Train weights again that `freeze` held."""
    for weight in weights:
        weight.requires_grad_(True)
