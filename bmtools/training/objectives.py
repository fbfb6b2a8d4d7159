"""Training objectives: sums of losses over the positions with a label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bmtools.masking.corruption import IGNORED
from bmtools.models.mlm import encode, lm_head, masked_lm_loss
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.packed import encode_packed
from bmtools.recipes.settings import DistillationConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class LossTerm:
    """Weight of a term of a loss, and the key of the batch count that divides its sum."""

    weight: float
    per: str


class Objective(nn.Module):
    """A model and its loss.

    `loss_terms` are minimised, `metrics` only reported, with the key of the batch count that
    divides each; `forward` returns the sums of both.
    """

    loss_terms: dict[str, LossTerm]
    metrics: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model: Any = model  # nn.Module types its members otherwise

    @property
    def next_sentence(self) -> NextSentenceHead | None:
        """Head of next-sentence prediction that is saved with the model, if any."""
        return None


@dataclass(frozen=True)
class EncoderInputs:
    """Inputs of an encoder: padded sequences of one document each, or packed documents.

    Args:
        input_ids: (batch, tokens) or, packed, (tokens,).
        attention_mask: (batch, tokens) bool, False on padding; None where packed.
        lengths: (documents,) tokens of each packed document; None where padded.
        token_type_ids: shaped as input_ids, 0 in a first segment, 1 in a second; or None.
    """

    input_ids: Tensor
    attention_mask: Tensor | None = None
    lengths: Tensor | None = None
    token_type_ids: Tensor | None = None

    def encode(self, model: PreTrainedModel, causal: bool = False) -> Tensor:
        """Compute hidden states, (batch, tokens, width) or (tokens, width)."""
        if self.lengths is not None:
            return encode_packed(model, self.input_ids, self.lengths, self.token_type_ids, causal)
        assert self.attention_mask is not None
        return encode(model, self.input_ids, self.attention_mask, causal,
                      token_type_ids=self.token_type_ids)

    def cls_states(self, states: Tensor) -> Tensor:
        """Select the states of the [CLS] positions, (documents, width)."""
        if self.lengths is None:
            return states[:, 0]
        return states[(torch.cumsum(self.lengths, 0) - self.lengths).to(states.device)]

    def token_states(self, states: Tensor) -> Tensor:
        """Select the states of all tokens but padding, (tokens, width)."""
        return states if self.attention_mask is None else states[self.attention_mask]

    def is_token(self) -> Tensor:
        """Tell tokens from padding, bool, shaped as input_ids."""
        return torch.ones_like(self.input_ids, dtype=torch.bool) \
            if self.attention_mask is None else self.attention_mask


class MaskedObjective(Objective):
    """Masked language modelling; the head runs at masked positions only."""

    loss_terms = {"mlm": LossTerm(1.0, "masked")}  # noqa: RUF012
    metrics = {"mlm_accuracy": "masked"}  # noqa: RUF012

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Sum cross-entropy, in nats, over labelled positions; shapes as in `EncoderInputs`."""
        states = EncoderInputs(input_ids, attention_mask, lengths).encode(self.model)
        return _mlm_sums(self.model, states, labels)


class PairObjective(Objective):
    """Masked language modelling and a prediction about pairs of sentences.

    Source: Devlin et al. 2019, section 3.1, of the next sentence; Lan et al. 2020 (ALBERT),
    section 3.1, of the order of two. The head is trained beside the model.

    Args:
        model: a masked language model.
        head: that learned before, or a new one.
        term: nsp or sop, the name of the loss.
    """

    def __init__(self, model: PreTrainedModel, head: NextSentenceHead, term: str = "nsp") -> None:
        super().__init__(model)
        self.head = head
        self._term = term
        self.loss_terms = {"mlm": LossTerm(1.0, "masked"), term: LossTerm(1.0, "pairs")}
        self.metrics = {"mlm_accuracy": "masked", f"{term}_accuracy": "pairs"}

    def forward(self, input_ids: Tensor, labels: Tensor, token_type_ids: Tensor,
                nsp_labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Sum both cross-entropies, in nats; nsp_labels (pairs,), others as in `EncoderInputs`."""
        inputs = EncoderInputs(input_ids, attention_mask, lengths, token_type_ids)
        states = inputs.encode(self.model)
        return {**_mlm_sums(self.model, states, labels),
                **pair_sums(self.head, inputs.cls_states(states), nsp_labels, self._term)}


class CausalObjective(Objective):
    """Causal language modelling: a quick way below the loss of token frequencies.

    Source: the causal detour of Touchent and de la Clergerie 2026, arXiv 2605.12438.
    """

    loss_terms = {"causal": LossTerm(1.0, "predicted")}  # noqa: RUF012
    metrics = {"causal_accuracy": "predicted"}  # noqa: RUF012

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Sum cross-entropy, in nats, of each next token; shapes as in `EncoderInputs`."""
        states = EncoderInputs(input_ids, attention_mask, lengths).encode(self.model, causal=True)
        sums = _mlm_sums(self.model, states, labels)
        return {"causal": sums["mlm"], "causal_accuracy": sums["mlm_accuracy"]}


class DistillationObjective(Objective):
    """Masked language modelling with a teacher's predictions and hidden states as targets.

    The divergence is taken at masked positions, where both models predict, or at every token, and
    multiplied by the squared temperature so that its gradient keeps its size (Hinton et al. 2015,
    section 2.1). States are compared at every token, through a learned projection where widths
    differ.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1, after Sanh et al. 2020.
    """

    metrics = {"mlm_accuracy": "masked"}  # noqa: RUF012

    def __init__(self, student: PreTrainedModel, teacher: PreTrainedModel,
                 settings: DistillationConfig) -> None:
        super().__init__(student)
        self._teacher = [teacher]  # in a list: not among this module's weights
        self._temperature = settings.temperature
        self._compares_all = settings.kl_positions == "all"
        self.loss_terms = {"mlm": LossTerm(settings.mlm_weight, "masked"),
                           "kl": LossTerm(settings.kl_weight,
                                          "tokens" if self._compares_all else "masked"),
                           "cosine": LossTerm(settings.cosine_weight, "tokens")}
        width, teacher_width = student.config.hidden_size, teacher.config.hidden_size
        self.projection = nn.Identity() if width == teacher_width else \
            nn.Linear(width, teacher_width)

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Sum the three terms; shapes as in `EncoderInputs`."""
        inputs = EncoderInputs(input_ids, attention_mask, lengths)
        compared = inputs.is_token() if self._compares_all else labels != IGNORED
        teacher = self._teacher[0]
        with torch.no_grad():
            teacher_states = inputs.encode(teacher)
            teacher_logits = lm_head(teacher)(teacher_states[compared]).float()
        states = inputs.encode(self.model)
        logits, labels = lm_head(self.model)(states[compared]).float(), labels[compared]
        kl = functional.kl_div(
            functional.log_softmax(logits / self._temperature, dim=-1),
            functional.log_softmax(teacher_logits / self._temperature, dim=-1),
            reduction="sum", log_target=True)
        similarity = functional.cosine_similarity(
            self.projection(inputs.token_states(states)).float(),
            inputs.token_states(teacher_states).float(), dim=-1)
        return {"mlm": functional.cross_entropy(logits, labels, ignore_index=IGNORED,
                                                reduction="sum"),
                "kl": kl * self._temperature**2,
                "cosine": (1 - similarity).sum(),
                "mlm_accuracy": (logits.argmax(-1) == labels).sum()}


class PhasedObjective(Objective):
    """One model with several objectives, of which `switch` selects one.

    Args:
        model: which all of them train.
        objectives: around it, by name.
        next_sentence: head that is saved with the model, whether one of them trains it or not.
    """

    def __init__(self, model: PreTrainedModel, objectives: Mapping[str, Objective],
                 next_sentence: NextSentenceHead | None = None) -> None:
        super().__init__(model)
        self._next_sentence = [next_sentence]  # in a list: not among this module's weights
        # Weights trained beside the model. The objectives themselves are not modules of this one,
        # so that each weight is trained, saved and synchronised once.
        self.heads = nn.ModuleDict({
            name: head for objective in objectives.values()
            for name, head in objective.named_children() if name != "model"})
        self._objectives = dict(objectives)
        self.switch(next(iter(objectives)))

    @property
    def next_sentence(self) -> NextSentenceHead | None:
        """Head of next-sentence prediction that is saved with the model, if any."""
        return self._next_sentence[0]

    def switch(self, name: str) -> None:
        """Use another objective from now on."""
        self._active = name
        objective = self._objectives[name]
        self.loss_terms, self.metrics = objective.loss_terms, objective.metrics

    @contextmanager
    def switched(self, name: str) -> Iterator[None]:
        """Use another objective for a while."""
        before = self._active
        self.switch(name)
        try:
            yield
        finally:
            self.switch(before)

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """Sum the terms of the active objective."""
        return self._objectives[self._active](**inputs)


def _mlm_sums(model: PreTrainedModel, states: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Sum the loss of labelled positions, and count the correct predictions."""
    masked = labels != IGNORED
    loss, correct = masked_lm_loss(model, states[masked], labels[masked])
    return {"mlm": loss, "mlm_accuracy": correct}


def pair_sums(head: NextSentenceHead, cls_states: Tensor, nsp_labels: Tensor,
              term: str) -> dict[str, Tensor]:
    """Sum the loss of pairs, and count the correct predictions; cls_states (pairs, width)."""
    logits = head(cls_states[:, None]).float()
    return {term: functional.cross_entropy(logits, nsp_labels, reduction="sum"),
            f"{term}_accuracy": (logits.argmax(-1) == nsp_labels).sum()}
