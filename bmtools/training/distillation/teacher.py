"""A teacher, and what it gives to the losses of distillation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bmtools.models.mlm import head_logits
from bmtools.training.distillation.needs import Needs
from bmtools.training.distillation.recorder import LayerRecorder
from bmtools.training.layers import encoder_layers
from bmtools.training.objectives import EncoderInputs

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


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

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device.type, self._dtype, enabled=self._dtype is not None)
