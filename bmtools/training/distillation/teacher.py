"""A teacher, and its outputs that the losses of distillation compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bmtools.models.mlm import lm_head

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

    from bmtools.training.objectives import EncoderInputs


@dataclass(frozen=True)
class TeacherOutputs:
    """Outputs of a teacher for a micro-batch, without gradients.

    Args:
        logits: returns (rows, vocabulary) logits at some of the compared positions, in a tensor
            that may be overwritten; logits of all positions at once may not fit into memory.
        last_states: (tokens, width), of all tokens but padding.
    """

    logits: Callable[[slice], Tensor]
    last_states: Tensor


class Teacher:
    """A model that computes its outputs for each micro-batch.

    Args:
        model: a masked language model, prepared for the layout of the run; not trained.
        dtype: of its matrices, in memory and in products; None for float32.
        device: where it computes; None where it is.
    """

    def __init__(self, model: PreTrainedModel, dtype: torch.dtype | None = None,
                 device: torch.device | None = None) -> None:
        self.config: PretrainedConfig = model.config
        self._dtype, self._device = dtype, device or model.device
        if dtype:
            # Norms and biases stay as autocast, which casts matrices anyway, wants them.
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.data = weight.data.to(dtype)
        self._model = model.eval().to(self._device)

    @torch.no_grad()
    def __call__(self, inputs: EncoderInputs, compared: Tensor) -> TeacherOutputs:
        """Compute outputs.

        Args:
            inputs: the inputs of the student.
            compared: positions of predictions, as `masked_positions` numbers them.
        """
        home = inputs.input_ids.device
        inputs = inputs.to(self._device)
        with self._autocast():
            last = inputs.encode(self._model)
        selected = last.flatten(0, -2)[compared.to(self._device)]

        @torch.no_grad()
        def logits(rows: slice) -> Tensor:
            with self._autocast():
                return lm_head(self._model)(selected[rows]).to(home)

        return TeacherOutputs(logits, inputs.token_states(last).to(home))

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._device.type, self._dtype, enabled=self._dtype is not None)
