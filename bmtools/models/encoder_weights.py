"""Weights of BERT-like encoders in one form, extracted from transformers' modules by family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from bmtools.models.architectures import max_tokens

TensorMap = Callable[[Tensor], Tensor]


class LinearWeights(NamedTuple):
    """A matrix, (out, in), and its bias, (out,), if any."""

    weight: Tensor
    bias: Tensor | None

    def cast(self, precision: torch.dtype) -> LinearWeights:
        """Convert the matrix to another precision; the bias stays as it is."""
        return LinearWeights(self.weight.to(precision), self.bias)


@dataclass(frozen=True)
class EncoderLayer:
    """One layer of any family; layer norms that its family lacks are the identity.

    Args:
        heads: attention heads.
        query_key_value: makes queries, keys and values, in this order.
        attention_output: of attention.
        intermediate, activation, output: the feed-forward part, in this order.
        attention_pre_norm: applied to the input of attention.
        attention_post_norm: applied to the sum of attention's input and output.
        feed_forward_pre_norm, feed_forward_post_norm: the same around the feed-forward part.
        rotary: name of the rotary position embedding of queries and keys; empty for none.
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


class EncoderWeights(NamedTuple):
    """Weights of an encoder without its head.

    Args:
        embed: turns (batch, tokens) ids into states.
        layers: at least one.
        final_norm: applied to the last layer's states.
        rotary_embedding: gives cosines and sines, (tokens, head size) each, for states, positions
            and the name of a rotary position embedding; None without any.
    """

    embed: TensorMap
    layers: list[EncoderLayer]
    final_norm: TensorMap
    rotary_embedding: Callable[[Tensor, Tensor, str], tuple[Tensor, Tensor]] | None = None

    def cast(self, precision: torch.dtype) -> EncoderWeights:
        """Convert the matrices of all layers to another precision."""
        return self._replace(layers=[replace(
            layer, query_key_value=layer.query_key_value.cast(precision),
            attention_output=layer.attention_output.cast(precision),
            intermediate=layer.intermediate.cast(precision), output=layer.output.cast(precision))
            for layer in self.layers])


@dataclass
class InputEmbeddings:
    """Token embeddings, the sum of position and first segment embeddings, and their norm."""

    tokens: Tensor
    positions: Tensor
    norm: TensorMap

    def __call__(self, input_ids: Tensor) -> Tensor:
        states = functional.embedding(input_ids, self.tokens)
        states += self.positions[:input_ids.shape[1]]
        return self.norm(states)


def extract_weights(model: PreTrainedModel) -> EncoderWeights | None:
    """Extract the encoder's weights; None for a family that is not known here.

    Separate query, key and value weights of the model become views of one matrix.
    """
    extract = _FAMILIES.get(model.config.model_type)
    try:
        return None if extract is None else extract(model.base_model, max_tokens(model))
    except AttributeError:
        # Another release of transformers may name its modules differently.
        return None


@torch.no_grad()
def _extract_bert(encoder: Any, tokens: int) -> EncoderWeights:
    embeddings, identity, layers = encoder.embeddings, nn.Identity(), []
    is_pre_norm = encoder.config.model_type == "megatron-bert"
    for layer in encoder.encoder.layer:
        attention = layer.attention
        norms = (attention.ln, identity, layer.ln, identity) if is_pre_norm else \
            (identity, attention.output.LayerNorm, identity, layer.output.LayerNorm)
        linears = [attention.self.query, attention.self.key, attention.self.value]
        weight = torch.cat([linear.weight for linear in linears])
        bias = torch.cat([linear.bias for linear in linears])
        for linear, own_weight, own_bias in zip(linears, weight.chunk(3), bias.chunk(3),
                                                strict=True):
            linear.weight.data, linear.bias.data = own_weight, own_bias
        layers.append(EncoderLayer(
            attention.self.num_attention_heads, LinearWeights(weight, bias),
            _linear(attention.output.dense), _linear(layer.intermediate.dense),
            _in_place(layer.intermediate.intermediate_act_fn), _linear(layer.output.dense),
            *norms))
    # RoBERTa's positions begin past its padding token.
    positions = embeddings.position_embeddings.weight[-tokens:] \
        + embeddings.token_type_embeddings.weight[0]
    return EncoderWeights(
        InputEmbeddings(embeddings.word_embeddings.weight.detach(), positions.detach(),
                        identity if is_pre_norm else embeddings.LayerNorm),
        layers, encoder.encoder.ln if is_pre_norm else identity)


def _extract_modernbert(encoder: Any, tokens: int) -> EncoderWeights:
    def rotary_embedding(states: Tensor, positions: Tensor, name: str) -> tuple[Tensor, Tensor]:
        cosines, sines = encoder.rotary_emb(states, positions[None], name)
        return cosines[0], sines[0]

    config, identity, layers = encoder.config, nn.Identity(), []
    for layer in encoder.layers:
        attention, mlp, kind = layer.attn, layer.mlp, layer.attention_type
        layers.append(EncoderLayer(
            config.num_attention_heads, _linear(attention.Wqkv), _linear(attention.Wo),
            _linear(mlp.Wi), _in_place(mlp.act), _linear(mlp.Wo),
            layer.attn_norm, identity, layer.mlp_norm, identity, kind,
            config.sliding_window if kind == "sliding_attention" else None, is_gated=True))
    return EncoderWeights(encoder.embeddings, layers, encoder.final_norm, rotary_embedding)


_FAMILIES: dict[str, Callable[[Any, int], EncoderWeights]] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "megatron-bert"),
                    _extract_bert), "modernbert": _extract_modernbert}


def _in_place(activation: Any) -> TensorMap:
    """Have GELU overwrite its input: a third less time, and no second copy."""
    if getattr(activation, "act", activation) is functional.gelu or type(activation) is nn.GELU:
        approximate = getattr(activation, "approximate", "none")
        return partial(torch.ops.aten.gelu_, approximate=approximate)
    return activation


def _linear(module: Any) -> LinearWeights:
    return LinearWeights(module.weight.detach(),
                         None if module.bias is None else module.bias.detach())
