"""What is minimised: sums of losses over the places where something is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bmtools.masking.corruption import IGNORED
from bmtools.models.mlm import encode, masked_lm_loss, vocabulary_logits
from bmtools.models.nsp_head import NextSentenceHead
from bmtools.models.packed import encode_packed
from bmtools.recipes.settings import DistillationConfig


@dataclass(frozen=True)
class LossTerm:
    """One term of a loss: its weight, and what its sum is divided by, a key of batch counts."""

    weight: float
    per: str


class Objective(nn.Module):
    """A model and its loss.

    `parts` names the terms of the loss; `measures` names what is only told of, with the key of
    batch counts that it is divided by. `forward` returns the sums of both.
    """

    loss_terms: dict[str, LossTerm]
    metrics: dict[str, str] = {}  # noqa: RUF012
    model: Any

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of all that `forward` returns."""
        return (*self.loss_terms, *self.metrics)


@dataclass(frozen=True)
class EncoderInputs:
    """What the encoder reads: rows of one document each, or documents end to end.

    Args:
        input_ids: (batch, tokens) or, end to end, (tokens,).
        attention_mask: (batch, tokens) bool, False on padding; None end to end.
        lengths: (documents,) tokens of each document that lie end to end, or None.
        token_type_ids: as input_ids: 0 in a first segment, 1 in a second; or None.
    """

    input_ids: Tensor
    attention_mask: Tensor | None = None
    lengths: Tensor | None = None
    token_type_ids: Tensor | None = None

    def states(self, model: Any, causal: bool = False) -> Tensor:
        """Encode: (batch, tokens, width) or (tokens, width)."""
        if self.lengths is not None:
            return encode_packed(model, self.input_ids, self.lengths, self.token_type_ids, causal)
        assert self.attention_mask is not None
        return encode(model, self.input_ids, self.attention_mask, causal,
                      token_type_ids=self.token_type_ids)

    def firsts(self, states: Tensor) -> Tensor:
        """Pick the state of each document's first token, (documents, width)."""
        if self.lengths is None:
            return states[:, 0]
        return states[(torch.cumsum(self.lengths, 0) - self.lengths).to(states.device)]

    def tokens_of(self, states: Tensor) -> Tensor:
        """Pick the states of all tokens but padding, (tokens, width)."""
        return states if self.attention_mask is None else states[self.attention_mask]


class MaskedObjective(Objective):
    """Restore hidden tokens; the head runs where something is hidden and nowhere else."""

    loss_terms = {"mlm": LossTerm(1.0, "masked")}  # noqa: RUF012
    metrics = {"mlm_accuracy": "masked"}  # noqa: RUF012

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Sum cross-entropy, in nats, over labelled places; shapes as in `EncoderInputs`."""
        states = EncoderInputs(input_ids, attention_mask, lengths).states(self.model)
        return _restored(self.model, states, labels)


class NspObjective(Objective):
    """Restore hidden tokens, and tell whether the second segment follows the first.

    Source: Devlin et al. 2019, section 3.1; the head is trained beside the model.
    """

    loss_terms = {"mlm": LossTerm(1.0, "masked"), "nsp": LossTerm(1.0, "pairs")}  # noqa: RUF012
    metrics = {"mlm_accuracy": "masked", "nsp_accuracy": "pairs"}  # noqa: RUF012

    def __init__(self, model: Any, seed: int = 0) -> None:
        super().__init__()
        self.model = model
        self.head = NextSentenceHead(model.config.hidden_size, seed,
                                     model.config.initializer_range)

    def forward(self, input_ids: Tensor, labels: Tensor, token_type_ids: Tensor, nsp_labels: Tensor,
                attention_mask: Tensor | None = None,
                lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Sum both cross-entropies, in nats; nsp_labels (pairs,), others as in `EncoderInputs`."""
        text = EncoderInputs(input_ids, attention_mask, lengths, token_type_ids)
        states = text.states(self.model)
        return {**_restored(self.model, states, labels),
                **nsp_sums(self.head, text.firsts(states), nsp_labels)}


def nsp_sums(head: NextSentenceHead, firsts: Tensor, nsp_labels: Tensor) -> dict[str, Tensor]:
    """Sum the loss of pairs, and count those told right; firsts (pairs, width)."""
    logits = head(firsts[:, None]).float()
    return {"nsp": functional.cross_entropy(logits, nsp_labels, reduction="sum"),
            "nsp_accuracy": (logits.argmax(-1) == nsp_labels).sum()}


class CausalObjective(Objective):
    """Predict each next token from those before it: a quick way off the floor of frequencies.

    Source: the causal detour of Touchent and de la Clergerie 2026, arXiv 2605.12438.
    """

    loss_terms = {"causal": LossTerm(1.0, "predicted")}  # noqa: RUF012
    metrics = {"causal_accuracy": "predicted"}  # noqa: RUF012

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Sum cross-entropy, in nats, of the token after each; shapes as in `EncoderInputs`."""
        states = EncoderInputs(input_ids, attention_mask, lengths).states(self.model, causal=True)
        found = _restored(self.model, states, labels)
        return {"causal": found["mlm"], "causal_accuracy": found["mlm_accuracy"]}


class DistillationObjective(Objective):
    """Restore hidden tokens, predict like the teacher there, and think like it everywhere.

    The divergence is taken at hidden places, where either model is asked, and multiplied by the
    squared temperature so that its gradient keeps its size (Hinton et al. 2015, section 2.1).
    States are compared at every token, through a learned projection where widths differ.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1, after Sanh et al. 2020.
    """

    metrics = {"mlm_accuracy": "masked"}  # noqa: RUF012

    def __init__(self, student: Any, teacher: Any, settings: DistillationConfig) -> None:
        super().__init__()
        self.model = student
        self._teacher = [teacher]  # in a list: no part of this module's weights
        self._temperature = settings.temperature
        self.loss_terms = {"mlm": LossTerm(settings.mlm_weight, "masked"),
                      "kl": LossTerm(settings.kl_weight, "masked"),
                      "cosine": LossTerm(settings.cosine_weight, "tokens")}
        width, wanted = student.config.hidden_size, teacher.config.hidden_size
        self.projection = nn.Identity() if width == wanted else nn.Linear(width, wanted)

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Sum the three terms; shapes as in `EncoderInputs`."""
        text = EncoderInputs(input_ids, attention_mask, lengths)
        asked = labels != IGNORED
        teacher = self._teacher[0]
        with torch.no_grad():
            taught_states = text.states(teacher)
            taught = vocabulary_logits(teacher, taught_states[asked]).float()
        states = text.states(self.model)
        logits = vocabulary_logits(self.model, states[asked]).float()
        divergence = functional.kl_div(
            functional.log_softmax(logits / self._temperature, dim=-1),
            functional.log_softmax(taught / self._temperature, dim=-1),
            reduction="sum", log_target=True)
        likeness = functional.cosine_similarity(
            self.projection(text.tokens_of(states)).float(),
            text.tokens_of(taught_states).float(), dim=-1)
        return {"mlm": functional.cross_entropy(logits, labels[asked], reduction="sum"),
                "kl": divergence * self._temperature**2,
                "cosine": (1 - likeness).sum(),
                "mlm_accuracy": (logits.argmax(-1) == labels[asked]).sum()}


class PhasedObjective(Objective):
    """One model with a loss for each task; `switch` says which is asked.

    Args:
        model: what all of them train.
        by_task: the losses around it.
    """

    def __init__(self, model: nn.Module, by_task: Mapping[str, Objective]) -> None:
        super().__init__()
        self.model = model
        # What a loss trains beside the model; the losses themselves are no modules of this one,
        # so that each weight is held, saved and shared between processes once.
        self.heads = nn.ModuleDict({
            name: head for loss in by_task.values() for name, head in loss.named_children()
            if name != "model"})
        self._by_task = dict(by_task)
        self.switch(next(iter(by_task)))

    def switch(self, task: str) -> None:
        """Ask another task from now on."""
        self._active = [self._by_task[task]]
        self.loss_terms, self.metrics = self._active[0].loss_terms, self._active[0].metrics

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        """Sum the terms of the present task."""
        return self._active[0](**inputs)


def _restored(model: Any, states: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Sum the loss of labelled places, and count those that are right."""
    asked = labels != IGNORED
    loss, right = masked_lm_loss(model, states[asked], labels[asked])
    return {"mlm": loss, "mlm_accuracy": right}
