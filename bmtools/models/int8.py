"""States of an encoder from matrices in eight bits, through CTranslate2; for CPUs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bmtools.errors import BmtoolsError, CheckpointError
from bmtools.models.fast_encoder import Embedding, EncoderParts, Layer, extract_parts, run_layer_at

_KNOWN = "BERT, RoBERTa, XLM-R, CamemBERT or Megatron-BERT"
_WAY_OUT = "use --precision no"
# Names in configurations, and in ctranslate2.specs.Activation.
_ACTIVATIONS = {"gelu": "GELU", "gelu_python": "GELU", "gelu_new": "GELUTanh",
                "gelu_fast": "GELUTanh", "gelu_pytorch_tanh": "GELUTanh",
                "quick_gelu": "GELUSigmoid", "relu": "RELU", "silu": "SWISH", "swish": "SWISH"}


def make_int8_reader(model: Any, threads: int = 1) -> Int8Reader:
    """Make a reader (see `fast_encoder.EncoderReader`) that multiplies matrices in eight bits.

    Weights are rounded row by row and states token by token; the last layer, which is met at a
    few places only, stays in float32. As with `make_reader`, the model is read only from then on.

    Args:
        model: a masked language model in evaluation mode, on the CPU.
        threads: how many may read at a time, each on one core.

    Raises:
        BmtoolsError: ctranslate2 is missing, or the model is not on the CPU.
        CheckpointError: a family or an activation that is not known here.
    """
    return Int8Reader(model, threads)


class Int8Reader:
    """All layers but the last in CTranslate2."""

    kind = "int8"

    def __init__(self, model: Any, threads: int = 1, compute_type: str = "int8") -> None:
        ctranslate2 = _import_ctranslate2()
        plan = _require_known(model)
        self._plan = plan
        self._lower: Any = None
        if len(plan.layers) > 1:
            with tempfile.TemporaryDirectory(prefix="bmtools-") as directory:
                _convert(model, plan, compute_type, Path(directory))
                self._lower = ctranslate2.Encoder(
                    directory, device="cpu", compute_type=compute_type,
                    inter_threads=threads, intra_threads=1)
        self._to_view = ctranslate2.StorageView.from_array

    @torch.inference_mode()
    def read(self, ids: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Compute states; see `bmtools.models.fast_encoder.Reader`."""
        states = self._run_lower(ids)
        return self._plan.finish(run_layer_at(self._plan.layers[-1], states, None, rows, places))

    def _run_lower(self, ids: Tensor) -> Tensor:
        if self._lower is None:
            return self._plan.embed(ids)
        lengths = np.full(len(ids), ids.shape[1], dtype=np.int32)
        answer = self._lower.forward_batch(self._to_view(ids.numpy().astype(np.int32)),
                                           self._to_view(lengths))
        return torch.from_numpy(np.asarray(answer.last_hidden_state))


def _import_ctranslate2() -> Any:
    try:
        import ctranslate2
    except ImportError as error:
        raise BmtoolsError("--precision int8 needs the package ctranslate2: "
                           "pip install 'bmtools[ctranslate2]'") from error
    return ctranslate2


def _require_known(model: Any) -> EncoderParts:
    name, config = type(model).__name__, model.config
    if model.device.type != "cpu":
        raise BmtoolsError(f"--precision int8: found a model on {model.device.type}, expected cpu; "
                           "use --device cpu or --precision bf16")
    plan = extract_parts(model)
    if plan is None or not isinstance(plan.embed, Embedding):
        raise CheckpointError(f"{name}: cannot be read in int8, expected {_KNOWN}; {_WAY_OUT}")
    if config.hidden_act not in _ACTIVATIONS:
        raise CheckpointError(f"{name}: cannot be read in int8 with activation "
                              f"{config.hidden_act!r}, expected {', '.join(_ACTIVATIONS)}; "
                              f"{_WAY_OUT}")
    return plan


def _convert(model: Any, plan: EncoderParts, compute_type: str, directory: Path) -> None:
    """Write all layers but the last as CTranslate2 reads them.

    Its own converter loads the checkpoint anew and asks configurations for what transformers 5
    took out of them; tokens are met by their ids alone, so its vocabulary holds numbers.
    """
    from ctranslate2.specs import TransformerEncoderModelSpec, common_spec, transformer_spec

    config, embed, lower = model.config, plan.embed, plan.layers[:-1]
    assert isinstance(embed, Embedding)
    is_pre_norm = config.model_type == "megatron-bert"
    encoder = transformer_spec.TransformerEncoderSpec(
        len(lower), config.num_attention_heads, pre_norm=is_pre_norm, no_final_norm=is_pre_norm,
        activation=common_spec.Activation[_ACTIVATIONS[config.hidden_act]],
        layernorm_embedding=not is_pre_norm)
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = embed.words.detach().clone()
    encoder.position_encodings.encodings = embed.places
    if not is_pre_norm:
        _fill_norm(encoder.layernorm_embedding, embed.norm)
    for spec, layer in zip(encoder.layer, lower, strict=True):
        _fill_layer(spec, layer, is_pre_norm)
    whole = TransformerEncoderModelSpec(encoder)
    whole.config.layer_norm_epsilon = config.layer_norm_eps
    whole.config.unk_token = "0"
    whole.register_vocabulary([str(number) for number in range(len(embed.words))])
    whole.validate()
    whole.optimize(quantization=compute_type)
    whole.save(str(directory))


def _fill_layer(spec: Any, layer: Layer, is_pre_norm: bool) -> None:
    norms = (layer.before_attention, layer.before_feed) if is_pre_norm \
        else (layer.after_attention, layer.after_feed)
    _fill_norm(spec.self_attention.layer_norm, norms[0])
    _fill_norm(spec.ffn.layer_norm, norms[1])
    products = [(spec.self_attention.linear[0], layer.mixed),
                (spec.self_attention.linear[1], layer.out),
                (spec.ffn.linear_0, layer.feed.inner), (spec.ffn.linear_1, layer.feed.outer)]
    for linear, product in products:
        linear.weight, linear.bias = product.weight.clone(), product.bias


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = norm.weight.detach(), norm.bias.detach()
