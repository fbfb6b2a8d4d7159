"""Forward pass of BERT-like encoders that computes last-layer states at a few positions only."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from bmtools.models.architectures import max_tokens
from bmtools.models.encoder_weights import (
    CosSin,
    EncoderLayer,
    EncoderWeights,
    TensorMap,
    extract_weights,
)
from bmtools.models.precision import multiply
from bmtools.models.varlen import attend

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Tokens per pass on a CPU; with this number the activations between two matrix products stay in its
# caches.
_TOKENS_ON_CPU = 1024
# Tolerated rounding error of one token's states, as a share of their norm.
_TOLERANCE = 1e-4
_CHECKED_SEQUENCES = 3


class Encoder(Protocol):
    """An encoder that computes states at some positions only.

    Attributes:
        implementation: "fast" (the code here), "transformers" or "exported".
    """

    implementation: ClassVar[str]

    def states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        """Compute last-layer states; several threads may call this at once.

        Args:
            input_ids: (sequences, tokens) int64, without padding; special tokens included.
            sequences: (queries,) int64, ascending; a sequence may occur several times, or never. If
                they are not on the CPU, this waits for the GPU.
            positions: (queries,) int64, a position in each of these sequences.

        Returns:
            (queries, hidden size).
        """
        ...


@dataclass(frozen=True)
class TransformersEncoder:
    """transformers' encoder: computes all states and returns some of them."""

    model: PreTrainedModel
    implementation: ClassVar[str] = "transformers"

    @torch.inference_mode()
    def states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        """Compute states; see `Encoder`."""
        states = self.model.base_model(
            input_ids=input_ids, attention_mask=torch.ones_like(input_ids)).last_hidden_state
        return states[sequences.to(input_ids.device), positions.to(input_ids.device)]


@dataclass(frozen=True)
class FastEncoder:
    """Forward pass without attention masks, whose last layer runs at the given positions only."""

    weights: EncoderWeights
    implementation: ClassVar[str] = "fast"

    @torch.inference_mode()
    def states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        """Compute states; see `Encoder`."""
        count, tokens = input_ids.shape
        size = max(1, _TOKENS_ON_CPU // tokens) if input_ids.device.type == "cpu" else max(1, count)
        starts = range(0, count, size)
        counts = torch.bincount(sequences.div(size, rounding_mode="floor"),
                                minlength=len(starts)).tolist()
        outputs: list[Tensor] = []
        for start, own, own_positions in zip(starts, sequences.split(counts),
                                             positions.split(counts), strict=True):
            # Without queries one chunk runs anyway, for the shape of its output.
            if len(own) or not (len(sequences) or outputs):
                outputs.append(self.states(input_ids[start:start + size],
                                           queries=(own - start, own_positions)))
        return torch.cat(outputs)

    @torch.inference_mode()
    def states(self, input_ids: Tensor, attention_mask: Tensor | None = None,
               token_type_ids: Tensor | None = None,
               queries: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Compute last-layer states.

        Args:
            input_ids: (sequences, tokens) int64.
            attention_mask: (sequences, tokens), 0 on padding, which is at the end; None if there is
                no padding.
            token_type_ids: (sequences, tokens) int64, for pairs.
            queries: sequences and positions, (queries,) each, the sequences ascending.

        Returns:
            (queries, hidden size), or without queries (sequences, tokens, hidden size), padding
            included.
        """
        mask = None if attention_mask is None or attention_mask.all() \
            else attention_mask.bool()[:, None, None]
        states = self.weights.embed(input_ids, token_type_ids)
        cos_sin = self.weights.cos_sin(states)
        *lower, last = self.weights.layers
        for layer in lower:
            states = run_layer(layer, states, cos_sin.get(layer.rotary), mask)
        own = cos_sin.get(last.rotary)
        return self.weights.final_norm(
            run_layer(last, states, own, mask) if queries is None else
            run_layer_at(last, states, own, *queries, mask))


class InferenceModel(nn.Module):
    """A model that only predicts: an encoder's weights and a head, which are not modules.

    Args:
        config: attributes of transformers' configuration.
        weights: weights of the encoder.
        head: turns states, (..., hidden size), into logits.
        pooled: whether the head reads only the first token's state.
        max_tokens: longest input, special tokens included.
    """

    def __init__(self, config: Any, weights: EncoderWeights, head: TensorMap, pooled: bool,
                 max_tokens: int) -> None:
        super().__init__()
        self.config = config
        self.weights = weights
        self.head = head
        self.max_tokens = max_tokens
        self.device = weights.embed.tokens.device
        self._pooled = pooled
        self.eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor,
                token_type_ids: Tensor | None = None) -> SimpleNamespace:
        """Compute `logits`: (batch, tokens, labels), or (batch, labels) if the head is pooled.

        On a CPU the batch runs in chunks, without padding that a chunk does not need.
        """
        encoder, (count, tokens) = FastEncoder(self.weights), input_ids.shape
        size = max(1, _TOKENS_ON_CPU // tokens) if input_ids.device.type == "cpu" else count
        found = []
        for ids, mask, types in zip(
                input_ids.split(size), attention_mask.split(size),
                [None] * count if token_type_ids is None else token_type_ids.split(size),
                strict=token_type_ids is not None):
            longest = int(mask.sum(dim=1).max()) if size < count else tokens
            first = torch.arange(len(ids)), torch.zeros(len(ids), dtype=torch.int64)
            logits = self.head(encoder.states(
                ids[:, :longest], mask[:, :longest], None if types is None else types[:, :longest],
                first if self._pooled else None))
            found.append(logits if self._pooled else
                         functional.pad(logits, (0, 0, 0, tokens - longest)))
        return SimpleNamespace(logits=torch.cat(found))

    def cast(self, precision: torch.dtype) -> None:
        """Convert the matrices of all layers once, for an autocast of this precision."""
        self.weights = self.weights.cast(precision)


def make_encoder(model: PreTrainedModel | InferenceModel,
                 precision: torch.dtype | None = None) -> Encoder:
    """Make the fastest encoder of a model that agrees with transformers on random sequences.

    BERT, RoBERTa, XLM-R, CamemBERT, Megatron-BERT and ModernBERT have a fast encoder. transformers
    runs other families and variants that differ. An `InferenceModel` always has a fast encoder. To
    keep one copy of the weights in memory, the weights of query, key and value become views of one
    matrix: do not move, train or save the model afterwards.

    Args:
        model: a masked language model in evaluation mode, on its device.
        precision: precision of the autocast that it will run under, so that matrices are cast once
            instead of once per batch; None for float32.
    """
    weights = weights_of(model)
    if not isinstance(model, InferenceModel) and (
            weights is None or not _agrees(FastEncoder(weights), model)):
        return TransformersEncoder(model)
    assert weights is not None
    return FastEncoder(weights if precision is None else weights.cast(precision))


def weights_of(model: PreTrainedModel | InferenceModel) -> EncoderWeights | None:
    """Return the weights of a model's encoder; None if this module cannot run it."""
    if isinstance(model, InferenceModel):
        return model.weights
    return extract_weights(dict(model.base_model.named_parameters()), model.config)


def run_layer(layer: EncoderLayer, states: Tensor, cos_sin: CosSin | None,
              mask: Tensor | None = None) -> Tensor:
    """Run a layer over all tokens; overwrites the states.

    Args:
        layer: a layer of any family.
        states: (sequences, tokens, hidden size).
        cos_sin: cosines and sines of the rotary position embedding, if any.
        mask: (sequences, 1, 1, tokens) bool, False on padding; None without any.

    Returns:
        (sequences, tokens, hidden size).
    """
    count, tokens, _ = states.shape
    mixed = multiply(layer.attention_pre_norm(states), *layer.query_key_value).view(
        count, tokens, 3, layer.heads, -1)
    if cos_sin is not None:
        cosines, sines = (part[:, None, None] for part in cos_sin)
        mixed = torch.cat([_rotate(mixed[:, :, :2], cosines, sines), mixed[:, :, 2:]], dim=2)
    query, key, value = mixed.permute(2, 0, 3, 1, 4)
    positions = torch.arange(tokens, device=states.device)
    window = _window_mask(layer.sliding_window, positions, tokens)
    if window is not None:
        mask = window if mask is None else mask & window
    output = attend(query, key, value, mask)
    return _finish_layer(layer, states, output.transpose(1, 2).flatten(2))


def run_layer_at(layer: EncoderLayer, states: Tensor, cos_sin: CosSin | None, sequences: Tensor,
                 positions: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    """Run a layer at some of the tokens, with keys and values from all tokens.

    Args:
        layer: usually the last one.
        states: (sequences, tokens, hidden size).
        cos_sin: cosines and sines of the rotary position embedding, if any.
        sequences, positions: (queries,) int64, sequences ascending.
        padding_mask: (sequences, 1, 1, tokens) bool, False on padding; None without padding.

    Returns:
        (queries, hidden size).
    """
    count, tokens, width = states.shape
    counts = torch.bincount(sequences, minlength=count)
    # Attention needs the same number of queries from each sequence; number them within each.
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
    key_value = multiply(normed, weight[width:], None if bias is None else bias[width:])
    key, value = key_value.view(count, tokens, 2, layer.heads, -1).unbind(2)
    query = multiply(
        normed[sequences, positions], weight[:width], None if bias is None else bias[:width],
    ).view(-1, layer.heads, width // layer.heads)
    if cos_sin is not None:
        cosines, sines = cos_sin
        key = _rotate(key, cosines[:, None], sines[:, None])
        query = _rotate(query, cosines[positions, None], sines[positions, None])
    window = _window_mask(layer.sliding_window, positions, tokens)
    mask = padding_mask
    if window is not None:
        mask = pad(window)[:, None] if mask is None else mask & pad(window)[:, None]
    output = attend(pad(query).transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), mask)
    output = output.transpose(1, 2).flatten(2).flatten(0, 1)[slots]
    return _finish_layer(layer, states[sequences, positions], output)


def _finish_layer(layer: EncoderLayer, states: Tensor, attention: Tensor) -> Tensor:
    """Add both parts to the residual stream, in place: it stays in float32 under autocast."""
    states += multiply(attention, *layer.attention_output)
    states = layer.attention_post_norm(states)
    hidden = multiply(layer.feed_forward_pre_norm(states), *layer.intermediate)
    if layer.is_gated:
        hidden, gate = hidden.chunk(2, dim=-1)
        hidden = layer.activation(hidden) * gate
    else:
        hidden = layer.activation(hidden)
    states += multiply(hidden, *layer.output)
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
        ids = torch.randint(model.config.vocab_size, (_CHECKED_SEQUENCES, tokens),
                            generator=torch.Generator().manual_seed(0))
        if padding is not None:  # may occur in a text, and RoBERTa does not count it
            ids[0, 1] = padding
        ids = ids.to(model.device)
        positions = (7 * torch.arange(len(sequences)) + tokens - 1) % tokens
        try:
            with torch.autocast(model.device.type, enabled=False):
                states, expected = (each.states_at(ids, sequences, positions).float()
                                    for each in (encoder, TransformersEncoder(model)))
        except RuntimeError:
            # The model is a variant whose tensors have other shapes.
            return False
        # Comparisons with NaN are False, so NaN does not agree.
        errors = (states - expected).norm(dim=-1)
        if not (errors <= _TOLERANCE * expected.norm(dim=-1)).all():
            return False
    return True
