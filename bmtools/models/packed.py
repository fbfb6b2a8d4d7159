"""Padding-free encoding: documents end to end in one sequence, with their own attention.

In transformers 5, position ids that restart do not separate documents: encoders with `sdpa` or
`eager` attention silently attend across the whole sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask
from transformers.models.megatron_bert.modeling_megatron_bert import MegatronBertSelfAttention

from bmtools.errors import BmtoolsError, CheckpointError, setting
from bmtools.models.documents import DocumentLengths, as_documents
from bmtools.models.families import first_position
from bmtools.models.mlm import encode, require_segments
from bmtools.models.precision import FastLinear
from bmtools.models.varlen import FastDropout, attend, varlen_attention

ATTENTION = "bmtools_documents"
ARCHITECTURES = {"bert": "BERT", "roberta": "RoBERTa", "xlm-roberta": "XLM-R",
                 "camembert": "CamemBERT", "megatron-bert": "Megatron-BERT",
                 "modernbert": "ModernBERT", "eurobert": "EuroBERT"}
# Tolerated rounding error of one token's states, as a share of their norm.
_TOLERANCES = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
# States that a change cannot reach keep their bits in every precision. This tolerance is for GPUs
# that do not add in a fixed order.
_LEAK_TOLERANCE = 1e-5
_NOISE_SHARE = 1e-3
# Limit for the error of packed documents as a multiple of the error of separate documents in the
# same precision. Both errors are roundings of the same size, and the largest ones are compared.
_TIMES_NOISE = 3.0


def _use_padded() -> str:
    return f"use {setting('layout', 'padded')}"


def prepare_packed(model: PreTrainedModel) -> None:
    """Make a model separate packed documents; padded batches work as before.

    Weights and saved files stay the same. A second call is harmless.

    Raises:
        CheckpointError: the architecture is not supported.
    """
    model_type = model.config.model_type
    if model_type not in ARCHITECTURES:
        raise CheckpointError(f"{type(model).__name__}: does not support packed documents; "
                              f"expected {', '.join(ARCHITECTURES.values())}; {_use_padded()}")
    if model_type == "megatron-bert":
        for layer in cast("Any", model.base_model).encoder.layer:
            layer.attention.self.__class__ = _MegatronAttention
        return
    AttentionInterface.register(ATTENTION, _attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model.set_attn_implementation(ATTENTION)


def prepare_for_cpu(model: PreTrainedModel) -> None:
    """Replace attention, dropout and products by operations that are faster on a CPU."""
    if model.config.model_type in ARCHITECTURES:
        prepare_packed(model)  # this is also faster for padded sequences
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = FastDropout
        elif type(module) is nn.Linear:
            module.__class__ = FastLinear


def encode_packed(model: PreTrainedModel, input_ids: Tensor, lengths: Tensor | DocumentLengths,
                  token_type_ids: Tensor | None = None, causal: bool = False) -> Tensor:
    """Run the encoder, without its head, over documents packed end to end.

    Positions restart with each document, and no document sees another.

    Args:
        model: prepared by `prepare_packed`.
        input_ids: (tokens,) int64, special tokens of each document included.
        lengths: lengths of the documents; or (documents,) int64 tokens of each, which makes this
            wait for the GPU.
        token_type_ids: (tokens,) int64 segments; default: all 0.
        causal: let each token see only itself and earlier tokens of its document.

    Returns:
        last-layer states, (tokens, hidden size).

    Raises:
        CheckpointError: the model was not prepared, or there are token types but no segment
            embeddings.
        ValueError: the sum of the lengths is not the number of tokens.
    """
    if not _is_prepared(model):
        raise CheckpointError(f"{type(model).__name__}: packed documents would see each other; "
                              f"call prepare_packed first or {_use_padded()}")
    documents = replace(as_documents(lengths, input_ids.device), causal=causal)
    padding, tokens = documents.padding, len(input_ids)
    if documents.tokens - padding != tokens:
        raise ValueError(f"lengths of packed documents: found {documents.tokens - padding} tokens "
                         f"in all, expected {tokens}")
    positions, first = documents.positions, first_position(model.config)
    if first:  # RoBERTa counts tokens that are not padding, wherever they are
        counted = functional.pad((input_ids != first - 1).long(), (0, padding))
        before = counted.cumsum(0) - counted
        starts = torch.arange(len(positions), device=positions.device) - positions
        positions = (before - before[starts] + 1) * counted + first - 1
    inputs = {"input_ids": input_ids, "position_ids": positions}
    if token_type_ids is not None:
        require_segments(model)
        inputs["token_type_ids"] = token_type_ids
    inputs = {name: functional.pad(value, (0, documents.tokens - len(value)))[None]
              for name, value in inputs.items()}
    encoder: Any = model.base_model
    if model.config.model_type == "megatron-bert":
        # Call its parts, because the model drops arguments that it does not know.
        embedded = encoder.embeddings(**inputs)
        states: Tensor = encoder.encoder(embedded, attention_mask=documents).last_hidden_state
    else:
        # This mask is passed on unchanged, so that no (tokens, tokens) mask is built.
        mask = {"full_attention": None, "sliding_attention": None} \
            if model.config.model_type == "modernbert" \
            else torch.ones(1, 1, 1, 1, dtype=torch.bool, device=input_ids.device)
        states = encoder(**inputs, attention_mask=mask, documents=documents).last_hidden_state
    states = states.squeeze(0)
    return states[:tokens] if padding else states


def _is_prepared(model: PreTrainedModel) -> bool:
    if model.config.model_type == "megatron-bert":
        return all(isinstance(layer.attention.self, _MegatronAttention)
                   for layer in cast("Any", model.base_model).encoder.layer)
    return bool(model.config._attn_implementation == ATTENTION)


def _attention(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any,
               dropout: float = 0.0, scaling: float | None = None,
               sliding_window: int | None = None, documents: DocumentLengths | None = None,
               **options: object) -> tuple[Tensor, None]:
    """Attend within documents, if any, or within each sequence.

    Args:
        module: the attention layer.
        query, key, value: (batch, heads, tokens, head size); packed documents are one sequence.
        attention_mask: mask from `sdpa_mask`; ignored if there are documents.
        dropout: share of attention weights dropped.
        scaling: multiplies the scores.
        sliding_window: tokens seen on either side, plus the token itself.
        documents: passed through the model by `encode_packed`.

    Returns:
        (batch, tokens, heads, head size), and None instead of weights.
    """
    if (groups := query.shape[1] // key.shape[1]) > 1:  # several heads share keys and values
        key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    if documents is None:
        is_causal = attention_mask is None and bool(module.is_causal)
        return attend(query, key, value, attention_mask, dropout, is_causal,
                      scaling).transpose(1, 2), None
    # transformers also counts the token itself.
    window = None if sliding_window is None else sliding_window - 1
    scale = query.shape[-1]**-0.5 if scaling is None else scaling
    query, key, value = (part[0].transpose(0, 1) for part in (query, key, value))
    return varlen_attention(query, key, value, documents, scale, window, dropout)[None], None


class _MegatronAttention(MegatronBertSelfAttention):
    """Megatron-BERT's attention, which has no interface; documents replace the mask."""

    def forward(self, hidden_states: Tensor, attention_mask: Any = None,
                *args: Any, **kwargs: Any) -> Any:
        if not isinstance(attention_mask, DocumentLengths):
            return super().forward(hidden_states, attention_mask, *args, **kwargs)
        shape = (-1, self.num_attention_heads, self.attention_head_size)
        query, key, value = (linear(hidden_states[0]).view(shape)
                             for linear in (self.query, self.key, self.value))
        output = varlen_attention(query, key, value, attention_mask, self.attention_head_size**-0.5,
                                  dropout=self.dropout.p if self.training else 0.0)
        return output.flatten(1)[None], None


def self_check(model: PreTrainedModel, input_ids: Tensor, lengths: Tensor,
               token_type_ids: Tensor | None = None, causal: bool = False) -> None:
    """Reject a model that encodes packed documents differently from separate documents.

    The check runs without dropout. Changing some tokens must not change the states of tokens that
    cannot see them. States and gradients must equal the states and gradients of plain transformers
    for each document separately. The check runs in the precision of the surrounding autocast, if
    any. If autocast or TF32 rounds, both layouts are compared with separate documents in float32.
    The error of packed documents may then be a few times the error of separate documents. The check
    needs the memory of a training step on `input_ids` in float32 and of three gradients. It does
    not change the model or use a random state.

    Args:
        model: prepared by `prepare_packed`.
        input_ids, lengths, token_type_ids, causal: as for `encode_packed`; two or more documents of
            different lengths reveal most faults.

    Raises:
        BmtoolsError: there is a difference; the message states its place, its size and the fix.
    """
    device = input_ids.device
    documents = DocumentLengths.of(lengths, device, causal)
    document_ids = documents.document_ids()
    # Change every other document or, with causal attention, the last token of each document.
    is_changed = document_ids % 2 == 0
    if causal:
        is_changed = torch.zeros_like(is_changed)
        is_changed[documents.boundaries[1:].long() - 1] = True
    changed = torch.where(is_changed, (input_ids + 1) % model.config.vocab_size, input_ids)

    def encode_alone() -> Tensor:
        return _encode_separately(model, input_ids, documents, token_type_ids)

    was_training, name = model.training, type(model).__name__
    autocasts = torch.is_autocast_enabled(device.type)
    model.eval()
    try:
        states, gradients = _states_and_gradients(
            model, lambda: encode_packed(model, input_ids, lengths, token_type_ids, causal))
        with torch.no_grad():
            after = encode_packed(model, changed, lengths, token_type_ids, causal).float()
        errors, others = _errors(after[~is_changed], states[~is_changed]), document_ids[~is_changed]
        _check(errors, torch.full_like(errors, _LEAK_TOLERANCE), lambda at: (
            f"{name}: packed document {int(others[at]) + 1} changes when tokens it must not see "
            "change: its states"))
        with unrounded(device):
            exact, exact_gradients = _states_and_gradients(model, encode_alone)
        precision = torch.get_autocast_dtype(device.type) if autocasts else model.dtype
        limit = torch.tensor(_TOLERANCES.get(precision, _TOLERANCES[torch.float32]))
        limits = limit.expand(len(gradients))
        if autocasts or (device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32):
            alone, alone_gradients = _states_and_gradients(model, encode_alone)
            limit = limit.maximum(_TIMES_NOISE * _errors(alone, exact).max())
            limits = limits.maximum(
                _TIMES_NOISE * _gradient_errors(alone_gradients, exact_gradients))
        _check(_errors(states, exact), limit.expand(len(states)), lambda at: (
            f"{name}: packed document {int(document_ids[at]) + 1} differs from the same document "
            "alone: its states"))
        _check(_gradient_errors(gradients, exact_gradients), limits, lambda at: (
            f"{name}: gradients of {[*gradients][at]} in packed and in separate documents"))
    finally:
        model.train(was_training)


@contextmanager
def unrounded(device: torch.device) -> Iterator[None]:
    """Compute products of float32 matrices in full precision."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _encode_separately(model: PreTrainedModel, input_ids: Tensor, documents: DocumentLengths,
                       token_type_ids: Tensor | None) -> Tensor:
    """Encode each document separately with the plain model, (tokens, hidden size)."""
    lengths = documents.lengths.tolist()
    segments = [None] * len(lengths) if token_type_ids is None else token_type_ids.split(lengths)
    attention, states = model.config._attn_implementation, []
    if attention == ATTENTION:
        model.set_attn_implementation("sdpa")
    try:
        for ids, types in zip(input_ids.split(lengths), segments, strict=True):
            mask = torch.ones_like(ids[None], dtype=torch.bool)
            states.append(encode(model, ids[None], mask, documents.causal,
                                 token_type_ids=None if types is None else types[None])[0])
    finally:
        model.set_attn_implementation(attention)
    return torch.cat(states)


def _states_and_gradients(model: PreTrainedModel,
                          encode_all: Callable[[], Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return states in float32, and the gradient of each weight along a fixed direction."""
    states = encode_all()
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    if not weights:
        return states.detach().float(), {}
    direction = torch.randn(states.shape, generator=torch.Generator().manual_seed(0))
    gradients = torch.autograd.grad(
        (states.float() * direction.to(states.device)).sum(), list(weights.values()),
        allow_unused=True, materialize_grads=True)
    return states.detach().float(), dict(zip(weights, gradients, strict=True))


def _errors(states: Tensor, expected: Tensor) -> Tensor:
    """Return the difference of each token's states as a share of their norm, (tokens,)."""
    errors = (states - expected).norm(dim=-1) / expected.norm(dim=-1).clamp_min(1e-12)
    return errors.nan_to_num(nan=torch.inf).cpu()


def _gradient_errors(gradients: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> Tensor:
    """Return the difference of each weight's gradient as a share of its norm, (weights,).

    A thousandth of the total norm is added to the norm, because some gradients, such as the
    gradients of key biases, are only rounding errors.
    """
    if not gradients:
        return torch.zeros(0)
    total_norm = torch.nn.utils.get_total_norm(expected.values())
    errors = torch.stack([
        (gradient - expected[name]).norm() / (expected[name].norm() + _NOISE_SHARE * total_norm)
        for name, gradient in gradients.items()])
    return errors.nan_to_num(nan=torch.inf).cpu()


def _check(errors: Tensor, limits: Tensor, describe: Callable[[int], str]) -> None:
    """Raise an error if any difference exceeds its limit."""
    if not len(errors):
        return
    worst = int((errors / limits).argmax())
    if errors[worst] > limits[worst]:
        raise BmtoolsError(
            f"{describe(worst)} differ by {float(errors[worst]):.2g} of their size, expected "
            f"{float(limits[worst]):.2g} at most; {_use_padded()}")
