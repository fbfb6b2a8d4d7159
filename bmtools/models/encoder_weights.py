"""Weights of BERT-like encoders in one form, extracted by name from transformers' models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from bmtools.models.families import first_position

TensorMap = Callable[[Tensor], Tensor]
CosSin = tuple[Tensor, Tensor]
State = Mapping[str, Tensor]
"""Weights by their names in transformers' models."""
_GELU: TensorMap = partial(torch.ops.aten.gelu_, approximate="none")
_GELU_TANH: TensorMap = partial(torch.ops.aten.gelu_, approximate="tanh")
# GELU overwrites its input, which saves a third of the time and a second copy.
ACTIVATIONS: Mapping[str, TensorMap] = {
    "gelu": _GELU, "gelu_python": _GELU, "gelu_new": _GELU_TANH, "gelu_fast": _GELU_TANH,
    "gelu_pytorch_tanh": _GELU_TANH, "relu": functional.relu, "silu": functional.silu,
    "swish": functional.silu, "tanh": torch.tanh}
"""Activations by their names in configurations."""


class LinearWeights(NamedTuple):
    """A matrix, (out, in), and its bias, (out,), if any."""

    weight: Tensor
    bias: Tensor | None

    def cast(self, precision: torch.dtype) -> LinearWeights:
        """Convert the matrix to another precision; the bias stays as it is."""
        return LinearWeights(self.weight.to(precision), self.bias)


@dataclass(frozen=True)
class EncoderLayer:
    """One layer of any family; layer norms that its family does not have are the identity.

    Args:
        heads: number of attention heads.
        query_key_value: layer that computes queries, keys and values, in this order.
        attention_output: output layer of attention.
        intermediate, activation, output: the feed-forward part, in this order.
        attention_pre_norm: applied to the input of attention.
        attention_post_norm: applied to the sum of attention's input and output.
        feed_forward_pre_norm, feed_forward_post_norm: the same for the feed-forward part.
        rotary: name of the rotary position embedding of queries and keys; may be empty.
        sliding_window: tokens seen on either side; None for all.
        is_gated: whether half of the intermediate states multiply the activated other half.
    """

    heads: int
    query_key_value: LinearWeights
    attention_output: LinearWeights
    intermediate: LinearWeights
    activation: TensorMap
    output: LinearWeights
    attention_pre_norm: TensorMap
    attention_post_norm: TensorMap
    feed_forward_pre_norm: TensorMap
    feed_forward_post_norm: TensorMap
    rotary: str = ""
    sliding_window: int | None = None
    is_gated: bool = False


@dataclass
class InputEmbeddings:
    """Token embeddings, a family's learned positions and segments (if any), and their norm.

    Args:
        tokens: (vocabulary, hidden size).
        norm: applied to the sum.
        positions: (maximum tokens, hidden size), with the first segment's embedding added to each.
        segments: (segments, hidden size), difference of each to the first segment.
        padding: id of the padding token and its position's embedding, (hidden size,), if positions
            count only other tokens, wherever padding occurs; None if they count all tokens.
    """

    tokens: Tensor
    norm: TensorMap
    positions: Tensor | None = None
    segments: Tensor | None = None
    padding: tuple[int, Tensor] | None = None

    def __call__(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        states = functional.embedding(input_ids, self.tokens)
        if self.positions is not None and self.padding is not None:
            counted = input_ids != self.padding[0]
            numbers = (counted.cumsum(1) - 1).clamp_(min=0)
            states += torch.where(counted[..., None], functional.embedding(numbers, self.positions),
                                  self.padding[1])
        elif self.positions is not None:
            states += self.positions[:input_ids.shape[1]]
        if self.segments is not None and token_type_ids is not None:
            states += functional.embedding(token_type_ids, self.segments)
        return self.norm(states)


class EncoderWeights(NamedTuple):
    """Weights of an encoder without its head.

    Args:
        embed: turns (batch, tokens) ids, and segments if any, into states.
        layers: one or more.
        final_norm: applied to the last layer's states.
        rotary_embedding: returns cosines and sines, (tokens, head size) each, for states, positions
            and the name of a rotary position embedding; None for families without one.
    """

    embed: InputEmbeddings
    layers: list[EncoderLayer]
    final_norm: TensorMap
    rotary_embedding: Callable[[Tensor, Tensor, str], CosSin] | None = None

    def cos_sin(self, states: Tensor) -> dict[str, CosSin]:
        """Compute cosines and sines for (batch, tokens, hidden size) states, by their names."""
        if self.rotary_embedding is None:
            return {}
        positions = torch.arange(states.shape[1], device=states.device)
        return {name: self.rotary_embedding(states, positions, name)
                for name in {layer.rotary for layer in self.layers}}

    def cast(self, precision: torch.dtype) -> EncoderWeights:
        """Convert the matrices of all layers to another precision."""
        return self._replace(layers=[replace(
            layer, query_key_value=layer.query_key_value.cast(precision),
            attention_output=layer.attention_output.cast(precision),
            intermediate=layer.intermediate.cast(precision), output=layer.output.cast(precision))
            for layer in self.layers])


@torch.no_grad()
def extract_weights(state: State, config: Any) -> EncoderWeights | None:
    """Put the weights of an encoder into one form; None if this module cannot run it.

    Separate query, key and value weights become views of one matrix, also in `state`.

    Args:
        state: weights of the encoder without its head.
        config: transformers' configuration of the model, or one with the same attributes.
    """
    extract = _FAMILIES.get(config.model_type)
    if extract is None or getattr(config, "is_decoder", False) or \
            getattr(config, "position_embedding_type", "absolute") != "absolute":
        return None
    try:
        return extract(state, config)
    except KeyError:  # a variant, or a release of transformers with other names
        return None


def linear(state: State, name: str) -> LinearWeights:
    """Look up a linear layer by its name."""
    bias = state.get(f"{name}.bias")
    return LinearWeights(state[f"{name}.weight"].detach(), None if bias is None else bias.detach())


def norm(state: State, name: str, eps: float) -> TensorMap:
    """Look up a layer norm by its name."""
    weight, bias = linear(state, name)
    return partial(functional.layer_norm, normalized_shape=weight.shape, weight=weight, bias=bias,
                   eps=float(eps))


def identity(states: Tensor) -> Tensor:
    """Return states unchanged, in place of a norm that a family does not have."""
    return states


def _extract_bert(state: State, config: Any) -> EncoderWeights:
    is_pre_norm, eps = config.model_type == "megatron-bert", config.layer_norm_eps
    layers = []
    for number in range(config.num_hidden_layers):
        name = f"encoder.layer.{number}"
        norms: tuple[TensorMap, TensorMap, TensorMap, TensorMap] = (
            norm(state, f"{name}.attention.ln", eps), identity,
            norm(state, f"{name}.ln", eps), identity) if is_pre_norm else (
            identity, norm(state, f"{name}.attention.output.LayerNorm", eps),
            identity, norm(state, f"{name}.output.LayerNorm", eps))
        layers.append(EncoderLayer(
            config.num_attention_heads, _join_query_key_value(state, f"{name}.attention.self"),
            linear(state, f"{name}.attention.output.dense"),
            linear(state, f"{name}.intermediate.dense"), ACTIVATIONS[config.hidden_act],
            linear(state, f"{name}.output.dense"), *norms))
    segments = state["embeddings.token_type_embeddings.weight"]
    positions = state["embeddings.position_embeddings.weight"] + segments[0]
    first = first_position(config)
    return EncoderWeights(
        InputEmbeddings(
            state["embeddings.word_embeddings.weight"].detach(),
            identity if is_pre_norm else norm(state, "embeddings.LayerNorm", eps),
            positions[first:], segments - segments[0],
            (first - 1, positions[first - 1]) if first else None),
        layers, norm(state, "encoder.ln", eps) if is_pre_norm else identity)


def _extract_modernbert(state: State, config: Any) -> EncoderWeights:
    size = config.hidden_size // config.num_attention_heads
    frequencies = {}
    for kind, rope in config.rope_parameters.items():
        if rope["rope_type"] != "default":
            raise KeyError(rope["rope_type"])
        frequencies[kind] = 1.0 / rope["rope_theta"] ** (
            torch.arange(0, size, 2, dtype=torch.float) / size)

    def rotary_embedding(states: Tensor, positions: Tensor, name: str) -> CosSin:
        angles = positions[:, None].float() * frequencies[name].to(states.device)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos().to(states.dtype), angles.sin().to(states.dtype)

    eps, layers = config.norm_eps, []
    for number, kind in enumerate(config.layer_types):
        name = f"layers.{number}"
        layers.append(EncoderLayer(
            config.num_attention_heads, linear(state, f"{name}.attn.Wqkv"),
            linear(state, f"{name}.attn.Wo"),
            linear(state, f"{name}.mlp.Wi"), ACTIVATIONS[config.hidden_activation],
            linear(state, f"{name}.mlp.Wo"),
            # The embeddings are normalized already.
            norm(state, f"{name}.attn_norm", eps) if number else identity, identity,
            norm(state, f"{name}.mlp_norm", eps), identity, kind,
            config.local_attention // 2 if kind == "sliding_attention" else None, is_gated=True))
    embeddings = InputEmbeddings(state["embeddings.tok_embeddings.weight"].detach(),
                                 norm(state, "embeddings.norm", eps))
    return EncoderWeights(embeddings, layers, norm(state, "final_norm", eps), rotary_embedding)


_FAMILIES: dict[str, Callable[[State, Any], EncoderWeights]] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "megatron-bert"),
                    _extract_bert), "modernbert": _extract_modernbert}


def _join_query_key_value(state: State, name: str) -> LinearWeights:
    """Copy the weights of query, key and value into one matrix; make the originals its views."""
    joined = []
    for kind in ("weight", "bias"):
        parts = [state[f"{name}.{part}.{kind}"] for part in ("query", "key", "value")]
        whole = torch.cat(parts)
        for part, view in zip(parts, whole.chunk(3), strict=True):
            part.data = view
        joined.append(whole)
    return LinearWeights(*joined)
