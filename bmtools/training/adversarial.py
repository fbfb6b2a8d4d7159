"""Training against small changes of word embeddings that change the predictions most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bmtools.masking.corruption import IGNORED
from bmtools.models.mlm import vocabulary_logits
from bmtools.models.nsp_head import NextSentenceHead
from bmtools.recipes.settings import AdversarialConfig
from bmtools.training.objectives import EncoderInputs, LossTerm, Objective, nsp_sums


class AdversarialObjective(Objective):
    """Restore hidden tokens, and predict the same there when an adversary moves the embeddings.

    The adversary starts from noise and climbs, token by token, where the divergence from the
    clean predictions grows; only predictions at hidden places are made and compared. Each side of
    the symmetric divergence learns from the other one held fixed, as in the authors' code.

    Two departures from algorithm 1. The gradient is brought to length 1 before its step, as in
    the authors' code for fine-tuning: its own length says little beside noise this small. And
    the noise is larger by default, because bfloat16 does not see the published 1e-5: the cosine
    between the gradient and the exact one is then 0.2, against 0.8 at 1e-3 (float32: 0.999 and
    more at both; 2 layers of 128, Italian clinical text).

    Noise comes from torch's own generator, as dropout's does: seed it at each step. With dropout
    on, the divergence measures what dropout changes too.

    Source: Liu et al. 2020 (ALUM), algorithm 1, which Gu et al. 2021 (PubMedBERT), section 2.4,
    pretrain with.

    Args:
        model: a masked language model; its word embeddings keep a hook, which is not saved.
        settings: the adversary; its weight is that of the part `adversarial`.
        head: also tells whether second segments follow, from the clean pass; or None.
    """

    def __init__(self, model: Any, settings: AdversarialConfig,
                 head: NextSentenceHead | None = None) -> None:
        super().__init__()
        self.model = model
        self.head = head
        self._settings = settings
        self._embeddings = Movable(model.get_input_embeddings())
        if getattr(model.base_model, "_compiled_call_impl", None) is not None:
            torch.compiler.reset()  # what is compiled already does not notice a new hook
        self.loss_terms = {"mlm": LossTerm(1.0, "masked"),
                      "adversarial": LossTerm(settings.adversarial, "masked")}
        self.metrics = {"mlm_accuracy": "masked"}
        if head is not None:
            self.loss_terms["nsp"] = LossTerm(1.0, "pairs")
            self.metrics["nsp_accuracy"] = "pairs"

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Tensor | None = None, token_type_ids: Tensor | None = None,
                nsp_labels: Tensor | None = None) -> dict[str, Tensor]:
        """Sum the terms, in nats, over labelled places and pairs; shapes as in `EncoderInputs`.

        The term `adversarial` is 0 while the model is not in training.
        """
        reading = EncoderInputs(input_ids, attention_mask, lengths, token_type_ids)
        asked = labels != IGNORED

        def judged(states: Tensor) -> Tensor:
            found = vocabulary_logits(self.model, states[asked])
            return found.to(torch.promote_types(found.dtype, torch.float32))

        def logits() -> Tensor:
            return judged(reading.states(self.model))

        states = reading.states(self.model)
        clean = judged(states)
        fixed = clean.detach()
        sums = {"mlm": functional.cross_entropy(clean, labels[asked], reduction="sum"),
                "mlm_accuracy": (fixed.argmax(-1) == labels[asked]).sum()}
        if self.head is not None and nsp_labels is not None:
            sums |= nsp_sums(self.head, reading.firsts(states), nsp_labels)
        if not self.model.training:
            return {**sums, "adversarial": torch.zeros_like(sums["mlm"])}
        inside = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        with self._embeddings.moved(self._worst(fixed, inside[..., None], logits)):
            moved = logits()
        return {**sums, "adversarial": divergence(fixed, moved)
                + divergence(moved.detach(), clean)}

    def _worst(self, clean: Tensor, inside: Tensor, logits: Callable[[], Tensor]) -> Tensor:
        """Climb from noise to a perturbation, as ids with a dimension of width behind them."""
        settings, embeddings = self._settings, self._embeddings
        found = embeddings.noise(inside) * settings.adversarial_noise
        for _ in range(settings.adversarial_steps):
            found.requires_grad_()
            with embeddings.moved(found):
                # As small as the noise, it would vanish in float16.
                raised = divergence(clean, logits()) / settings.adversarial_noise
                [uphill] = torch.autograd.grad(raised, found)
            step = settings.adversarial_step * unit(uphill, settings.adversarial_norm)
            found = bounded(found.detach() + step, settings.adversarial_radius,
                            settings.adversarial_norm)
        return found


class Movable:
    """Word embeddings that can be moved for a while.

    The model goes on reading ids, so positions, masks and packing are what they are without it,
    in every architecture. The hook is there from the start, or a compiled model would miss it.

    Args:
        embeddings: the layer that looks up words.
    """

    def __init__(self, embeddings: torch.nn.Embedding) -> None:
        self._weight = embeddings.weight
        self._offset: Tensor | None = None
        embeddings.register_forward_hook(self._move)

    def noise(self, inside: Tensor) -> Tensor:
        """Draw standard normal offsets for tokens that are inside, 0 for padding."""
        drawn = torch.randn(*inside.shape[:-1], self._weight.shape[1],
                            device=self._weight.device, dtype=self._weight.dtype)
        return drawn * inside

    @contextmanager
    def moved(self, offset: Tensor) -> Iterator[None]:
        """Add an offset, (..., tokens, width), to what is looked up."""
        self._offset = offset
        try:
            yield
        finally:
            self._offset = None

    def _move(self, _layer: Any, _inputs: Any, found: Tensor) -> Tensor:
        return found if self._offset is None else found + self._offset


def divergence(given: Tensor, found: Tensor) -> Tensor:
    """Sum the Kullback-Leibler divergences, in nats, of found predictions from given ones.

    Args:
        given: (places, vocabulary) logits.
        found: (places, vocabulary) logits.
    """
    return functional.kl_div(functional.log_softmax(found, dim=-1),
                             functional.log_softmax(given, dim=-1),
                             reduction="sum", log_target=True)


def unit(vectors: Tensor, norm: str) -> Tensor:
    """Bring vectors along the last dimension to length 1, in the norm `inf` or `l2`; 0 stays 0."""
    return vectors / _lengths(vectors, norm).clamp(min=torch.finfo(vectors.dtype).tiny)


def bounded(vectors: Tensor, radius: float, norm: str) -> Tensor:
    """Move vectors that reach beyond a radius to the nearest point within it."""
    if norm == "inf":
        return vectors.clamp(-radius, radius)
    return vectors * (radius / _lengths(vectors, norm).clamp(min=radius))


def _lengths(vectors: Tensor, norm: str) -> Tensor:
    return torch.linalg.vector_norm(vectors, float("inf") if norm == "inf" else 2.0, dim=-1,
                                    keepdim=True)
