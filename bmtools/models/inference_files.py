"""Models for inference, read from `config.json` and safetensors without transformers.

Importing transformers takes longer than scoring a short text, so BERT, RoBERTa, XLM-R, CamemBERT,
Megatron-BERT and ModernBERT are read without it. transformers reads other families and older file
formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from bmtools.errors import CheckpointError
from bmtools.models.encoder_weights import (
    ACTIVATIONS,
    TensorMap,
    extract_weights,
    linear,
    norm,
)
from bmtools.models.fast_encoder import InferenceModel
from bmtools.models.model_files import WEIGHTS, read_config
from bmtools.models.precision import multiply
from bmtools.records import JsonMapping

# Defaults that transformers uses for keys missing from config.json.
_BERT_DEFAULTS = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "tie_word_embeddings": True,
                  "pad_token_id": 0, "type_vocab_size": 2}
_ROBERTA_DEFAULTS = {**_BERT_DEFAULTS, "pad_token_id": 1}
_MODERNBERT_DEFAULTS = {
    "hidden_activation": "gelu", "classifier_activation": "gelu", "classifier_pooling": "cls",
    "norm_eps": 1e-5, "local_attention": 128, "tie_word_embeddings": True, "type_vocab_size": 0}
_DEFAULTS: Mapping[str, JsonMapping] = {
    "bert": _BERT_DEFAULTS, "megatron-bert": _BERT_DEFAULTS, "roberta": _ROBERTA_DEFAULTS,
    "xlm-roberta": _ROBERTA_DEFAULTS, "camembert": _ROBERTA_DEFAULTS,
    "modernbert": _MODERNBERT_DEFAULTS}
_PREFIXES = {"bert": "bert.", "megatron-bert": "bert.", "modernbert": "model."}
_THETAS = {"full_attention": ("global_rope_theta", 160_000.0),
           "sliding_attention": ("local_rope_theta", 10_000.0)}
_GLOBAL_EVERY = 3
_MASKED_LM, _POOLED = "AutoModelForMaskedLM", "AutoModelForSequenceClassification"


def read_inference_model(directory: Path, device: str, model_class: str) -> InferenceModel | None:
    """Read a model from its files; None if only transformers can read it.

    Args:
        directory: a checkpoint.
        device: device that the model will run on.
        model_class: transformers' auto class: AutoModelForMaskedLM, -ForTokenClassification,
            -ForSequenceClassification or -ForQuestionAnswering.

    Raises:
        CheckpointError: weights are not finite.
    """
    try:
        config = read_model_config(directory)
        if config is None or not (directory / WEIGHTS).is_file():
            return None
        state = {name: weight.float()
                 for name, weight in load_file(directory / WEIGHTS, device).items()}
        require_finite(directory, state)
        prefix = _PREFIXES.get(config.model_type, "roberta.")
        weights = extract_weights({name.removeprefix(prefix): weight for name, weight
                                   in state.items() if name.startswith(prefix)}, config)
        if weights is None:
            return None
        if config.model_type == "modernbert":
            longest = int(config.max_position_embeddings)
        else:
            assert weights.embed.positions is not None
            longest = len(weights.embed.positions)
        head = _read_head(model_class, state, config, weights.embed.tokens)
        if model_class != _MASKED_LM:
            outputs = head(weights.embed.tokens[:1].clone()).shape[-1]
            config.id2label = config.id2label or {n: f"LABEL_{n}" for n in range(outputs)}
            if len(config.id2label) != outputs:
                return None
    except CheckpointError:
        raise
    except Exception:  # damaged files raise errors of any kind
        return None  # transformers reads it or explains the fault
    config.vocab_size = len(weights.embed.tokens)
    return InferenceModel(config, weights, head, model_class == _POOLED, longest)


def require_finite(directory: Path, state: Mapping[str, Tensor]) -> None:
    """Reject weights that are not finite. All comparisons with NaN are false, so a model with NaN
    can get perfect scores. Weights above 1e19, whose squares overflow float32, are also a sign of
    damage.

    Raises:
        CheckpointError: there is such a weight; the message names the first one.
    """
    for name, weight in state.items():
        if not torch.linalg.vector_norm(weight.float()).isfinite():  # also not if squares overflow
            raise CheckpointError(f"{directory}: weights of {name} are not finite, or too large "
                                  "to square; train the model again from a checkpoint before this "
                                  "one")


def read_model_config(directory: Path) -> SimpleNamespace | None:
    """Read the configuration of a family that can be read here; None for other families."""
    content = read_config(directory)
    family = content.get("model_type", "")
    if family not in _DEFAULTS:
        return None
    config = SimpleNamespace(**{**_DEFAULTS[family], **content})
    config.id2label = {int(number): label
                       for number, label in content.get("id2label", {}).items()}
    if family == "modernbert":
        every = content.get("global_attn_every_n_layers", _GLOBAL_EVERY)
        config.layer_types = content.get("layer_types") or [
            "sliding_attention" if number % every else "full_attention"
            for number in range(config.num_hidden_layers)]
        stated = content.get("rope_parameters") or {}
        config.rope_parameters = {
            kind: {"rope_type": "default", "rope_theta": content.get(old, default),
                   **(stated.get(kind) or {})} for kind, (old, default) in _THETAS.items()}
        if content.get("rope_scaling"):
            return None
    return config


def _read_head(model_class: str, state: Mapping[str, Tensor], config: Any,
               tokens: Tensor) -> TensorMap:
    """Read the head of an auto class of transformers.

    Raises:
        KeyError: the head is not supported here.
    """
    family = config.model_type if config.model_type in _PREFIXES else "roberta"
    pooled, steps = model_class == _POOLED, list[TensorMap]()
    if family == "modernbert":
        steps = [_linear(state, "head.dense"), ACTIVATIONS[config.classifier_activation],
                 norm(state, "head.norm", config.norm_eps)]
        if pooled and config.classifier_pooling != "cls":
            raise KeyError("classifier_pooling")
        last = "classifier"
    elif model_class == _MASKED_LM:
        dense, normed = ("lm_head.dense", "lm_head.layer_norm") if family == "roberta" else (
            "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm")
        activation = "gelu" if family == "roberta" else config.hidden_act
        steps = [_linear(state, dense), ACTIVATIONS[activation],
                 norm(state, normed, config.layer_norm_eps)]
    elif pooled:
        dense, last = ("classifier.dense", "classifier.out_proj") if family == "roberta" else (
            "bert.pooler.dense", "classifier")
        steps = [_linear(state, dense), torch.tanh]
    else:
        last = "qa_outputs" if model_class.endswith("QuestionAnswering") else "classifier"
    if model_class == _MASKED_LM:
        steps.append(_decoder(state, config, tokens, {
            "modernbert": "", "roberta": "lm_head."}.get(family, "cls.predictions.")))
    else:
        steps.append(_linear(state, last))

    def run(states: Tensor) -> Tensor:
        for step in steps:
            states = step(states)
        return states

    return run


def _decoder(state: Mapping[str, Tensor], config: Any, tokens: Tensor, prefix: str) -> TensorMap:
    """Read the output matrix of a masked language model, which may be its input embeddings."""
    matrix = state.get(f"{prefix}decoder.weight")
    if matrix is None and config.tie_word_embeddings:
        matrix = tokens
    elif matrix is None or (config.tie_word_embeddings and not torch.equal(matrix, tokens)):
        raise KeyError("decoder")
    # If the matrix is not tied, the biases are not tied either, and only the decoder's is used.
    names = (f"{prefix}bias", f"{prefix}decoder.bias")[::1 if config.tie_word_embeddings else -1]
    offsets = next((state[name] for name in names if name in state), None)
    if offsets is None and getattr(config, "decoder_bias", True):
        raise KeyError("bias")
    return partial(multiply, weight=matrix, bias=offsets)


def _linear(state: Mapping[str, Tensor], name: str) -> TensorMap:
    weight, bias = linear(state, name)
    return partial(multiply, weight=weight, bias=bias)
