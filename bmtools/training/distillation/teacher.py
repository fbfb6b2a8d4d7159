"""A teacher, and what it gives to the losses of distillation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from bmtools.errors import BmtoolsError, CheckpointError, setting
from bmtools.models.mlm import head_logits
from bmtools.training.layers import encoder_layers

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from bmtools.recipes.distillation import DistillationConfig
    from bmtools.training.objectives import EncoderInputs

_Key = int | tuple[int, str]
# Modules that make queries, keys and values, in this order, by their names in a layer.
_PROJECTIONS = (("attention.self.query", "attention.self.key", "attention.self.value"),
                ("attn.Wqkv",))


@dataclass(frozen=True)
class TeacherOutputs:
    """Outputs of a teacher for a micro-batch, those that `Needs` names, without gradients.

    Args:
        logits: returns (rows, vocabulary) logits at some of the compared positions, in a tensor
            that may be overwritten; logits of all positions at once may not fit into memory.
        last_states: (tokens, width), of all tokens but padding.
        states: (tokens, width) by layer, 0 for the embeddings.
        projections: (tokens, 3, width) queries, keys and values of all heads, by layer from 1.
        tokens: (tokens,) int64 numbers of the student's tokens that states are for, among all but
            padding; None for all of them.
        excess_entropy: of the predictions of all compared positions over the teacher's own, in
            nats, where they stand for these.
    """

    logits: Callable[[slice], Tensor] | None = None
    last_states: Tensor | None = None
    states: Mapping[int, Tensor] = field(default_factory=dict)
    projections: Mapping[int, Tensor] = field(default_factory=dict)
    tokens: Tensor | None = None
    excess_entropy: Tensor | float = 0.0

    def select(self, states: Tensor) -> Tensor:
        """Select the states of a student's tokens, (tokens, width), that are compared."""
        return states if self.tokens is None else states[self.tokens]


class Teacher:
    """A model that computes its outputs for each micro-batch.

    Args:
        model: a masked language model, prepared for the layout of the run; not trained, and
            without the layers above those that are needed from now on.
        needs: outputs to compute.
        dtype: of its matrices, in memory and in products; None for float32.
        device: where it computes; None where it is.
    """

    def __init__(self, model: PreTrainedModel, needs: Needs, dtype: torch.dtype | None = None,
                 device: torch.device | None = None) -> None:
        self.config: PretrainedConfig = model.config
        self._dtype, self._device = dtype, device or model.device
        if dtype:
            # Norms and biases stay as autocast, which casts matrices anyway, wants them.
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.data = weight.data.to(dtype)
        self._model = model.eval().to(self._device)
        self._needs = needs
        self._recorder = LayerRecorder(model, needs)
        if not (needs.logits or needs.last_states):
            # Inputs of the next layer are recorded for a layer's states.
            del encoder_layers(model)[max((*needs.relation_layers,
                                           *(layer + 1 for layer in needs.layers)), default=1):]

    @torch.no_grad()
    def __call__(self, inputs: EncoderInputs, compared: Tensor) -> TeacherOutputs:
        """Compute outputs.

        Args:
            inputs: of the student, too.
            compared: positions of predictions, as `masked_positions` numbers them.
        """
        home = inputs.input_ids.device
        inputs = inputs.to(self._device)
        with self._autocast():
            last, states, projections = self._recorder.encode(inputs)
        selected = last.flatten(0, -2)[compared.to(self._device)] if self._needs.logits else last

        @torch.no_grad()
        def logits(rows: slice) -> Tensor:
            with self._autocast():
                return head_logits(self._model, selected[rows]).to(home)

        return TeacherOutputs(
            logits if self._needs.logits else None,
            inputs.token_states(last).to(home) if self._needs.last_states else None,
            {layer: value.to(home) for layer, value in states.items()},
            {layer: value.to(home) for layer, value in projections.items()})

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._device.type, self._dtype, enabled=self._dtype is not None)


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
        self._recorded: dict[_Key, Tensor] = {}
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

    def _record(self, key: _Key) -> Callable[..., None]:
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


@dataclass(frozen=True)
class Needs:
    """Outputs of a model that losses compare.

    Args:
        logits: predictions at the compared positions.
        last_states: states of the last layer, as its head gets them.
        layers: whose states are compared, 0 for the embeddings; in the order of the other model's.
        relation_layers: whose queries, keys and values are compared, from 1; likewise.
    """

    logits: bool = False
    last_states: bool = False
    layers: tuple[int, ...] = ()
    relation_layers: tuple[int, ...] = ()


def needs_of(settings: DistillationConfig, student: PretrainedConfig,
             teacher: PretrainedConfig) -> tuple[Needs, Needs]:
    """Name what student and teacher have to compute for losses with a weight above 0.

    Raises:
        BmtoolsError: a layer that one of them does not have.
    """
    depths = student.num_hidden_layers, teacher.num_hidden_layers
    layers = _matched(settings.layer_map, "layer_map", depths, 0) \
        if settings.hidden_weight else ((), ())
    relations = _matched(settings.relation_layers, "relation_layers", depths, 1) \
        if settings.relation_weight else ((), ())
    logits = settings.kl_weight > 0 or settings.logit_mse_weight > 0
    own, theirs = (Needs(logits, settings.cosine_weight > 0, *chosen)
                   for chosen in zip(layers, relations, strict=True))
    return own, theirs


def _matched(text: str, name: str, depths: tuple[int, int],
             first: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Resolve pairs of layers: those of the student, and those of the teacher beside them."""
    student, teacher = depths
    if text == "uniform":  # Jiao et al. 2020 (TinyBERT), section 4.1
        own = tuple(range(first, student + 1))
        return own, tuple(round(layer * teacher / student) for layer in own)
    listed = "last:last" if text == "last" else text
    pairs = [pair.split(":") for pair in listed.split(",")]
    matched = []
    for number, (depth, role) in enumerate(((student, "student"), (teacher, "teacher"))):
        layers = tuple(depth if pair[number] == "last" else int(pair[number]) for pair in pairs)
        for layer in layers:
            if not first <= layer <= depth:
                raise BmtoolsError(f"{setting(name)}: found layer {layer} of the {role}, expected "
                                   f"{first} to {depth}")
        matched.append(layers)
    return matched[0], matched[1]


def relation_heads(settings: DistillationConfig, student: PretrainedConfig,
                   teacher: PretrainedConfig) -> int:
    """Return the number of relation heads, by default the teacher's attention heads.

    Raises:
        BmtoolsError: it does not divide both widths.
    """
    heads: int = settings.relation_heads or teacher.num_attention_heads
    widths = student.hidden_size, teacher.hidden_size
    if any(width % heads for width in widths):
        shared = [number for number in range(1, 129) if not any(width % number for width in widths)]
        raise BmtoolsError(
            f"{setting('relation_heads')}: found {heads}, but student and teacher are {widths[0]} "
            f"and {widths[1]} wide, expected a divisor of both: "
            f"{', '.join(map(str, shared))}")
    return heads
