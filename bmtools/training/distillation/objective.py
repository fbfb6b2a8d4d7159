"""Loss of a student whose targets are a teacher's predictions and last states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from bmtools.models.chunks import sum_by_chunks
from bmtools.models.mlm import (
    chunks_of_logits,
    head_weights,
    lm_head,
    masked_lm_loss,
    sum_cross_entropy,
    wide,
)
from bmtools.training.distillation.losses import cosine_distance, teacher_divergence
from bmtools.training.distillation.teacher import Teacher, TeacherOutputs
from bmtools.training.objectives import (
    EncoderInputs,
    LabelObjective,
    Lengths,
    LossTerm,
    masked_positions,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bmtools.recipes.distillation import DistillationConfig


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
            sums["cosine"] = cosine_distance(self.projection(inputs.token_states(last)),
                                             taught.last_states)
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
