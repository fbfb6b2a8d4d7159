"""States of an encoder at a few places of each row, sooner than transformers computes all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from bmtools.models.checkpoint import max_tokens
from bmtools.models.mlm import encode

# Tokens at a time on a CPU: what lies between two products then stays in its caches.
_TOKENS_ON_CPU = 1024
# What rounding may do to one token's states, as a share of their size.
_TOLERANCE = 1e-4
_CHECKED_ROWS = 3
Module = Callable[[Tensor], Tensor]


class EncoderReader(Protocol):
    """An encoder that is asked at some places only.

    Attributes:
        kind: what reads: "swift" (the code here), "transformers" or "int8".
    """

    kind: str

    def read(self, ids: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Compute last-layer states; several threads may call this at once.

        Args:
            ids: (rows, tokens) int64, without padding; special tokens included.
            rows: (asked,) int64, ascending; a row may be asked at several places, or at none. On
                the CPU, or this waits for the GPU.
            places: (asked,) int64, which token of its row each is.

        Returns:
            (asked, width).
        """
        ...


def make_reader(model: Any, precision: torch.dtype | None = None) -> EncoderReader:
    """Make the fastest reader of a model that agrees with transformers on made-up rows.

    BERT, RoBERTa, XLM-R, CamemBERT, Megatron-BERT and ModernBERT get one of their own; others, and
    variants that differ, are read by transformers, which `kind` tells. So that weights lie in
    memory once, those of query, key and value become views of one matrix: move, train or save the
    model no more.

    Args:
        model: a masked language model in evaluation mode, on its device.
        precision: what it will be read in under autocast, so that matrices are cast once, and not
            again for each piece of a batch; None for float32.
    """
    plan = extract_parts(model)
    if plan is None or not _agree(model, FastReader(plan)):
        return TransformersReader(model)
    return FastReader(plan if precision is None else plan.cast(precision))


class TransformersReader:
    """transformers' own encoder as a reader: all states are computed, some are kept."""

    kind = "transformers"

    def __init__(self, model: Any) -> None:
        self._model = model

    @torch.inference_mode()
    def read(self, ids: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Compute states; see `EncoderReader`."""
        states = encode(self._model, ids, torch.ones_like(ids, dtype=torch.bool))
        return states[rows.to(ids.device), places.to(ids.device)]


class LinearWeights(NamedTuple):
    """A matrix, (out, in), and what is added to what it gives, (out,) or nothing."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, states: Tensor) -> Tensor:
        return functional.linear(states, self.weight, self.bias)

    def cast(self, precision: torch.dtype) -> LinearWeights:
        """Keep the matrix in another precision; what is added stays as it is."""
        return LinearWeights(self.weight.to(precision), self.bias)

    def rows(self, start: int | None, end: int | None) -> LinearWeights:
        """Give a part of the outputs, without a copy."""
        bias = self.bias if self.bias is None else self.bias[start:end]
        return LinearWeights(self.weight[start:end], bias)


class FeedForward(NamedTuple):
    """The part of a layer that looks at each token by itself; gated ones halve what is inner."""

    inner: LinearWeights
    activation: Module
    outer: LinearWeights
    gated: bool = False

    def __call__(self, states: Tensor) -> Tensor:
        inner = self.inner(states)
        if not self.gated:
            return self.outer(self.activation(inner))
        inner, gate = inner.chunk(2, dim=-1)
        return self.outer(self.activation(inner) * gate)


@dataclass(frozen=True)
class Layer:
    """One layer of any family: norms stand before its parts or behind, and do nothing elsewhere.

    Args:
        heads: of attention.
        mixed: makes queries, keys and values, in this order.
        out: of attention.
        feed: the other part.
        before_attention, after_attention, before_feed, after_feed: norms; the second and fourth
            take the sum of a part and what came in.
        rotation: name of the rotary positions that queries and keys get; none if empty.
        reach: how far a token sees on either side; None for any distance.
    """

    heads: int
    mixed: LinearWeights
    out: LinearWeights
    feed: FeedForward
    before_attention: Module
    after_attention: Module
    before_feed: Module
    after_feed: Module
    rotation: str = ""
    reach: int | None = None


class EncoderParts(NamedTuple):
    """What a reader computes.

    Args:
        embed: turns (rows, tokens) ids into states.
        layers: at least one.
        finish: a last norm.
        rotate: gives cosines and sines, (tokens, head width) each, for states, positions and the
            name of a rotation.
    """

    embed: Module
    layers: list[Layer]
    finish: Module
    rotate: Callable[[Tensor, Tensor, str], tuple[Tensor, Tensor]] | None = None

    def cast(self, precision: torch.dtype) -> EncoderParts:
        """Keep the matrices of all layers in another precision."""
        return self._replace(layers=[
            replace(layer, mixed=layer.mixed.cast(precision), out=layer.out.cast(precision),
                    feed=layer.feed._replace(inner=layer.feed.inner.cast(precision),
                                             outer=layer.feed.outer.cast(precision)))
            for layer in self.layers])


class FastReader:
    """A forward pass without masks, whose last layer answers at the asked places alone."""

    kind = "swift"

    def __init__(self, plan: EncoderParts) -> None:
        self._plan = plan

    @torch.inference_mode()
    def read(self, ids: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Compute states; see `EncoderReader`."""
        if ids.device.type != "cpu":
            return self._read_at_once(ids, rows, places)
        # (rows a piece) x tokens in each piece but the last.
        size = max(1, _TOKENS_ON_CPU // ids.shape[1])
        starts = torch.arange(0, len(ids), size)
        counts = torch.bincount(rows.div(size, rounding_mode="floor"), minlength=len(starts))
        return torch.cat([
            self._read_at_once(ids[start:start + size], own - start, asked)
            for start, own, asked in zip(starts.tolist(), rows.split(counts.tolist()),
                                         places.split(counts.tolist()), strict=True)
            if len(own)] or [self._read_at_once(ids[:1], rows, places)])

    def _read_at_once(self, ids: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        plan = self._plan
        states = plan.embed(ids)
        *lower, last = plan.layers
        turns = self._turns(states)
        for layer in lower:
            states = run_layer(layer, states, turns.get(layer.rotation))
        return plan.finish(run_layer_at(last, states, turns.get(last.rotation), rows, places))

    def _turns(self, states: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        """Make cosines and sines once for all layers."""
        if self._plan.rotate is None:
            return {}
        positions = torch.arange(states.shape[1], device=states.device)
        return {name: self._plan.rotate(states, positions, name)
                for name in {layer.rotation for layer in self._plan.layers}}


def run_layer(layer: Layer, states: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
    """Run a layer over all tokens, (rows, tokens, width), which are overwritten."""
    count, tokens, _ = states.shape
    mixed = layer.mixed(layer.before_attention(states)).view(count, tokens, 3, layer.heads, -1)
    if turn is not None:
        cosines, sines = (part[:, None, None] for part in turn)
        mixed = torch.cat([_turned(mixed[:, :, :2], cosines, sines), mixed[:, :, 2:]], dim=2)
    query, key, value = mixed.permute(2, 0, 3, 1, 4)
    positions = torch.arange(tokens, device=states.device)
    near = _near(layer.reach, positions, tokens)
    found = functional.scaled_dot_product_attention(query, key, value, attn_mask=near)
    return _end_layer(layer, states, found.transpose(1, 2).flatten(2))


def run_layer_at(layer: Layer, states: Tensor, turn: tuple[Tensor, Tensor] | None,
                 rows: Tensor, places: Tensor) -> Tensor:
    """Run a layer for some of the tokens; keys and values come from all.

    Args:
        layer: what is run.
        states: (rows, tokens, width).
        turn: cosines and sines of rotary positions.
        rows, places: (asked,) int64, rows ascending.

    Returns:
        (asked, width).
    """
    count, tokens, _ = states.shape
    slots = _Slots.of(rows, count).to(states.device)
    places = places.to(states.device)
    normed = layer.before_attention(states)
    inner = len(layer.mixed.weight) // 3
    head = layer.heads, inner // layer.heads
    both = layer.mixed.rows(inner, None)(normed).view(count, tokens, 2, *head)
    key, value = both.unbind(2)
    query = layer.mixed.rows(None, inner)(normed[slots.rows, places]).view(-1, *head)
    if turn is not None:
        cosines, sines = turn
        key = _turned(key, cosines[:, None], sines[:, None])
        query = _turned(query, cosines[places, None], sines[places, None])
    near = _near(layer.reach, places, tokens)
    found = functional.scaled_dot_product_attention(
        slots.spread(query).transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
        attn_mask=None if near is None else slots.spread(near)[:, None])
    found = slots.gather(found.transpose(1, 2).flatten(2))
    return _end_layer(layer, states[slots.rows, places], found)


def _end_layer(layer: Layer, states: Tensor, found: Tensor) -> Tensor:
    """Add both parts to the states that came in, in place: float32 stays under autocast."""
    states += layer.out(found)
    states = layer.after_attention(states)
    states += layer.feed(layer.before_feed(states))
    return layer.after_feed(states)


class _Slots(NamedTuple):
    """Where queries of unlike numbers a row lie in a tensor of (rows, most of them).

    Args:
        rows: (asked,) int64.
        slots: (asked,) int64, which of its row's each is.
        shape: rows, and the most that one is asked.
    """

    rows: Tensor
    slots: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, rows: Tensor, count: int) -> _Slots:
        counts = torch.bincount(rows, minlength=count)
        firsts = counts.cumsum(0) - counts
        slots = torch.arange(len(rows), device=rows.device) - firsts[rows]
        return cls(rows, slots, (count, int(counts.max())))

    def to(self, device: torch.device) -> _Slots:
        return _Slots(self.rows.to(device), self.slots.to(device), self.shape)

    @property
    def even(self) -> bool:
        """Whether each row is asked as often as any other."""
        return len(self.rows) == self.shape[0] * self.shape[1]

    def spread(self, values: Tensor) -> Tensor:
        """Lay (asked, ...) out as (rows, most, ...), with zeros where a row is asked less."""
        if self.even:
            return values.view(*self.shape, *values.shape[1:])
        spread = values.new_zeros(*self.shape, *values.shape[1:])
        spread[self.rows, self.slots] = values
        return spread

    def gather(self, values: Tensor) -> Tensor:
        """Undo `spread`."""
        return values.flatten(0, 1) if self.even else values[self.rows, self.slots]


def _near(reach: int | None, places: Tensor, tokens: int) -> Tensor | None:
    """Tell which tokens each place sees, (places, tokens) bool; None where it sees all."""
    if reach is None or tokens <= reach + 1:
        return None
    return (places[:, None] - torch.arange(tokens, device=places.device)).abs() <= reach


def _turned(vectors: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate (..., head width) by positions, in float32 (Su et al. 2021, section 3.2.2)."""
    first, second = vectors.float().chunk(2, dim=-1)
    half = first.shape[-1]
    turned = torch.cat([first * cosines[..., :half] - second * sines[..., :half],
                        second * cosines[..., half:] + first * sines[..., half:]], dim=-1)
    return turned.to(vectors.dtype)


def extract_parts(model: Any) -> EncoderParts | None:
    """Take a model apart; None for a family that is not known here."""
    build = _FAMILIES.get(model.config.model_type)
    try:
        return None if build is None else build(model.base_model)
    except AttributeError:
        # Modules of another release may be called otherwise; transformers knows its own.
        return None


def _plan_bert(encoder: Any) -> EncoderParts:
    def layer(module: Any) -> Layer:
        attention, output = module.attention, module.output
        return Layer(attention.self.num_attention_heads, _mix(attention.self),
                     _product(attention.output.dense), _feed(module), nothing,
                     attention.output.LayerNorm, nothing, output.LayerNorm)

    nothing = torch.nn.Identity()
    return EncoderParts(Embedding(encoder.embeddings, encoder.embeddings.LayerNorm),
                        [layer(module) for module in encoder.encoder.layer], nothing)


def _plan_megatron(encoder: Any) -> EncoderParts:
    def layer(module: Any) -> Layer:
        attention = module.attention
        return Layer(attention.self.num_attention_heads, _mix(attention.self),
                     _product(attention.output.dense), _feed(module), attention.ln, nothing,
                     module.ln, nothing)

    nothing = torch.nn.Identity()
    return EncoderParts(Embedding(encoder.embeddings, nothing),
                        [layer(module) for module in encoder.encoder.layer], encoder.encoder.ln)


def _plan_modernbert(encoder: Any) -> EncoderParts:
    def layer(module: Any) -> Layer:
        attention, feed = module.attn, module.mlp
        is_local = module.attention_type == "sliding_attention"
        return Layer(
            config.num_attention_heads, _product(attention.Wqkv), _product(attention.Wo),
            FeedForward(_product(feed.Wi), _activation(feed.act), _product(feed.Wo), gated=True),
            module.attn_norm, nothing, module.mlp_norm, nothing, module.attention_type,
            config.sliding_window if is_local else None)

    def rotate(states: Tensor, positions: Tensor, name: str) -> tuple[Tensor, Tensor]:
        cosines, sines = encoder.rotary_emb(states, positions[None], name)
        return cosines[0], sines[0]

    config, nothing = encoder.config, torch.nn.Identity()
    return EncoderParts(encoder.embeddings, [layer(module) for module in encoder.layers],
                        encoder.final_norm, rotate)


_FAMILIES: dict[str, Callable[[Any], EncoderParts]] = {
    "bert": _plan_bert, "roberta": _plan_bert, "xlm-roberta": _plan_bert,
    "camembert": _plan_bert, "megatron-bert": _plan_megatron, "modernbert": _plan_modernbert}


class Embedding:
    """Tokens, learned positions and the first segment; what does not depend on ids is added once.

    RoBERTa's positions begin past its padding token, and count every token of a row.
    """

    def __init__(self, embeddings: Any, norm: Module) -> None:
        positions = embeddings.position_embeddings
        first = 0 if positions.padding_idx is None else positions.padding_idx + 1
        with torch.no_grad():
            self.places = positions.weight[first:] + embeddings.token_type_embeddings.weight[0]
        self.words = embeddings.word_embeddings.weight
        self.norm = norm

    def __call__(self, ids: Tensor) -> Tensor:
        states = functional.embedding(ids, self.words)
        states += self.places[:ids.shape[1]]
        return self.norm(states)


def _feed(module: Any) -> FeedForward:
    return FeedForward(_product(module.intermediate.dense),
                       _activation(module.intermediate.intermediate_act_fn),
                       _product(module.output.dense))


def _activation(module: Any) -> Module:
    """Overwrite what is met once: a third less time for GELU, and no second copy."""
    if getattr(module, "act", module) is functional.gelu or type(module) is torch.nn.GELU:
        approximate = getattr(module, "approximate", "none")
        return partial(torch.ops.aten.gelu_, approximate=approximate)
    return module


def _product(module: Any) -> LinearWeights:
    return LinearWeights(module.weight.detach(),
                         None if module.bias is None else module.bias.detach())


@torch.no_grad()
def _mix(attention: Any) -> LinearWeights:
    """Lay the weights of query, key and value into one matrix, which they then are views of."""
    parts = [attention.query, attention.key, attention.value]
    weight = torch.cat([part.weight for part in parts])
    bias = torch.cat([part.bias for part in parts])
    pieces = zip(parts, weight.chunk(3), bias.chunk(3), strict=True)
    for part, own_weight, own_bias in pieces:
        part.weight.data, part.bias.data = own_weight, own_bias
    return LinearWeights(weight, bias)


@torch.inference_mode()
def _agree(model: Any, reader: EncoderReader) -> bool:
    """Compare with transformers on rows of random tokens, longer than any window is wide."""
    config, longest = model.config, max_tokens(model)
    wide = getattr(config, "sliding_window", None) or 0
    try:
        with torch.autocast(model.device.type, enabled=False):
            return all(_agree_on(model, reader, min(longest, tokens))
                       for tokens in (5, wide + 12))
    except RuntimeError:
        # Shapes of a variant that the plan does not foresee.
        return False


def _agree_on(model: Any, reader: EncoderReader, tokens: int) -> bool:
    ids = _made_up_ids(model, tokens)
    rows = torch.arange(_CHECKED_ROWS).repeat_interleave(torch.arange(_CHECKED_ROWS) + 1)
    places = (7 * torch.arange(len(rows)) + tokens - 1) % tokens
    expected = TransformersReader(model).read(ids, rows, places).float()
    off = (reader.read(ids, rows, places).float() - expected).norm(dim=-1)
    # Written so that numbers that are none do not agree.
    return bool((off <= _TOLERANCE * expected.norm(dim=-1)).all())


def _made_up_ids(model: Any, tokens: int) -> Tensor:
    """Draw rows of any tokens but padding, which RoBERTa would not count."""
    size = model.get_input_embeddings().num_embeddings
    drawn = torch.randint(size - 1, (_CHECKED_ROWS, tokens),
                          generator=torch.Generator().manual_seed(0))
    padding = model.config.pad_token_id
    return (drawn + (0 if padding is None else drawn >= padding)).to(model.device)
