"""Layers of an encoder: numbering, layer-wise learning rates and freezing of weights."""

from __future__ import annotations

from collections.abc import Collection

from torch import nn

from bmtools.errors import CheckpointError
from bmtools.recipes.settings import FreezeConfig


def encoder_layers(model: nn.Module) -> nn.ModuleList:
    """Find the list of an encoder's layers under any name.

    Raises:
        CheckpointError: the model has no list of modules.
    """
    base = getattr(model, "base_model", model)
    expected = getattr(getattr(model, "config", None), "num_hidden_layers", None)
    outermost: dict[str, nn.ModuleList] = {}
    for name, module in base.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in outermost)
        if isinstance(module, nn.ModuleList) and len(module) and not inside:
            outermost[name] = module
    if not outermost:
        raise CheckpointError(f"{type(model).__name__}: found no list of layers, expected an "
                              "encoder that keeps its layers in a torch.nn.ModuleList")
    return max(outermost.values(), key=lambda layers: (len(layers) == expected, len(layers)))


def layer_numbers(model: nn.Module) -> dict[str, int]:
    """Return the layer of each weight: 0 for embeddings, then layers from 1, then all others.

    Embeddings are the encoder's weights before its layers, and all embedding matrices. The others
    follow the layers: final norm, pooler, head. A shared weight, such as the weight of a tied
    decoder, counts once, in the lowest of its layers.
    """
    base = getattr(model, "base_model", model)
    layers = encoder_layers(model)
    numbers = {id(weight): number for number, layer in enumerate(layers, start=1)
               for weight in layer.parameters()}
    below = True
    for weight in base.parameters():
        below = below and id(weight) not in numbers
        if below:
            numbers[id(weight)] = 0
    for module in base.modules():
        if isinstance(module, nn.Embedding):
            numbers.setdefault(id(module.weight), 0)
    return {name: numbers.get(id(weight), len(layers) + 1)
            for name, weight in model.named_parameters()}


def layerwise_lr_scales(model: nn.Module, decay: float) -> dict[str, float]:
    """Scale the learning rate of each weight: 1 above the layers, times `decay` per layer down.

    Source: Buonocore et al. 2023 (BioBIT), "Catastrophic Forgetting Mitigation"; Howard and
    Ruder 2018, section 3.2.
    """
    top = len(encoder_layers(model)) + 1
    return {name: decay ** (top - number) for name, number in layer_numbers(model).items()}


def frozen_names(model: nn.Module, settings: FreezeConfig) -> set[str]:
    """Return the names of weights to freeze: the embeddings and the lowest layers.

    Freezing the embeddings freezes a decoder that is tied to them, but not its bias.

    Args:
        model: any encoder, with or without a head.
        settings: number of layers.

    Raises:
        BmtoolsError: the model has fewer layers.
    """
    numbers = layer_numbers(model)
    settings.require_layers(len(encoder_layers(model)))
    return {name for name, number in numbers.items() if 0 < settings.frozen_layers >= number}


def freeze(model: nn.Module, names: Collection[str]) -> list[nn.Parameter]:
    """Freeze the named weights; return the weights that were trainable.

    An optimizer skips weights without a gradient, so they have no decay and no momentum.
    """
    frozen = [weight for name, weight in model.named_parameters()
              if name in names and weight.requires_grad]
    for weight in frozen:
        weight.requires_grad_(False)
        weight.grad = None
    return frozen

