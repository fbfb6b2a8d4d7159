"""Loss of a student whose targets are a teacher's predictions and last states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel

from bmtools.models.chunks import sum_by_chunks
from bmtools.models.mlm import (
    chunks_of_logits,
    head_weights,
    lm_head,
    masked_lm_loss,
    sum_cross_entropy,
    wide,
)
from bmtools.recipes.settings import DistillationConfig
from bmtools.training.objectives import (
    EncoderInputs,
    LabelObjective,
    Lengths,
    LossTerm,
    masked_positions,
)

# Numbers in the memory of a pass over rows: what stays in a CPU's cache, what keeps a GPU busy.
_CACHED_ON_CPU = 2**18
_CACHED_ON_GPU = 2**27
# A logarithm of 0 would give no number; less than this is no number of float32.
_LEAST_LOG = -87.0


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
    """

    def __init__(self, model: PreTrainedModel, dtype: torch.dtype | None = None) -> None:
        self.config: PretrainedConfig = model.config
        self._dtype = dtype
        if dtype:
            # Norms and biases stay as autocast, which casts matrices anyway, wants them.
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.data = weight.data.to(dtype)
        self._model = model.eval()

    @torch.no_grad()
    def __call__(self, inputs: EncoderInputs, compared: Tensor) -> TeacherOutputs:
        """Compute outputs.

        Args:
            inputs: the inputs of the student.
            compared: positions of predictions, as `masked_positions` numbers them.
        """
        with self._autocast():
            last = inputs.encode(self._model)
        selected = last.flatten(0, -2)[compared]

        @torch.no_grad()
        def logits(rows: slice) -> Tensor:
            with self._autocast():
                return lm_head(self._model)(selected[rows])

        return TeacherOutputs(logits, inputs.token_states(last))

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._model.device.type, self._dtype,
                              enabled=self._dtype is not None)


class DistillationObjective(LabelObjective):
    """Masked language modelling with a teacher's predictions and last states as targets.

    Predictions are compared at masked positions, where both models predict, or at every token;
    states at every token, through a learned projection where widths differ. A loss without weight
    is not computed.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1, after Sanh et al. 2020.
    """

    def __init__(self, student: PreTrainedModel, teacher: Teacher,
                 settings: DistillationConfig) -> None:
        super().__init__(student)
        self._teacher = teacher  # no module: its weights are not among those of this one
        self._settings = settings
        self._vocabulary = min(student.config.vocab_size, teacher.config.vocab_size)
        compared = "tokens" if settings.kl_positions == "all" else "masked"
        terms = {"mlm": LossTerm(settings.mlm_weight, "masked"),
                 "kl": LossTerm(settings.kl_weight, compared),
                 "cosine": LossTerm(settings.cosine_weight, "tokens")}
        self.loss_terms = {name: term for name, term in terms.items() if term.weight}
        self.metrics = {"mlm_accuracy": "masked"} if settings.mlm_weight else {}
        width, teacher_width = student.config.hidden_size, teacher.config.hidden_size
        self.projection = nn.Linear(width, teacher_width) \
            if settings.cosine_weight and width != teacher_width else nn.Identity()

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Lengths = None, masked: Tensor | None = None) -> dict[str, Tensor]:
        """Sum each term; shapes as in `EncoderInputs`."""
        inputs = EncoderInputs(input_ids, attention_mask, lengths)
        if masked is None:
            masked = masked_positions(labels)
        compared = inputs.token_positions() if self._settings.kl_positions == "all" else masked
        taught = self._teacher(inputs, compared)
        last = inputs.encode(self.model)
        sums = self._sum_predictions(last.flatten(0, -2), labels, masked, compared, taught)
        if "cosine" in self.loss_terms:
            # Sanh et al. 2020 (DistilBERT), section 2.
            own = self.projection(inputs.token_states(last))
            sums["cosine"] = (1 - functional.cosine_similarity(
                wide(own), wide(taught.last_states), dim=-1)).sum()
        return sums

    def _sum_predictions(self, states: Tensor, labels: Tensor, masked: Tensor, compared: Tensor,
                         taught: TeacherOutputs) -> dict[str, Tensor]:
        """Sum the losses of predictions, from the same logits where these are few.

        Args:
            states: (positions, width) of the student.
            labels: of the micro-batch.
            masked, compared: positions with a label, and those where the teacher predicts.
            taught: outputs of the teacher.
        """
        labels = labels.flatten()[masked]
        sums: dict[str, Tensor] = {}
        if "kl" in self.loss_terms:
            selected = states[compared]
            chunks = chunks_of_logits(self.model, selected)
            if len(chunks) == 1:
                logits = wide(lm_head(self.model)(selected))
                sums["kl"] = self._divergence(logits, taught, slice(None))
                if "mlm" in self.loss_terms and compared is masked:
                    sums["mlm"], sums["mlm_accuracy"] = sum_cross_entropy(logits, labels)
            else:
                sums["kl"] = sum_by_chunks(
                    lambda inputs, rows: (self._divergence(wide(lm_head(self.model)(inputs)),
                                                           taught, rows), 0),
                    chunks, selected, head_weights(self.model))[0]
        if "mlm" in self.loss_terms and "mlm" not in sums:
            sums["mlm"], sums["mlm_accuracy"] = masked_lm_loss(self.model, states[masked], labels)
        return sums

    def _divergence(self, logits: Tensor, taught: TeacherOutputs, rows: slice) -> Tensor:
        """Sum the divergence over rows; tables of equal vocabularies may be padded."""
        return teacher_divergence(logits[:, :self._vocabulary],
                                  wide(taught.logits(rows))[:, :self._vocabulary],
                                  self._settings.temperature)


def teacher_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Sum the Kullback-Leibler divergences of predictions from a teacher's, in nats.

    Multiplied by the squared temperature, so that gradients keep their size (Hinton et al. 2015,
    section 2).

    Args:
        logits: (rows, classes), at least float32.
        teacher_logits: shaped alike; overwritten by the gradient, to save its memory.
        temperature: of both softmax distributions.
    """
    summed: Tensor = _Divergence.apply(logits, teacher_logits, temperature)
    return summed


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
        total = logits.new_zeros(())
        numbers = _CACHED_ON_CPU if logits.device.type == "cpu" else _CACHED_ON_GPU
        rows = max(1, numbers // logits.shape[-1])
        for own, theirs in zip(logits.split(rows), teacher_logits.split(rows), strict=True):
            predicted = functional.log_softmax(own / temperature, dim=-1)
            taught = functional.log_softmax(theirs / temperature, dim=-1).clamp_(min=_LEAST_LOG)
            expected = taught.exp()
            total += taught.sub_(predicted).mul_(expected).sum()
            torch.sub(predicted.exp_(), expected, out=theirs)
        ctx.save_for_backward(teacher_logits)
        ctx.temperature = temperature
        return total * temperature**2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        gradient, = ctx.saved_tensors
        return gradient.mul_(upstream * ctx.temperature), None, None
