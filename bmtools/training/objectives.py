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
"""Packed documents, or (documents,) tokens of each; None where sequences are padded."""


Inputs = JsonMapping
"""Arguments of an objective's forward pass by name: tensors, and what is made of them."""


@dataclass(frozen=True)
class LossTerm:
    """Weight of a term of a loss, and the key of the batch count that divides its sum."""

    weight: float
    per: str


class Objective(nn.Module):
    """A model and its loss.

    `loss_terms` are minimised, `metrics` only reported, with the key of the batch count that
    divides each; `forward` returns the sums of both. `active` is the objective itself or, of
    several, the selected one. `next_sentence` is the head of next-sentence prediction that is
    saved with the model, if any.
    """

    loss_terms: dict[str, LossTerm]
    metrics: dict[str, str] = {}  # noqa: RUF012
    active: Objective
    next_sentence: NextSentenceHead | None = None

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model: Any = model  # nn.Module types its members otherwise
        self.__dict__["active"] = self  # not a module of this one

    def prepare(self, micro_batch: Inputs, padded: bool = False) -> JsonObject:
        """Make on the CPU what a pass needs beside a micro-batch, which need not be raw.

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
        attention_mask: (batch, tokens) bool, False on padding; None where packed.
        lengths: of packed documents, or (documents,) tokens of each; None where padded.
        token_type_ids: shaped as input_ids, 0 in a first segment, 1 in a second; or None.
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
        """Select the states of the [CLS] positions, (documents, width)."""
        if self.lengths is None:
            return states[:, 0]
        return states[as_documents(self.lengths, states.device).starts.long()]

    def token_states(self, states: Tensor) -> Tensor:
        """Select the states of all tokens but padding, (tokens, width).

        Those of a packed pass may come as one sequence and end with padding.
        """
        if self.attention_mask is None:
            return states.flatten(0, -2)[:self.input_ids.numel()]
        return states[self.attention_mask]

    def token_positions(self) -> Tensor:
        """Number all tokens but padding across sequences, int64; waits for a GPU where padded."""
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
    """Number the positions with a label across sequences, int64; waits for a GPU."""
    return (labels.flatten() != IGNORED).nonzero().squeeze(1)


class MaskedObjective(LabelObjective):
    """Masked language modelling; the head runs at masked positions only.

    With a head of sentence pairs it also predicts whether two follow each other (Devlin et al.
    2019, section 3.1) or their order (Lan et al. 2020, ALBERT, section 3.1).

    Args:
        model: a masked language model.
        head: of sentence pairs, that learned before or a new one; or None.
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

        `nsp_labels` (pairs,), other shapes as in `EncoderInputs`.
        """
        inputs = EncoderInputs(input_ids, attention_mask, lengths, token_type_ids)
        states = inputs.encode(self.model)
        return {**_mlm_sums(self.model, states, labels, masked),
                **self.pair_sums(inputs, states, nsp_labels)}

    def pair_sums(self, inputs: EncoderInputs, states: Tensor,
                  nsp_labels: Tensor | None) -> dict[str, Tensor]:
        """Sum the loss of pairs, and count the correct predictions; nothing without a head."""
        if self.head is None or nsp_labels is None:
            return {}
        logits = self.head(inputs.cls_states(states)[:, None]).float()
        return {self._term: functional.cross_entropy(logits, nsp_labels, reduction="sum"),
                f"{self._term}_accuracy": (logits.argmax(-1) == nsp_labels).sum()}


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
        model: a masked language model.
        settings: of the perturbation and the weight of the term `adversarial`.
        head: of sentence pairs, predicted by the clean pass; or None.
        term: nsp or sop, the name of their loss.
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
        """Sum the terms, in nats, over labelled positions and pairs; shapes as in `EncoderInputs`.

        The term `adversarial` is 0 while the model is not in training.
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
        """Ascend from noise to a perturbation, shaped as input_ids and width."""
        noise, largest = self._settings.adversarial_noise, self._settings.adversarial_step
        weight = self.model.get_input_embeddings().weight
        perturbation = torch.randn(*tokens.shape[:-1], weight.shape[1], device=weight.device,
                                   dtype=weight.dtype) * tokens * noise
        perturbation.requires_grad_()
        with self._perturbed(perturbation):
            # As small as the noise, it would vanish in float16.
            [gradient] = torch.autograd.grad(divergence(clean, predict()) / noise, perturbation)
        # Each token's step has 1 as its largest element; 0 stays 0.
        lengths = torch.linalg.vector_norm(gradient, float("inf"), dim=-1, keepdim=True)
        step = gradient / lengths.clamp(min=torch.finfo(gradient.dtype).tiny)
        return (perturbation.detach() + largest * step).clamp(-largest, largest)

    @contextmanager
    def _perturbed(self, perturbation: Tensor) -> Iterator[None]:
        """Add a perturbation, (..., tokens, width), to the embeddings.

        The model still takes ids, so positions, masks and packing stay the same in every
        architecture. Packed tokens may be followed by padding, which is not perturbed.
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
    """Sum the Kullback-Leibler divergences, in nats, of predictions from a target.

    Args:
        target: (positions, vocabulary) logits.
        logits: (positions, vocabulary).
    """
    return functional.kl_div(functional.log_softmax(logits, dim=-1),
                             functional.log_softmax(target, dim=-1),
                             reduction="sum", log_target=True)


class CausalObjective(LabelObjective):
    """Causal language modelling: a quick way below the loss of token frequencies.

    Source: the causal detour of Touchent and de la Clergerie 2026, arXiv 2605.12438.
    """

    loss_terms = {"causal": LossTerm(1.0, "predicted")}  # noqa: RUF012
    metrics = {"causal_accuracy": "predicted"}  # noqa: RUF012

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Lengths = None, masked: Tensor | None = None) -> dict[str, Tensor]:
        """Sum cross-entropy, in nats, of each next token; shapes as in `EncoderInputs`."""
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
    """One model with several objectives, of which `switch` selects one.

    Args:
        model: which all of them train.
        objectives: around it, by name.
        next_sentence: head that is saved with the model, whether one of them trains it or not.
    """

    def __init__(self, model: PreTrainedModel, objectives: Mapping[str, Objective],
                 next_sentence: NextSentenceHead | None = None) -> None:
        super().__init__(model)
        # The head and the objectives are not modules of this one, so that each weight is trained,
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
