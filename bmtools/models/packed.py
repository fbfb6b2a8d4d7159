"""Padding-free encoding: documents end to end in one row, attention and positions kept apart.

In transformers 5 positions that restart do not keep documents apart: encoders under `sdpa` and
`eager` attention attend across the whole row and say nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.megatron_bert.modeling_megatron_bert import MegatronBertSelfAttention

from bmtools.errors import BmtoolsError, CheckpointError
from bmtools.models.mlm import encode, has_segment_embeddings
from bmtools.models.varlen import DocumentLengths, in_best_precision, varlen_attention

ATTENTION = "bmtools_documents"
ARCHITECTURES = {"bert": "BERT", "roberta": "RoBERTa", "xlm-roberta": "XLM-R",
                 "camembert": "CamemBERT", "megatron-bert": "Megatron-BERT",
                 "modernbert": "ModernBERT"}
_WAY_OUT = "use --layout padded"
# What rounding may do to one token's states, as a share of their size.
_TOLERANCES = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
# Tokens that nothing reaches keep their bits in every precision; this leaves room for a card
# that adds in no fixed order.
_LEAK_LIMIT = 1e-5
_SMALL_SHARE = 1e-3


def prepare_packed(model: Any) -> None:
    """Teach a model to keep packed documents apart; batches of rows work as they did.

    Weights and what is saved stay the same. Doing it twice is harmless.

    Raises:
        CheckpointError: an architecture that is not known here.
    """
    kind = model.config.model_type
    if kind not in ARCHITECTURES:
        raise CheckpointError(f"{type(model).__name__}: cannot take packed documents, expected "
                              f"{', '.join(ARCHITECTURES.values())}; {_WAY_OUT}")
    if kind == "megatron-bert":
        for layer in model.base_model.encoder.layer:
            layer.attention.self.__class__ = _MegatronAttention
        return
    AttentionInterface.register(ATTENTION, _attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model.set_attn_implementation(ATTENTION)


def encode_packed(model: Any, ids: Tensor, lengths: Tensor, token_types: Tensor | None = None,
                  causal: bool = False) -> Tensor:
    """Run the encoder, without its head, over documents that lie end to end.

    Positions begin anew with each document, and no document sees another.

    Args:
        model: made ready by `prepare_packed`.
        ids: (tokens,) int64, special tokens of each document included.
        lengths: (documents,) int64, tokens of each; on the CPU, or this waits for the GPU.
        token_types: (tokens,) int64 segments; all 0 if left out.
        causal: let each token see only itself and what stands before it in its document.

    Returns:
        last-layer states, (tokens, width).

    Raises:
        CheckpointError: the model was not made ready, or there are token types and it tells no
            segments apart.
        ValueError: lengths that do not add up to the tokens.
    """
    _require_fit(model, token_types)
    documents = DocumentLengths.of(lengths, ids.device, causal)
    if documents.tokens != len(ids):
        raise ValueError(f"lengths of packed documents: found {documents.tokens} tokens in all, "
                         f"expected {len(ids)}")
    row = {"input_ids": ids[None], "position_ids": _positions(model, documents)[None]}
    if token_types is not None:
        row["token_type_ids"] = token_types[None]
    if model.config.model_type == "megatron-bert":
        return _run_megatron(model.base_model, row, documents)[0]
    row["attention_mask"] = _no_mask(model, ids.device)
    return model.base_model(**row, documents=documents).last_hidden_state[0]


def _require_fit(model: Any, token_types: Tensor | None) -> None:
    if not _is_prepared(model):
        raise CheckpointError(f"{type(model).__name__}: packed documents would see each other; "
                              f"call prepare_packed first or {_WAY_OUT}")
    if token_types is not None and not has_segment_embeddings(model):
        raise CheckpointError(f"{type(model).__name__}: tells no segments apart, expected a BERT "
                              "or Megatron-BERT with two token types")


def _is_prepared(model: Any) -> bool:
    if model.config.model_type == "megatron-bert":
        return all(isinstance(layer.attention.self, _MegatronAttention)
                   for layer in model.base_model.encoder.layer)
    return model.config._attn_implementation == ATTENTION


def _positions(model: Any, documents: DocumentLengths) -> Tensor:
    """Number tokens as the model's positions do; those of RoBERTa begin past its padding."""
    learned = getattr(model.base_model.embeddings, "position_embeddings", None)
    first = 0 if learned is None or learned.padding_idx is None else learned.padding_idx + 1
    return documents.positions() + first


def _no_mask(model: Any, device: torch.device) -> Any:
    """Make what a model hands on untouched, so that it makes no mask of tokens by tokens."""
    if model.config.model_type == "modernbert":
        return {"full_attention": None, "sliding_attention": None}
    return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)


def _attention(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any,
               dropout: float = 0.0, scaling: float | None = None,
               sliding_window: int | None = None, documents: DocumentLengths | None = None,
               **rest: Any) -> tuple[Tensor, None]:
    """Attend within documents if there are some, else as transformers does.

    Args:
        module: the attention layer.
        query, key, value: (rows, heads, tokens, head width); packed documents are one row.
        attention_mask: what `sdpa_mask` made; not read where there are documents.
        dropout: share of attention weights dropped.
        scaling: multiplies the scores.
        sliding_window: tokens seen on either side, the token itself counted.
        documents: handed through the model by `encode_packed`.

    Returns:
        (rows, tokens, heads, head width), and no weights.
    """
    if documents is None:
        return in_best_precision(partial(sdpa_attention_forward, module), query, key, value,
                                 attention_mask=attention_mask, dropout=dropout,
                                 scaling=scaling, sliding_window=sliding_window, **rest)
    reach = None if sliding_window is None else sliding_window - 1
    scale = query.shape[-1]**-0.5 if scaling is None else scaling
    query, key, value = (part[0].transpose(0, 1) for part in (query, key, value))
    return varlen_attention(query, key, value, documents, scale, reach, dropout)[None], None


class _MegatronAttention(MegatronBertSelfAttention):
    """Megatron-BERT's attention, which asks no interface; documents come where a mask would."""

    def forward(self, hidden_states: Tensor, attention_mask: Any = None,
                *others: Any, **more: Any) -> Any:
        if not isinstance(attention_mask, DocumentLengths):
            return super().forward(hidden_states, attention_mask, *others, **more)
        shape = (-1, self.num_attention_heads, self.attention_head_size)
        query, key, value = (part(hidden_states[0]).view(shape)
                             for part in (self.query, self.key, self.value))
        found = varlen_attention(query, key, value, attention_mask, self.attention_head_size**-0.5,
                                 dropout=self.dropout.p if self.training else 0.0)
        return found.flatten(1)[None], None


def _run_megatron(encoder: Any, row: dict[str, Tensor], documents: DocumentLengths) -> Tensor:
    """Run Megatron-BERT by its parts: its whole drops what it does not know on the way."""
    embedded = encoder.embeddings(**row)
    return encoder.encoder(embedded, attention_mask=documents).last_hidden_state


def self_check(model: Any, ids: Tensor, lengths: Tensor, token_types: Tensor | None = None,
               causal: bool = False, tolerance: float | None = None) -> None:
    """Refuse a model for which packed documents are not what each of them is alone.

    Without dropout: changing some tokens leaves the states of those that must not see them;
    states equal those of each document alone in plain transformers, and so do gradients. Runs in
    the precision of the surrounding autocast, if any, and takes the memory of two training steps
    on `ids` and of two gradients. What the model holds stays as it is, and nothing is drawn.

    Args:
        model: made ready by `prepare_packed`.
        ids, lengths, token_types, causal: as for `encode_packed`; at least two documents, of
            unlike lengths, show most.
        tolerance: largest difference, as a share of the size of a token's states or of a weight's
            gradient; None for what rounding explains in the precision used.

    Raises:
        BmtoolsError: what differs, by how much, and the way out.
    """
    limit = _tolerance(model, ids.device) if tolerance is None else tolerance
    documents = DocumentLengths.of(lengths, ids.device, causal)
    with _at_rest(model):
        packed = encode_packed(model, ids, lengths, token_types, causal)
        changed, untouched = _change_some(model, ids, documents)
        with torch.no_grad():
            after = encode_packed(model, changed, lengths, token_types, causal)
        _compare(model, after[untouched], packed[untouched], documents.numbers()[untouched],
                 "changes when tokens it must not see change", _LEAK_LIMIT)
        alone = _encode_alone(model, ids, documents, token_types)
        _compare(model, packed, alone, documents.numbers(), "is not what it is alone", limit)
        _compare_gradients(model, packed, alone, limit)


def _tolerance(model: Any, device: torch.device) -> float:
    precision = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) \
        else model.dtype
    return _TOLERANCES.get(precision, _TOLERANCES[torch.float32])


@contextlib.contextmanager
def _at_rest(model: Any) -> Iterator[None]:
    """Switch dropout off for a while."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


@contextlib.contextmanager
def _plain(model: Any) -> Iterator[None]:
    """Give a model transformers' own attention for a while."""
    before = model.config._attn_implementation
    if before == ATTENTION:
        model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _change_some(model: Any, ids: Tensor, documents: DocumentLengths) -> tuple[Tensor, Tensor]:
    """Change every other document, or each one's last token where reading is causal.

    Returns:
        the changed ids, and which tokens must not notice, (tokens,) bool.
    """
    if documents.causal:
        touched = torch.zeros_like(ids, dtype=torch.bool)
        touched[documents.borders[1:].long() - 1] = True
    else:
        touched = documents.numbers() % 2 == 0
    other = (ids + 1) % model.get_input_embeddings().num_embeddings
    return torch.where(touched, other, ids), ~touched


def _encode_alone(model: Any, ids: Tensor, documents: DocumentLengths,
                  token_types: Tensor | None) -> Tensor:
    """Run each document by itself through the plain model, (tokens, width)."""
    kinds = [None] * len(documents.lengths) if token_types is None \
        else token_types.split(documents.lengths)
    states = []
    with _plain(model):
        for part, kind in zip(ids.split(documents.lengths), kinds, strict=True):
            row, types = part[None], None if kind is None else kind[None]
            attended = torch.ones_like(row, dtype=torch.bool)
            states.append(encode(model, row, attended, documents.causal, token_types=types)[0])
    return torch.cat(states)


def _compare(model: Any, found: Tensor, expected: Tensor, numbers: Tensor, what: str,
             limit: float) -> None:
    """Refuse states whose worst token is off by more than a share of its size."""
    if not len(found):
        return
    found, expected = found.detach().float(), expected.detach().float()
    off = (found - expected).norm(dim=-1) / expected.norm(dim=-1).clamp_min(1e-12)
    off = off.nan_to_num(nan=torch.inf)
    worst = int(off.argmax())
    if off[worst] > limit:
        raise BmtoolsError(
            f"{type(model).__name__}: packed document {int(numbers[worst]) + 1} {what}: its states "
            f"differ by {float(off[worst]):.2g} of their size, expected {limit:.2g} at most; "
            f"{_WAY_OUT}")


def _compare_gradients(model: Any, packed: Tensor, alone: Tensor, limit: float) -> None:
    """Refuse gradients, of states along a fixed direction, of which one weight's is off.

    Differences count as a share of that weight's gradient; a thousandth of the whole is added
    to it, because some gradients, such as those of key biases, are nothing but rounding.
    """
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    if not weights:
        return
    direction = torch.randn(packed.shape, generator=torch.Generator().manual_seed(0))
    found, expected = (torch.autograd.grad(
        (states.float() * direction.to(states.device)).sum(), list(weights.values()),
        allow_unused=True, materialize_grads=True) for states in (packed, alone))
    whole = torch.nn.utils.get_total_norm(expected)
    off = torch.stack([(one - other).norm() / (other.norm() + _SMALL_SHARE * whole)
                       for one, other in zip(found, expected, strict=True)])
    off = off.nan_to_num(nan=torch.inf)
    worst = int(off.argmax())
    if off[worst] > limit:
        raise BmtoolsError(
            f"{type(model).__name__}: packed documents give {list(weights)[worst]} a gradient that "
            f"differs by {float(off[worst]):.2g} of its size from that of each document alone, "
            f"expected {limit:.2g} at most; {_WAY_OUT}")
