"""Adversarial training on embeddings: small perturbations that change predictions most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from bmtools.models.mlm import lm_head
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.recipes.settings import PretrainingConfig
from bmtools.training.objectives import (
    EncoderInputs,
    Lengths,
    LossTerm,
    MaskedObjective,
    masked_positions,
    select_masked,
)


class AdversarialObjective(MaskedObjective):
    """Masked language modelling whose predictions withstand adversarial perturbations.

    The perturbation of the embeddings starts from noise and ascends the divergence from the clean
    predictions; only predictions at masked positions are made and compared. Each side of the
    symmetric divergence has the other one as a constant target, as in the authors' code.

    Two departures from algorithm 1. The gradient is normalised before its step, as in the
    authors' code for fine-tuning: its own length says little beside noise this small. And the
    noise is larger by default, because bfloat16 does not see the published 1e-5: the cosine
    between the gradient and the exact one is then 0.2, against 0.8 at 1e-3 (float32: 0.999 and
    more at both; 2 layers of 128, Italian clinical text).

    Noise comes from torch's own generator, as dropout's does: seed it at each step. With dropout
    on, the divergence measures what dropout changes too.

    Source: Liu et al. 2020 (ALUM), algorithm 1, which Gu et al. 2021 (PubMedBERT), section 2.4,
    pretrain with.

    Args:
        model: a masked language model; its word embeddings keep a hook, which is not saved.
        settings: of the perturbation and the weight of the term `adversarial`.
        head: of sentence pairs, predicted by the clean pass; or None.
        term: nsp or sop, the name of their loss.
    """

    def __init__(self, model: PreTrainedModel, settings: PretrainingConfig,
                 head: NextSentenceHead | None = None, term: str = "nsp") -> None:
        super().__init__(model, head, term)
        self._settings = settings
        embeddings = model.get_input_embeddings()
        assert isinstance(embeddings, torch.nn.Embedding)
        self._embeddings = PerturbedEmbeddings(embeddings)
        self.loss_terms = {"mlm": self.loss_terms.pop("mlm"),
                           "adversarial": LossTerm(settings.adversarial, "masked"),
                           **self.loss_terms}

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Lengths = None, token_type_ids: Tensor | None = None,
                nsp_labels: Tensor | None = None,
                masked: Tensor | None = None) -> dict[str, Tensor]:
        """Sum the terms, in nats, over labelled positions and pairs; shapes as in `EncoderInputs`.

        The term `adversarial` is 0 while the model is not in training.
        """
        inputs = EncoderInputs(input_ids, attention_mask, lengths, token_type_ids)
        positions = masked_positions(labels) if masked is None else masked

        def predict(states: Tensor) -> Tensor:
            logits = lm_head(self.model)(select_masked(states, labels, positions)[0])
            return logits.to(torch.promote_types(logits.dtype, torch.float32))

        states = inputs.encode(self.model)
        clean = predict(states)
        target, expected = clean.detach(), labels.flatten()[positions]
        sums = {"mlm": functional.cross_entropy(clean, expected, reduction="sum"),
                "mlm_accuracy": (target.argmax(-1) == expected).sum(),
                **self.pair_sums(inputs, states, nsp_labels)}
        if not self.model.training:
            return {**sums, "adversarial": torch.zeros_like(sums["mlm"])}
        tokens = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        worst = self._ascend(target, tokens[..., None],
                             lambda: predict(inputs.encode(self.model)))
        with self._embeddings.perturbed(worst):
            perturbed = predict(inputs.encode(self.model))
        return {**sums, "adversarial": divergence(target, perturbed)
                + divergence(perturbed.detach(), clean)}

    def _ascend(self, clean: Tensor, tokens: Tensor, predict: Callable[[], Tensor]) -> Tensor:
        """Ascend from noise to a perturbation, shaped as input_ids and width."""
        settings, embeddings = self._settings, self._embeddings
        perturbation = embeddings.noise(tokens) * settings.adversarial_noise
        perturbation.requires_grad_()
        with embeddings.perturbed(perturbation):
            # As small as the noise, it would vanish in float16.
            scaled = divergence(clean, predict()) / settings.adversarial_noise
            [gradient] = torch.autograd.grad(scaled, perturbation)
        largest = settings.adversarial_step
        return (perturbation.detach() + largest * unit(gradient)).clamp(-largest, largest)


class PerturbedEmbeddings:
    """Token embeddings with an optional perturbation.

    The model still takes ids, so positions, masks and packing stay the same in every
    architecture. Packed tokens may be followed by padding, which is not perturbed.

    Args:
        embeddings: the layer of token embeddings.
    """

    def __init__(self, embeddings: torch.nn.Embedding) -> None:
        self._weight = embeddings.weight
        self._perturbation: Tensor | None = None
        embeddings.register_forward_hook(self._add)

    def noise(self, tokens: Tensor) -> Tensor:
        """Draw standard normal noise where `tokens` is True, (..., tokens, 1), 0 for padding."""
        noise = torch.randn(*tokens.shape[:-1], self._weight.shape[1],
                            device=self._weight.device, dtype=self._weight.dtype)
        return noise * tokens

    @contextmanager
    def perturbed(self, perturbation: Tensor) -> Iterator[None]:
        """Add a perturbation, (..., tokens, width), to the embeddings."""
        self._perturbation = perturbation
        try:
            yield
        finally:
            self._perturbation = None

    def _add(self, _layer: object, _inputs: object, embedded: Tensor) -> Tensor:
        if self._perturbation is None:
            return embedded
        padding = embedded.shape[-2] - self._perturbation.shape[-2]
        return embedded + functional.pad(self._perturbation, (0, 0, 0, padding))


def divergence(target: Tensor, logits: Tensor) -> Tensor:
    """Sum the Kullback-Leibler divergences, in nats, of predictions from a target.

    Args:
        target: (positions, vocabulary) logits.
        logits: (positions, vocabulary).
    """
    return functional.kl_div(functional.log_softmax(logits, dim=-1),
                             functional.log_softmax(target, dim=-1),
                             reduction="sum", log_target=True)


def unit(vectors: Tensor) -> Tensor:
    """Divide vectors along the last dimension by their largest element; 0 stays 0."""
    lengths = torch.linalg.vector_norm(vectors, float("inf"), dim=-1, keepdim=True)
    return vectors / lengths.clamp(min=torch.finfo(vectors.dtype).tiny)
