"""Forward pass of BERT-like encoders that computes last-layer states at a few positions only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from bmtools.models.architectures import max_tokens
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

    implementation: ClassVar[str]

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


@dataclass(frozen=True)
class TransformersEncoder:
    """transformers' own encoder: all states are computed, some are kept."""

    model: PreTrainedModel
    implementation: ClassVar[str] = "transformers"

    @torch.inference_mode()
    def states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        """Compute states; see `Encoder`."""
        states = encode(self.model, input_ids, torch.ones_like(input_ids, dtype=torch.bool))
        return states[sequences.to(input_ids.device), positions.to(input_ids.device)]


@dataclass(frozen=True)
class FastEncoder:
    """Forward pass without attention masks, whose last layer runs at the given positions only."""

    weights: EncoderWeights
    implementation: ClassVar[str] = "fast"

    @torch.inference_mode()
    def states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        """Compute states; see `Encoder`."""
        weights, (count, tokens) = self.weights, input_ids.shape
        size = max(1, _TOKENS_ON_CPU // tokens) if input_ids.device.type == "cpu" else max(1, count)
        starts = range(0, count, size)
        counts = torch.bincount(sequences.div(size, rounding_mode="floor"),
                                minlength=len(starts)).tolist()
        *lower, last = weights.layers
        outputs: list[Tensor] = []
        for start, own, own_positions in zip(starts, sequences.split(counts),
                                             positions.split(counts), strict=True):
            # Without any queries one chunk runs all the same, for the shape of its output.
            if not len(own) and (len(sequences) or outputs):
                continue
            states = weights.embed(input_ids[start:start + size])
            cos_sin: dict[str, CosSin] = {}
            if weights.rotary_embedding is not None:
                numbers = torch.arange(tokens, device=states.device)
                cos_sin = {name: weights.rotary_embedding(states, numbers, name)
                           for name in {layer.rotary for layer in weights.layers}}
            for layer in lower:
                states = run_layer(layer, states, cos_sin.get(layer.rotary))
            outputs.append(weights.final_norm(run_layer_at(
                last, states, cos_sin.get(last.rotary), own - start, own_positions)))
        return torch.cat(outputs)


def run_layer(layer: EncoderLayer, states: Tensor, cos_sin: CosSin | None) -> Tensor:
    """Run a layer over all tokens, (sequences, tokens, hidden size); overwrites the states."""
    count, tokens, _ = states.shape
    mixed = functional.linear(layer.attention_pre_norm(states), *layer.query_key_value).view(
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
    count, tokens, width = states.shape
    counts = torch.bincount(sequences, minlength=count)
    # Attention takes as many queries from each sequence: their numbers among these.
    most = int(counts.max())
    numbers = torch.arange(len(sequences), device=sequences.device) \
        - (counts.cumsum(0) - counts)[sequences]
    slots = (sequences * most + numbers).to(states.device)
    sequences, positions = sequences.to(states.device), positions.to(states.device)

    def pad(values: Tensor) -> Tensor:
        padded = values.new_zeros(count * most, *values.shape[1:])
        padded[slots] = values
        return padded.view(count, most, *values.shape[1:])

    normed, (weight, bias) = layer.attention_pre_norm(states), layer.query_key_value
    key_value = functional.linear(normed, weight[width:], None if bias is None else bias[width:])
    key, value = key_value.view(count, tokens, 2, layer.heads, -1).unbind(2)
    query = functional.linear(
        normed[sequences, positions], weight[:width], None if bias is None else bias[:width],
    ).view(-1, layer.heads, width // layer.heads)
    if cos_sin is not None:
        cosines, sines = cos_sin
        key = _rotate(key, cosines[:, None], sines[:, None])
        query = _rotate(query, cosines[positions, None], sines[positions, None])
    mask = _window_mask(layer.sliding_window, positions, tokens)
    output = functional.scaled_dot_product_attention(
        pad(query).transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
        attn_mask=None if mask is None else pad(mask)[:, None])
    output = output.transpose(1, 2).flatten(2).flatten(0, 1)[slots]
    return _finish_layer(layer, states[sequences, positions], output)


def _finish_layer(layer: EncoderLayer, states: Tensor, attention: Tensor) -> Tensor:
    """Add both parts to the residual stream, in place: float32 stays under autocast."""
    states += functional.linear(attention, *layer.attention_output)
    states = layer.attention_post_norm(states)
    hidden = functional.linear(layer.feed_forward_pre_norm(states), *layer.intermediate)
    if layer.is_gated:
        hidden, gate = hidden.chunk(2, dim=-1)
        hidden = layer.activation(hidden) * gate
    else:
        hidden = layer.activation(hidden)
    states += functional.linear(hidden, *layer.output)
    return layer.feed_forward_post_norm(states)


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
    padding = model.config.pad_token_id
    numbers = torch.arange(_CHECKED_SEQUENCES)
    sequences = numbers.repeat_interleave(numbers + 1)
    for tokens in (min(max_tokens(model), tokens) for tokens in (5, window + 12)):
        # Any tokens but padding, to which RoBERTa gives no position.
        ids = torch.randint(model.config.vocab_size - 1, (_CHECKED_SEQUENCES, tokens),
                            generator=torch.Generator().manual_seed(0))
        ids = (ids + (0 if padding is None else ids >= padding)).to(model.device)
        positions = (7 * torch.arange(len(sequences)) + tokens - 1) % tokens
        try:
            with torch.autocast(model.device.type, enabled=False):
                states, expected = (each.states_at(ids, sequences, positions).float()
                                    for each in (encoder, TransformersEncoder(model)))
        except RuntimeError:
            # A variant whose tensors have other shapes.
            return False
        # Comparisons with NaN are False, so NaN does not agree.
        errors = (states - expected).norm(dim=-1)
        if not (errors <= _TOLERANCE * expected.norm(dim=-1)).all():
            return False
    return True
