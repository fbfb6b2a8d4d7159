"""What is minimised: sums of losses over the places where something is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bmtools.masking.corruption import IGNORED
from bmtools.models.masked import encode, predict
from bmtools.training.settings import DistillSettings


@dataclass(frozen=True)
class Part:
    """One term of a loss: its weight, and what its sum is divided by, a key of batch counts."""

    weight: float
    per: str


class Objective(nn.Module):
    """A model and its loss. `parts` names the terms that `forward` returns the sums of."""

    parts: dict[str, Part]
    model: nn.Module


class MaskedObjective(Objective):
    """Restore hidden tokens; the head runs where something is hidden and nowhere else."""

    parts = {"mlm": Part(1.0, "masked")}  # noqa: RUF012

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, attended: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Sum cross-entropy, in nats, over labelled places; all inputs (batch, tokens)."""
        asked = labels != IGNORED
        logits = predict(self.model, encode(self.model, ids, attended)[asked])
        return {"mlm": functional.cross_entropy(logits.float(), labels[asked], reduction="sum")}


class CausalObjective(Objective):
    """Predict each next token from those before it: a quick way off the floor of frequencies.

    Source: the causal detour of Touchent and de la Clergerie 2026, arXiv 2605.12438.
    """

    parts = {"causal": Part(1.0, "predicted")}  # noqa: RUF012

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, attended: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Sum cross-entropy, in nats, of the token after each place; all (batch, tokens)."""
        asked = labels != IGNORED
        states = encode(self.model, ids, attended, causal=True)[asked]
        logits = predict(self.model, states)
        return {"causal": functional.cross_entropy(logits.float(), labels[asked],
                                                   reduction="sum")}


class DistillObjective(Objective):
    """Restore hidden tokens, predict like the teacher there, and think like it everywhere.

    The divergence is taken at hidden places, where either model is asked, and multiplied by the
    squared temperature so that its gradient keeps its size (Hinton et al. 2015, section 2.1).
    States are compared at every token, through a learned projection where widths differ.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1, after Sanh et al. 2020.
    """

    def __init__(self, student: Any, teacher: Any, settings: DistillSettings) -> None:
        super().__init__()
        self.model = student
        self._teacher = [teacher]  # in a list: no part of this module's weights
        self._temperature = settings.temperature
        self.parts = {"mlm": Part(settings.mlm_weight, "masked"),
                      "kl": Part(settings.kl_weight, "masked"),
                      "cosine": Part(settings.cosine_weight, "tokens")}
        width, wanted = student.config.hidden_size, teacher.config.hidden_size
        self.projection = nn.Identity() if width == wanted else nn.Linear(width, wanted)

    def forward(self, ids: Tensor, attended: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Sum the three terms; all inputs (batch, tokens)."""
        asked = labels != IGNORED
        teacher = self._teacher[0]
        with torch.no_grad():
            taught_states = encode(teacher, ids, attended)
            taught = predict(teacher, taught_states[asked]).float()
        states = encode(self.model, ids, attended)
        logits = predict(self.model, states[asked]).float()
        divergence = functional.kl_div(
            functional.log_softmax(logits / self._temperature, dim=-1),
            functional.log_softmax(taught / self._temperature, dim=-1),
            reduction="sum", log_target=True)
        likeness = functional.cosine_similarity(
            self.projection(states[attended]).float(), taught_states[attended].float(), dim=-1)
        return {"mlm": functional.cross_entropy(logits, labels[asked], reduction="sum"),
                "kl": divergence * self._temperature**2,
                "cosine": (1 - likeness).sum()}
