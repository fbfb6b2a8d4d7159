"""Forward pass of BERT-like encoders that computes last-layer states at a few positions only."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from bmtools.models.architectures import token_embeddings
from bmtools.models.checkpoint import max_tokens
from bmtools.models.encoder_weights import EncoderLayer, EncoderWeights, extract_weights
from bmtools.models.mlm import encode

# Tokens at a time on a CPU: the activations between two matrix products then stay in its caches.
_TOKENS_ON_CPU = 1024
# Tolerated rounding of one token's states, as a share of their norm.
_TOLERANCE = 1e-4
_CHECKED_SEQUENCES = 3
CosSin = tuple[Tensor, Tensor]


class Encoder(Protocol):
    """An encoder that computes states at some positions only.

    Attributes:
        implementation: "fast" (the code here), "transformers" or "int8".
    """

    implementation: str

    def states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        """Compute last-layer states; several threads may call this at once.

        Args:
            input_ids: (sequences, tokens) int64, without padding; special tokens included.
            sequences: (queries,) int64, ascending; a sequence may occur several times, or never. On
                the CPU, or this waits for the GPU.
            positions: (queries,) int64, a position in each of these sequences.

        Returns:
            (queries, hidden size).
        """
        ...


def make_encoder(model: PreTrainedModel, precision: torch.dtype | None = None) -> Encoder:
    """Make the fastest encoder of a model that agrees with transformers on random sequences.

    BERT, RoBERTa, XLM-R, CamemBERT, Megatron-BERT and ModernBERT have a fast one; other families,
    and variants that differ, are run by transformers. To keep one copy of the weights in memory,
    those of query, key and value become views of one matrix: do not move, train or save the model
    afterwards.

    Args:
        model: a masked language model in evaluation mode, on its device.
        precision: of the autocast that it will run under, so that matrices are cast once instead
            of once a batch; None for float32.
    """
    weights = extract_weights(model)
    if weights is None or not _agrees(FastEncoder(weights), model):
        return TransformersEncoder(model)
    return FastEncoder(weights if precision is None else weights.cast(precision))


class TransformersEncoder:
    """transformers' own encoder: all states are computed, some are kept."""

    implementation = "transformers"

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model

    @torch.inference_mode()
    def states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        """Compute states; see `Encoder`."""
        states = encode(self._model, input_ids, torch.ones_like(input_ids, dtype=torch.bool))
        return states[sequences.to(input_ids.device), positions.to(input_ids.device)]


class FastEncoder:
    """Forward pass without attention masks, whose last layer runs at the given positions only."""

    implementation = "fast"

    def __init__(self, weights: EncoderWeights) -> None:
        self._weights = weights

    @torch.inference_mode()
    def states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        """Compute states; see `Encoder`."""
        if input_ids.device.type != "cpu":
            return self._states_at(input_ids, sequences, positions)
        size = max(1, _TOKENS_ON_CPU // input_ids.shape[1])
        starts = torch.arange(0, len(input_ids), size)
        counts = torch.bincount(sequences.div(size, rounding_mode="floor"),
                                minlength=len(starts)).tolist()
        return torch.cat([
            self._states_at(input_ids[start:start + size], own - start, own_positions)
            for start, own, own_positions in zip(starts.tolist(), sequences.split(counts),
                                                 positions.split(counts), strict=True)
            if len(own)] or [self._states_at(input_ids[:1], sequences, positions)])

    def _states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        weights = self._weights
        states = weights.embed(input_ids)
        *lower, last = weights.layers
        cos_sin = self._rotary_embeddings(states)
        for layer in lower:
            states = run_layer(layer, states, cos_sin.get(layer.rotary))
        return weights.final_norm(
            run_layer_at(last, states, cos_sin.get(last.rotary), sequences, positions))

    def _rotary_embeddings(self, states: Tensor) -> dict[str, CosSin]:
        """Compute cosines and sines once for all layers."""
        rotary_embedding = self._weights.rotary_embedding
        if rotary_embedding is None:
            return {}
        positions = torch.arange(states.shape[1], device=states.device)
        return {name: rotary_embedding(states, positions, name)
                for name in {layer.rotary for layer in self._weights.layers}}


def run_layer(layer: EncoderLayer, states: Tensor, cos_sin: CosSin | None) -> Tensor:
    """Run a layer over all tokens, (sequences, tokens, hidden size); overwrites the states."""
    count, tokens, _ = states.shape
    mixed = layer.query_key_value(layer.attention_pre_norm(states)).view(
        count, tokens, 3, layer.heads, -1)
    if cos_sin is not None:
        cosines, sines = (part[:, None, None] for part in cos_sin)
        mixed = torch.cat([_rotate(mixed[:, :, :2], cosines, sines), mixed[:, :, 2:]], dim=2)
    query, key, value = mixed.permute(2, 0, 3, 1, 4)
    positions = torch.arange(tokens, device=states.device)
    output = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=_window_mask(layer.sliding_window, positions, tokens))
    return _finish_layer(layer, states, output.transpose(1, 2).flatten(2))


def run_layer_at(layer: EncoderLayer, states: Tensor, cos_sin: CosSin | None, sequences: Tensor,
                 positions: Tensor) -> Tensor:
    """Run a layer at some of the tokens; keys and values come from all.

    Args:
        layer: usually the last one.
        states: (sequences, tokens, hidden size).
        cos_sin: cosines and sines of the rotary position embedding, if any.
        sequences, positions: (queries,) int64, sequences ascending.

    Returns:
        (queries, hidden size).
    """
    count, tokens, _ = states.shape
    slots = _Slots.of(sequences, count).to(states.device)
    positions = positions.to(states.device)
    normed = layer.attention_pre_norm(states)
    width = len(layer.query_key_value.weight) // 3
    key, value = layer.query_key_value.outputs(width, None)(normed).view(
        count, tokens, 2, layer.heads, -1).unbind(2)
    query = layer.query_key_value.outputs(None, width)(normed[slots.sequences, positions]).view(
        -1, layer.heads, width // layer.heads)
    if cos_sin is not None:
        cosines, sines = cos_sin
        key = _rotate(key, cosines[:, None], sines[:, None])
        query = _rotate(query, cosines[positions, None], sines[positions, None])
    mask = _window_mask(layer.sliding_window, positions, tokens)
    output = functional.scaled_dot_product_attention(
        slots.scatter(query).transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
        attn_mask=None if mask is None else slots.scatter(mask)[:, None])
    output = slots.gather(output.transpose(1, 2).flatten(2))
    return _finish_layer(layer, states[slots.sequences, positions], output)


def _finish_layer(layer: EncoderLayer, states: Tensor, attention: Tensor) -> Tensor:
    """Add both parts to the residual stream, in place: float32 stays under autocast."""
    states += layer.attention_output(attention)
    states = layer.attention_post_norm(states)
    states += layer.feed_forward(layer.feed_forward_pre_norm(states))
    return layer.feed_forward_post_norm(states)


class _Slots(NamedTuple):
    """Layout of queries, of which each sequence has another number, as a padded tensor.

    Args:
        sequences: (queries,) int64.
        slots: (queries,) int64, number of each among its sequence's.
        shape: sequences, and the largest number of queries of one.
    """

    sequences: Tensor
    slots: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, sequences: Tensor, count: int) -> _Slots:
        counts = torch.bincount(sequences, minlength=count)
        firsts = counts.cumsum(0) - counts
        slots = torch.arange(len(sequences), device=sequences.device) - firsts[sequences]
        return cls(sequences, slots, (count, int(counts.max())))

    def to(self, device: torch.device) -> _Slots:
        return _Slots(self.sequences.to(device), self.slots.to(device), self.shape)

    @property
    def is_even(self) -> bool:
        """True if all sequences have the same number of queries."""
        return len(self.sequences) == self.shape[0] * self.shape[1]

    def scatter(self, values: Tensor) -> Tensor:
        """Turn (queries, ...) into (sequences, most, ...), padded with zeros."""
        if self.is_even:
            return values.view(*self.shape, *values.shape[1:])
        padded = values.new_zeros(*self.shape, *values.shape[1:])
        padded[self.sequences, self.slots] = values
        return padded

    def gather(self, values: Tensor) -> Tensor:
        """Undo `scatter`."""
        return values.flatten(0, 1) if self.is_even else values[self.sequences, self.slots]


def _window_mask(sliding_window: int | None, positions: Tensor, tokens: int) -> Tensor | None:
    """Mask of the tokens that each position sees, (positions, tokens) bool; None if all."""
    if sliding_window is None or tokens <= sliding_window + 1:
        return None
    distances = positions[:, None] - torch.arange(tokens, device=positions.device)
    return distances.abs() <= sliding_window


def _rotate(vectors: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate (..., head size) by positions, in float32 (Su et al. 2021, section 3.2.2)."""
    first, second = vectors.float().chunk(2, dim=-1)
    half = first.shape[-1]
    rotated = torch.cat([first * cosines[..., :half] - second * sines[..., :half],
                         second * cosines[..., half:] + first * sines[..., half:]], dim=-1)
    return rotated.to(vectors.dtype)


@torch.inference_mode()
def _agrees(encoder: Encoder, model: PreTrainedModel) -> bool:
    """Compare with transformers on random sequences, some longer than any sliding window."""
    window = getattr(model.config, "sliding_window", None) or 0
    try:
        with torch.autocast(model.device.type, enabled=False):
            return all(_agrees_at(encoder, model, min(max_tokens(model), tokens))
                       for tokens in (5, window + 12))
    except RuntimeError:
        # A variant whose tensors have other shapes.
        return False


def _agrees_at(encoder: Encoder, model: PreTrainedModel, tokens: int) -> bool:
    input_ids = _random_ids(model, tokens)
    numbers = torch.arange(_CHECKED_SEQUENCES)
    sequences = numbers.repeat_interleave(numbers + 1)
    positions = (7 * torch.arange(len(sequences)) + tokens - 1) % tokens
    states, expected = (each.states_at(input_ids, sequences, positions).float()
                        for each in (encoder, TransformersEncoder(model)))
    # Comparisons with NaN are False, so NaN does not agree.
    return bool(((states - expected).norm(dim=-1) <= _TOLERANCE * expected.norm(dim=-1)).all())


def _random_ids(model: PreTrainedModel, tokens: int) -> Tensor:
    """Draw sequences of any tokens but padding, to which RoBERTa gives no position."""
    size = token_embeddings(model).num_embeddings
    ids = torch.randint(size - 1, (_CHECKED_SEQUENCES, tokens),
                        generator=torch.Generator().manual_seed(0))
    padding = model.config.pad_token_id
    return (ids + (0 if padding is None else ids >= padding)).to(model.device)
