"""Training objectives: sums of losses over the positions with a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from bmtools.data.masking.corruption import IGNORED
from bmtools.models.documents import SHAPE_MULTIPLE, DocumentLengths, as_documents
from bmtools.models.mlm import encode, lm_head, masked_lm_loss
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.packed import encode_packed
from bmtools.recipes.settings import PretrainingConfig
from bmtools.records import JsonMapping, JsonObject

Lengths = Tensor | DocumentLengths | None
"""Packed documents, or (documents,) tokens of each; None if sequences are padded."""


Inputs = JsonMapping
"""Arguments of an objective's forward pass by name: tensors and objects made from tensors."""


@dataclass(frozen=True)
class LossTerm:
    """Weight of a loss term, and the key of the batch count that divides the term's sum."""

    weight: float
    per: str


class Objective(nn.Module):
    """A model and its loss.

    `loss_terms` are minimised, and `metrics` are only reported. Both have the key of the batch
    count that divides each. `forward` returns the sums of both. `active` is the objective itself or
    the selected one of several. `next_sentence` is the head of next-sentence prediction that is
    saved with the model, if any.
    """

    loss_terms: dict[str, LossTerm]
    metrics: dict[str, str] = {}  # noqa: RUF012
    active: Objective
    next_sentence: NextSentenceHead | None = None

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model: Any = model  # nn.Module gives its members other types
        self.__dict__["active"] = self  # not registered as a module

    def prepare(self, micro_batch: Inputs, padded: bool = False) -> JsonObject:
        """Add the other inputs of a pass to a micro-batch, on the CPU; prepared inputs are kept.

        Args:
            micro_batch: arguments of `forward` by name, on the CPU.
            padded: pad packed tokens, so that shapes repeat.
        """
        return dict(micro_batch)


@dataclass(frozen=True)
class EncoderInputs:
    """Inputs of an encoder: padded sequences of one document each, or packed documents.

    Args:
        input_ids: (batch, tokens) or, packed, (tokens,).
        attention_mask: (batch, tokens) bool, False on padding; None if packed.
        lengths: lengths of packed documents, or (documents,) tokens of each; None if padded.
        token_type_ids: same shape as input_ids, 0 in a first segment, 1 in a second; or None.
    """

    input_ids: Tensor
    attention_mask: Tensor | None = None
    lengths: Lengths = None
    token_type_ids: Tensor | None = None

    def encode(self, model: PreTrainedModel, causal: bool = False) -> Tensor:
        """Compute hidden states, (batch, tokens, width) or (tokens, width)."""
        if self.lengths is not None:
            return encode_packed(model, self.input_ids, self.lengths, self.token_type_ids, causal)
        assert self.attention_mask is not None
        return encode(model, self.input_ids, self.attention_mask, causal,
                      token_type_ids=self.token_type_ids)

    def cls_states(self, states: Tensor) -> Tensor:
        """Select the states at [CLS] positions, (documents, width)."""
        if self.lengths is None:
            return states[:, 0]
        return states[as_documents(self.lengths, states.device).starts.long()]

    def token_states(self, states: Tensor) -> Tensor:
        """Select the states of all tokens except padding, (tokens, width).

        States of a packed pass may be one sequence that ends with padding.
        """
        if self.attention_mask is None:
            return states.flatten(0, -2)[:self.input_ids.numel()]
        return states[self.attention_mask]

    def token_positions(self) -> Tensor:
        """Return positions of all tokens except padding, int64; waits for a GPU if padded."""
        if self.attention_mask is None:
            return torch.arange(self.input_ids.numel(), device=self.input_ids.device)
        return self.attention_mask.flatten().nonzero().squeeze(1)


class LabelObjective(Objective):
    """An objective over the positions with a label, which are found on the CPU."""

    def prepare(self, micro_batch: Inputs, padded: bool = False) -> JsonObject:
        """Add the masked positions, and boundaries and positions of packed documents."""
        inputs = dict(micro_batch)
        if "masked" not in inputs:
            inputs["masked"] = masked_positions(inputs["labels"])
        if isinstance(inputs.get("lengths"), Tensor):
            inputs["lengths"] = DocumentLengths.of(inputs["lengths"],
                                                   multiple=SHAPE_MULTIPLE if padded else 1)
        return inputs


def masked_positions(labels: Tensor) -> Tensor:
    """Return the positions with a label across sequences, int64; waits for a GPU."""
    return (labels.flatten() != IGNORED).nonzero().squeeze(1)


class MaskedObjective(LabelObjective):
    """Masked language modelling; the head runs only at masked positions. With a head of sentence
    pairs it also predicts whether two segments follow each other (Devlin et al. 2019, section 3.1)
    or their order (Lan et al. 2020, ALBERT, section 3.1).

    Args:
        model: a masked language model.
        head: head for sentence pairs, trained or new; or None.
        term: nsp or sop, the name of the loss of pairs.
    """

    def __init__(self, model: PreTrainedModel, head: NextSentenceHead | None = None,
                 term: str = "nsp") -> None:
        super().__init__(model)
        self.head = head
        self._term = term
        self.loss_terms = {"mlm": LossTerm(1.0, "masked")}
        self.metrics = {"mlm_accuracy": "masked"}
        if head is not None:
            self.loss_terms[term] = LossTerm(1.0, "pairs")
            self.metrics[f"{term}_accuracy"] = "pairs"

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Lengths = None, token_type_ids: Tensor | None = None,
                nsp_labels: Tensor | None = None,
                masked: Tensor | None = None) -> dict[str, Tensor]:
        """Sum cross-entropies, in nats, over labelled positions and pairs.

        `nsp_labels` is (pairs,); for other shapes see `EncoderInputs`.
        """
        inputs = EncoderInputs(input_ids, attention_mask, lengths, token_type_ids)
        states = inputs.encode(self.model)
        return {**_mlm_sums(self.model, states, labels, masked),
                **self.pair_sums(inputs, states, nsp_labels)}

    def pair_sums(self, inputs: EncoderInputs, states: Tensor,
                  nsp_labels: Tensor | None) -> dict[str, Tensor]:
        """Sum the loss of pairs, and count the correct predictions; empty without a head."""
        if self.head is None or nsp_labels is None:
            return {}
        logits = self.head(inputs.cls_states(states)[:, None]).float()
        return {self._term: functional.cross_entropy(logits, nsp_labels, reduction="sum"),
                f"{self._term}_accuracy": (logits.argmax(-1) == nsp_labels).sum()}


class AdversarialObjective(MaskedObjective):
    """Masked language modelling whose predictions withstand adversarial perturbations.

    The perturbation of the embeddings starts from noise and ascends the divergence from the clean
    predictions. Only predictions at masked positions are made and compared. Each side of the
    symmetric divergence uses the other side as a constant target, as in the authors' code.

    There are two departures from algorithm 1. First, the gradient is normalised before its step, as
    in the authors' code for fine-tuning, because its length has little meaning with such small
    noise. Second, the default noise is larger, because bfloat16 rounds away the published 1e-5: the
    cosine between the gradient and the exact gradient is then 0.2, against 0.8 at 1e-3 (float32:
    0.999 and more for both; 2 layers of 128, Italian clinical text).

    Noise is sampled with torch's global generator, like dropout: seed it at each step. With
    dropout, the divergence also includes the changes by dropout.

    Source: Liu et al. 2020 (ALUM), algorithm 1, used in pretraining by Gu et al. 2021 (PubMedBERT),
    section 2.4.

    Args:
        model: a masked language model.
        settings: settings of the perturbation, and the weight of the term `adversarial`.
        head: head for sentence pairs, which the clean pass predicts; or None.
        term: nsp or sop, the name of the loss of pairs.
    """

    def __init__(self, model: PreTrainedModel, settings: PretrainingConfig,
                 head: NextSentenceHead | None = None, term: str = "nsp") -> None:
        super().__init__(model, head, term)
        self._settings = settings
        self.loss_terms = {"mlm": self.loss_terms.pop("mlm"),
                           "adversarial": LossTerm(settings.adversarial, "masked"),
                           **self.loss_terms}

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Lengths = None, token_type_ids: Tensor | None = None,
                nsp_labels: Tensor | None = None,
                masked: Tensor | None = None) -> dict[str, Tensor]:
        """Sum the terms, in nats, over labelled positions and pairs; shapes: see `EncoderInputs`.

        The term `adversarial` is 0 if the model is not in training mode.
        """
        inputs = EncoderInputs(input_ids, attention_mask, lengths, token_type_ids)
        positions = masked_positions(labels) if masked is None else masked

        def predict(states: Tensor) -> Tensor:
            logits = lm_head(self.model)(states.flatten(0, -2)[positions])
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
        with self._perturbed(worst):
            perturbed = predict(inputs.encode(self.model))
        return {**sums, "adversarial": divergence(target, perturbed)
                + divergence(perturbed.detach(), clean)}

    def _ascend(self, clean: Tensor, tokens: Tensor, predict: Callable[[], Tensor]) -> Tensor:
        """Ascend from noise to a perturbation, (*shape of input_ids, width)."""
        noise, largest = self._settings.adversarial_noise, self._settings.adversarial_step
        weight = self.model.get_input_embeddings().weight
        perturbation = torch.randn(*tokens.shape[:-1], weight.shape[1], device=weight.device,
                                   dtype=weight.dtype) * tokens * noise
        perturbation.requires_grad_()
        with self._perturbed(perturbation):
            # Divide by the noise: a gradient as small as the noise would vanish in float16.
            [gradient] = torch.autograd.grad(divergence(clean, predict()) / noise, perturbation)
        # The largest element of each token's step is 1; a step of 0 stays 0.
        lengths = torch.linalg.vector_norm(gradient, float("inf"), dim=-1, keepdim=True)
        step = gradient / lengths.clamp(min=torch.finfo(gradient.dtype).tiny)
        return (perturbation.detach() + largest * step).clamp(-largest, largest)

    @contextmanager
    def _perturbed(self, perturbation: Tensor) -> Iterator[None]:
        """Add a perturbation, (..., tokens, width), to the embeddings.

        The model still gets ids, so positions, masks and packing stay the same in every
        architecture. Padding after packed tokens is not perturbed.
        """
        def add(_module: Any, _inputs: Any, embedded: Tensor) -> Tensor:
            padding = embedded.shape[-2] - perturbation.shape[-2]
            return embedded + functional.pad(perturbation, (0, 0, 0, padding))

        hook = self.model.get_input_embeddings().register_forward_hook(add)
        try:
            yield
        finally:
            hook.remove()


def divergence(target: Tensor, logits: Tensor) -> Tensor:
    """Sum the Kullback-Leibler divergences, in nats, between a target and predictions.

    Args:
        target: (positions, vocabulary) logits.
        logits: (positions, vocabulary).
    """
    return functional.kl_div(functional.log_softmax(logits, dim=-1),
                             functional.log_softmax(target, dim=-1),
                             reduction="sum", log_target=True)


class CausalObjective(LabelObjective):
    """Causal language modelling, which quickly learns more than token frequencies.

    Source: the causal detour of Touchent and de la Clergerie 2026, arXiv 2605.12438.
    """

    loss_terms = {"causal": LossTerm(1.0, "predicted")}  # noqa: RUF012
    metrics = {"causal_accuracy": "predicted"}  # noqa: RUF012

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Lengths = None, masked: Tensor | None = None) -> dict[str, Tensor]:
        """Sum the cross-entropy, in nats, of each next token; see `EncoderInputs` for shapes."""
        states = EncoderInputs(input_ids, attention_mask, lengths).encode(self.model, causal=True)
        sums = _mlm_sums(self.model, states, labels, masked)
        return {"causal": sums["mlm"], "causal_accuracy": sums["mlm_accuracy"]}


def _mlm_sums(model: PreTrainedModel, states: Tensor, labels: Tensor,
              masked: Tensor | None) -> dict[str, Tensor]:
    """Sum the loss of labelled positions, and count the correct predictions."""
    if masked is None:
        masked = masked_positions(labels)
    loss, correct = masked_lm_loss(model, states.flatten(0, -2)[masked], labels.flatten()[masked])
    return {"mlm": loss, "mlm_accuracy": correct}


class PhasedObjective(Objective):
    """One model with several objectives; `switch` selects one.

    Args:
        model: the model that all objectives train.
        objectives: objectives with this model, by name.
        next_sentence: head that is saved with the model, whether it is trained or not.
    """

    def __init__(self, model: PreTrainedModel, objectives: Mapping[str, Objective],
                 next_sentence: NextSentenceHead | None = None) -> None:
        super().__init__(model)
        # The head and the objectives are not registered as modules, so that each weight is trained,
        # saved and synchronised once.
        self.__dict__["next_sentence"] = next_sentence
        self.heads = nn.ModuleDict({
            name: head for objective in objectives.values()
            for name, head in objective.named_children() if name != "model"})
        self._objectives = dict(objectives)
        self.switch(next(iter(objectives)))

    def switch(self, name: str) -> None:
        """Use another objective from now on."""
        self.__dict__["active"] = objective = self._objectives[name]
        self.loss_terms, self.metrics = objective.loss_terms, objective.metrics

    def forward(self, **inputs: Any) -> dict[str, Tensor]:
        """Sum the terms of the active objective."""
        return self.active(**inputs)
