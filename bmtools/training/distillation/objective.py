"""Loss of a student whose targets are a teacher's predictions and inner states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bmtools.models.chunks import sum_by_chunks
from bmtools.models.mlm import (
    chunks_of_logits,
    head_logits,
    head_weights,
    masked_lm_loss,
    sum_cross_entropy,
    wide,
)
from bmtools.records import JsonObject
from bmtools.training.distillation.align_tokens import AlignedTeacher, AlignedTokens
from bmtools.training.distillation.losses import (
    cosine_distance,
    hidden_distance,
    relation_divergence,
    teacher_divergence,
)
from bmtools.training.distillation.teacher import (
    LayerRecorder,
    Teacher,
    TeacherOutputs,
    needs_of,
    relation_heads,
)
from bmtools.training.objectives import (
    EncoderInputs,
    Inputs,
    LabelObjective,
    Lengths,
    LossTerm,
    masked_positions,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bmtools.recipes.distillation import DistillationConfig
    from bmtools.training.distillation.cached_teacher import CachedTeacher


class DistillationObjective(LabelObjective):
    """Masked language modelling with a teacher's predictions and inner states as targets.

    Predictions are compared at masked positions, where both models predict, or at every token;
    states and relations at every token, states through a learned projection where widths differ.
    A loss without weight is not computed.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1, after Sanh et al. 2020; for states of layers
    Jiao et al. 2020 (TinyBERT), whose released code, too, has one projection for all layers; for
    relations Wang et al. 2021 (MiniLMv2).
    """

    def __init__(self, student: PreTrainedModel,
                 teacher: Teacher | CachedTeacher | AlignedTeacher,
                 settings: DistillationConfig) -> None:
        super().__init__(student)
        self._teacher = teacher  # no module: its weights are not among those of this one
        self._settings = settings
        self._needs, self._teacher_needs = needs_of(settings, student.config, teacher.config)
        self._recorder = LayerRecorder(student, self._needs)
        self._vocabulary = min(student.config.vocab_size, teacher.config.vocab_size)
        if settings.relation_weight:
            self._heads = relation_heads(settings, student.config, teacher.config)
        compared = "tokens" if settings.kl_positions == "all" else "masked"
        stated = "aligned_tokens" if isinstance(teacher, AlignedTeacher) else "tokens"
        terms = {"mlm": LossTerm(settings.mlm_weight, "masked"),
                 "logit_mse": LossTerm(settings.logit_mse_weight, compared),
                 "kl": LossTerm(settings.kl_weight, compared),
                 "cosine": LossTerm(settings.cosine_weight, stated),
                 "hidden": LossTerm(settings.hidden_weight, stated),
                 "relations": LossTerm(settings.relation_weight, "tokens")}
        self.loss_terms = {name: term for name, term in terms.items() if term.weight}
        self.metrics = {"mlm_accuracy": "masked"} if settings.mlm_weight else {}
        if isinstance(teacher, AlignedTeacher):
            self.metrics = {**self.metrics, "aligned": "tokens"}
        widths = student.config.hidden_size, teacher.config.hidden_size
        self.projection = _projection(*widths, settings.cosine_weight)
        self.hidden_projection = _projection(*widths, settings.hidden_weight)

    def prepare(self, micro_batch: Inputs, padded: bool = False) -> JsonObject:
        """Add the inputs of a teacher with another vocabulary."""
        inputs = super().prepare(micro_batch, padded)
        if isinstance(self._teacher, AlignedTeacher) and "aligned" not in inputs:
            inputs["aligned"] = self._teacher.align(**self.raw_inputs(inputs))
        return inputs

    def counts(self, micro_batches: Sequence[Inputs]) -> dict[str, int]:
        """Count the tokens that share characters with tokens of a teacher's other vocabulary."""
        if not isinstance(self._teacher, AlignedTeacher):
            return {}
        return {"aligned_tokens": sum(len(self.prepare(one)["aligned"].tokens)
                                      for one in micro_batches)}

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Lengths = None, masked: Tensor | None = None,
                **aligned: AlignedTokens) -> dict[str, Tensor]:
        """Sum each term; shapes as in `EncoderInputs`, `aligned` as `prepare` makes it."""
        inputs = EncoderInputs(input_ids, attention_mask, lengths)
        if masked is None:
            masked = masked_positions(labels)
        compared = inputs.token_positions() if self._settings.kl_positions == "all" else masked
        taught = self._teacher(inputs, compared, **aligned)
        last, states, projections = self._recorder.encode(inputs)
        sums = self._sum_predictions(last.flatten(0, -2), labels, masked, compared, taught)
        if taught.tokens is not None:
            sums["aligned"] = torch.tensor(len(taught.tokens), device=input_ids.device)
        if taught.last_states is not None:
            own = self.projection(taught.select(inputs.token_states(last)))
            sums["cosine"] = cosine_distance(own, taught.last_states)
        for own, theirs in zip(self._needs.layers, self._teacher_needs.layers, strict=True):
            sums["hidden"] = sums.get("hidden", 0) + hidden_distance(
                self.hidden_projection(taught.select(states[own])), taught.states[theirs])
        for own, theirs in zip(self._needs.relation_layers, self._teacher_needs.relation_layers,
                               strict=True):
            sums["relations"] = sums.get("relations", 0) + relation_divergence(
                projections[own], taught.projections[theirs], inputs.document_lengths(),
                self._heads)
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
        if taught.logits is not None:
            selected = states[compared]
            chunks = chunks_of_logits(self.model, selected)
            names = [name for name in ("logit_mse", "kl") if name in self.loss_terms]
            if len(chunks) == 1:
                logits = wide(head_logits(self.model, selected))
                theirs = self._theirs(taught, slice(None))
                sums = {name: self._compare(name, logits, theirs) for name in names}
                if "mlm" in self.loss_terms and compared is masked:
                    sums["mlm"], sums["mlm_accuracy"] = sum_cross_entropy(logits, labels)
            else:
                sums = {name: self._sum_in_chunks(name, selected, taught, chunks)
                        for name in names}
            if "kl" in sums:
                sums["kl"] = sums["kl"] + self._settings.temperature**2 * taught.excess_entropy
        if "mlm" in self.loss_terms and "mlm" not in sums:
            sums["mlm"], sums["mlm_accuracy"] = masked_lm_loss(self.model, states[masked], labels)
        return sums

    def _sum_in_chunks(self, name: str, states: Tensor, taught: TeacherOutputs,
                       chunks: Iterable[slice]) -> Tensor:
        def compute(inputs: Tensor, rows: slice) -> tuple[Tensor, int]:
            logits = wide(head_logits(self.model, inputs))
            return self._compare(name, logits, self._theirs(taught, rows)), 0

        return sum_by_chunks(compute, chunks, states, head_weights(self.model))[0]

    def _theirs(self, taught: TeacherOutputs, rows: slice) -> Tensor:
        assert taught.logits is not None
        return wide(taught.logits(rows))[:, :self._vocabulary]

    def _compare(self, name: str, logits: Tensor, theirs: Tensor) -> Tensor:
        """Sum a loss over positions; `kl` overwrites the teacher's logits."""
        logits = logits[:, :self._vocabulary]  # tables of equal vocabularies may be padded
        if name == "kl":
            return teacher_divergence(logits, theirs, self._settings.temperature)
        return hidden_distance(logits, theirs)


def _projection(width: int, teacher_width: int, weight: float) -> nn.Module:
    """Make a projection where a loss has a weight and the widths differ."""
    return nn.Linear(width, teacher_width) if weight and width != teacher_width else nn.Identity()
