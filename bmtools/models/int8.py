"""Encoder with 8-bit matrices, run by CTranslate2 on a CPU."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from bmtools.errors import BmtoolsError, CheckpointError, setting
from bmtools.installation import require_extra
from bmtools.models.encoder_weights import EncoderWeights, NormWeights, identity
from bmtools.models.fast_encoder import InferenceModel, run_layer_at, weights_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FAMILIES = "BERT, RoBERTa, XLM-R, CamemBERT or Megatron-BERT"
# Names in configurations, and in ctranslate2.specs.Activation.
_ACTIVATIONS = {"gelu": "GELU", "gelu_python": "GELU", "gelu_new": "GELUTanh",
                "gelu_fast": "GELUTanh", "gelu_pytorch_tanh": "GELUTanh",
                "quick_gelu": "GELUSigmoid", "relu": "RELU", "silu": "SWISH", "swish": "SWISH"}


class Int8Encoder:
    """An encoder (see `fast_encoder.Encoder`) whose layers but the last run in CTranslate2.

    Weights are rounded row by row and states token by token; the last layer, which runs at a few
    positions only, stays in float32. As with `make_encoder`, do not move, train or save the model
    afterwards.

    Args:
        model: a masked language model in evaluation mode, on the CPU.
        threads: how many may run at a time, each on one core.
        compute_type: CTranslate2's.

    Raises:
        BmtoolsError: ctranslate2 is missing, or the model is not on the CPU.
        CheckpointError: a family or an activation that is not known here.
    """

    implementation: ClassVar[str] = "int8"

    def __init__(self, model: PreTrainedModel | InferenceModel, threads: int = 1,
                 compute_type: str = "int8") -> None:
        require_extra("ctranslate2", f"{setting('precision')} int8")
        import ctranslate2

        if model.device.type != "cpu":
            raise BmtoolsError(
                f"{setting('precision')} int8: found a model on {model.device.type}, expected cpu; "
                f"use {setting('device')} cpu or {setting('precision')} bf16")
        weights = self._weights = supported_weights(
            model, "in int8", f"use {setting('precision')} float32")
        self._lower: Any = None
        if len(weights.layers) > 1:
            lower = weights._replace(
                embed=replace(weights.embed, segments=None), layers=weights.layers[:-1],
                final_norm=identity)
            with tempfile.TemporaryDirectory(prefix="bmtools-") as directory:
                write_encoder(model.config, lower, compute_type, Path(directory))
                self._lower = ctranslate2.Encoder(
                    directory, device="cpu", compute_type=compute_type,
                    inter_threads=threads, intra_threads=1)
        self._to_view = ctranslate2.StorageView.from_array

    @torch.inference_mode()
    def states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        """Compute states; see `fast_encoder.Encoder`."""
        if self._lower is None:
            states = self._weights.embed(input_ids)
        else:
            lengths = np.full(len(input_ids), input_ids.shape[1], dtype=np.int32)
            output = self._lower.forward_batch(self._to_view(input_ids.numpy().astype(np.int32)),
                                               self._to_view(lengths))
            states = torch.from_numpy(np.asarray(output.last_hidden_state))
        return self._weights.final_norm(
            run_layer_at(self._weights.layers[-1], states, None, sequences, positions))


def supported_weights(model: PreTrainedModel | InferenceModel, how: str,
                      way_out: str) -> EncoderWeights:
    """Find the weights of a model's encoder in the form that CTranslate2 can run.

    Args:
        model: in evaluation mode.
        how: it would be run, for a message.
        way_out: what to do instead.

    Raises:
        CheckpointError: a family or an activation that is not known here.
    """
    config = model.config
    name = config.model_type
    if getattr(config, "hidden_act", "gelu") not in _ACTIVATIONS:
        raise CheckpointError(f"{name}: cannot run {how} with activation "
                              f"{config.hidden_act!r}, expected {', '.join(_ACTIVATIONS)}; "
                              f"{way_out}")
    weights = weights_of(model)
    if weights is None or weights.embed.positions is None:
        raise CheckpointError(f"{name}: cannot run {how}, expected {_FAMILIES}; {way_out}")
    return weights


def write_encoder(config: Any, weights: EncoderWeights, compute_type: str,
                  directory: Path) -> None:
    """Write an encoder in CTranslate2's format.

    Its own converter would load the checkpoint again, and reads attributes of configurations that
    transformers 5 removed. Tokens come as ids, so its vocabulary consists of numbers.

    Args:
        config: of the model.
        weights: of the encoder, or of some of its layers.
        compute_type: CTranslate2's.
        directory: to be filled.
    """
    from ctranslate2.specs import TransformerEncoderModelSpec, common_spec, transformer_spec

    embed, segments = weights.embed, weights.embed.segments
    is_pre_norm = config.model_type == "megatron-bert"
    encoder = transformer_spec.TransformerEncoderSpec(
        len(weights.layers), config.num_attention_heads, pre_norm=is_pre_norm,
        no_final_norm=not isinstance(weights.final_norm, NormWeights),
        activation=common_spec.Activation[_ACTIVATIONS[config.hidden_act]],
        num_source_embeddings=1 if segments is None else 2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD, layernorm_embedding=not is_pre_norm)
    encoder.scale_embeddings = False
    tables = [table for table in (embed.tokens, segments) if table is not None]
    for embeddings, table in zip(encoder.embeddings, tables, strict=True):
        embeddings.weight = table.detach().clone()
    encoder.position_encodings.encodings = embed.positions
    if not is_pre_norm:
        _fill_norm(encoder.layernorm_embedding, embed.norm)
    if isinstance(weights.final_norm, NormWeights):
        _fill_norm(encoder.layer_norm, weights.final_norm)
    for spec, layer in zip(encoder.layer, weights.layers, strict=True):
        norms = (layer.attention_pre_norm, layer.feed_forward_pre_norm) if is_pre_norm \
            else (layer.attention_post_norm, layer.feed_forward_post_norm)
        _fill_norm(spec.self_attention.layer_norm, norms[0])
        _fill_norm(spec.ffn.layer_norm, norms[1])
        for target, source in (
                (spec.self_attention.linear[0], layer.query_key_value),
                (spec.self_attention.linear[1], layer.attention_output),
                (spec.ffn.linear_0, layer.intermediate),
                (spec.ffn.linear_1, layer.output)):
            # A copy, because CTranslate2 scales weights in place.
            target.weight, target.bias = source.weight.clone(), source.bias
    whole = TransformerEncoderModelSpec(encoder)
    whole.config.layer_norm_epsilon = config.layer_norm_eps
    whole.config.unk_token = "0"
    whole.register_vocabulary([str(number) for number in range(len(embed.tokens))])
    whole.validate()
    whole.optimize(quantization=compute_type)
    whole.save(str(directory))


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = norm.weight.detach(), norm.bias.detach()
