"""Inner states of an encoder, recorded while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from bmtools.errors import CheckpointError, setting
from bmtools.training.distillation.needs import Needs
from bmtools.training.layers import encoder_layers
from bmtools.training.objectives import EncoderInputs

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Modules that make queries, keys and values, in this order, by their names in a layer.
_PROJECTIONS = (("attention.self.query", "attention.self.key", "attention.self.value"),
                ("attn.Wqkv",))


class LayerOutputs(NamedTuple):
    """States and projections of an encoder's pass.

    Args:
        last: states of the last layer, as `EncoderInputs.encode` returns them.
        states: (tokens, width) by layer, 0 for the embeddings, without padding.
        projections: (tokens, 3, width) queries, keys and values of all heads, by layer from 1,
            before rotary positions.
    """

    last: Tensor
    states: Mapping[int, Tensor]
    projections: Mapping[int, Tensor]


class LayerRecorder:
    """An encoder whose layers give their states, queries, keys and values.

    Hooks stay for good, so that compiled layers contain them.

    Args:
        model: a masked language model.
        needs: layers to record.

    Raises:
        CheckpointError: projections of an architecture that is not known here.
    """

    def __init__(self, model: PreTrainedModel, needs: Needs) -> None:
        self._model, self._needs = model, needs
        self._depth: int = model.config.num_hidden_layers
        self._recorded: dict[Any, Tensor] = {}
        layers = encoder_layers(model)
        for number in {*needs.layers} - {self._depth}:
            layers[number].register_forward_pre_hook(self._record(number))
        for number in {*needs.relation_layers}:
            for name, module in _projections(model, layers[number - 1]):
                module.register_forward_hook(self._record((number, name)))

    def encode(self, inputs: EncoderInputs) -> LayerOutputs:
        """Run the encoder without its head."""
        last = inputs.encode(self._model)
        recorded = {**self._recorded, self._depth: last}
        self._recorded.clear()
        projections = {
            number: torch.cat([value for key, value in recorded.items()
                               if isinstance(key, tuple) and key[0] == number], dim=-1)
            for number in {*self._needs.relation_layers}}
        return LayerOutputs(
            last, {number: inputs.token_states(recorded[number])
                   for number in {*self._needs.layers}},
            {number: inputs.token_states(value).unflatten(-1, (3, -1))
             for number, value in projections.items()})

    def _record(self, key: Any) -> Any:
        """Make a hook that records an output or, before there is one, an input."""
        def hook(_module: nn.Module, arguments: tuple[Tensor, ...],
                 output: Tensor | None = None) -> None:
            self._recorded[key] = arguments[0] if output is None else output

        return hook


def _projections(model: PreTrainedModel, layer: nn.Module) -> list[tuple[str, nn.Module]]:
    modules = dict(layer.named_modules())
    for names in _PROJECTIONS:
        if modules.keys() >= {*names}:
            return [(name, modules[name]) for name in names]
    raise CheckpointError(f"{type(model).__name__}: queries, keys and values of this architecture "
                          "are not known, expected BERT, RoBERTa, Megatron-BERT or ModernBERT; "
                          f"use {setting('relation_weight')} 0")
