"""Reader of Megatron-LM's checkpoints of BERT, which uses the names of transformers.

Source: Megatron-LM's checkpointing.py. Its versions 0, 1 and 2 order the rows of query, key and
value in three ways. transformers had a script for this until its version 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from bmtools.errors import CheckpointError
from bmtools.io.failures import reading
from bmtools.models.pickled_weights import read_pickle
from bmtools.models.sizes import HEAD_SIZE
from bmtools.records import JsonMapping

if TYPE_CHECKING:
    from transformers import MegatronBertConfig

_LAYER = re.compile(r"layers\.(\d+)\.(.+)\.(weight|bias)")
_IN_LAYER = {"input_layernorm": "attention.ln", "post_attention_layernorm": "ln",
             "attention.dense": "attention.output.dense",
             "mlp.dense_h_to_4h": "intermediate.dense", "mlp.dense_4h_to_h": "output.dense"}
_QKV = "attention.query_key_value"
_OUTSIDE = {
    "language_model.embedding.word_embeddings": "bert.embeddings.word_embeddings",
    "language_model.embedding.position_embeddings": "bert.embeddings.position_embeddings",
    "language_model.embedding.tokentype_embeddings": "bert.embeddings.token_type_embeddings",
    "language_model.encoder.final_layernorm": "bert.encoder.ln",
    "language_model.pooler.dense": "bert.pooler.dense",
    "lm_head.dense": "cls.predictions.transform.dense",
    "lm_head.layernorm": "cls.predictions.transform.LayerNorm",
    "lm_head": "cls.predictions", "binary_head": "cls.seq_relationship"}
_EPSILON = 1e-5  # Megatron-LM's default for layer norms
_ROWS = "bert.embeddings.{}_embeddings.weight"
_INNER = "bert.encoder.layer.0.intermediate.dense.bias"


def read_megatron(path: Path) -> tuple[MegatronBertConfig, dict[str, Tensor]]:
    """Read the configuration and the weights of a checkpoint, in float32.

    Sizes are read from the weights. The number of heads, the activation, dropout and epsilon are
    read from the arguments that Megatron-LM saves. If there are none, heads have size 64, as in all
    its published models. If its layers use the fused GELU, which is approximated, its head uses the
    exact GELU; here both are approximated.

    Args:
        path: `model_optim_rng.pt`.

    Raises:
        CheckpointError: the file cannot be read or does not contain a BERT.
    """
    content = read_pickle(path)
    model = content.get("model") if isinstance(content, Mapping) else None
    if not isinstance(model, Mapping):
        raise CheckpointError(f"{path}: found no 'model', expected a checkpoint of Megatron-LM")
    args = getattr(content.get("args"), "__dict__", {})
    version = float(content.get("checkpoint_version") or 0)
    weights = dict(_flat(model))
    embeddings = weights.get("language_model.embedding.word_embeddings.weight")
    if embeddings is None or "lm_head.bias" not in weights:
        raise CheckpointError(f"{path}: found {', '.join(sorted(weights)[:2])} and others, "
                              "expected Megatron-LM's BERT with its head")
    with reading(path, "its weights do not fit each other", "download or copy it again"):
        width, heads = embeddings.shape[1], args.get("num_attention_heads")
        if width % (heads or HEAD_SIZE):
            raise CheckpointError(
                f"{path}: found a width of {width} and {heads or 'no number of'} heads, expected "
                "args.num_attention_heads that divides the width, or a multiple of "
                f"{HEAD_SIZE}; save it with the arguments that it was trained with")
        heads = int(heads or width // HEAD_SIZE)
        state = {name: value.float().contiguous() for old, weight in weights.items()
                 for name, value in _translated(path, old, weight, heads, version)}
        return _config(state, heads, args), state


def _flat(content: JsonMapping, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield tensors with the joined keys of the nested dictionaries."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, Tensor):
            name = f"{prefix}{key}".removeprefix("module.")
            yield name.replace("language_model.transformer.", "language_model.encoder."), value


def _translated(path: Path, name: str, weight: Tensor, heads: int,
                version: float) -> Iterator[tuple[str, Tensor]]:
    """Yield a weight, or the three weights that it consists of, by transformers' names."""
    found = _LAYER.fullmatch(name.removeprefix("language_model.encoder."))
    if found is None:
        module, _, kind = name.rpartition(".")
        if module not in _OUTSIDE:
            raise CheckpointError(f"{path}: found {name}, expected the weights of Megatron-LM's "
                                  "BERT")
        yield f"{_OUTSIDE[module]}.{kind}", weight
        return
    number, module, kind = found.groups()
    layer = f"bert.encoder.layer.{number}"
    module = module.replace("self_attention.", "attention.")
    if module == _QKV:
        for part, rows in zip(("query", "key", "value"), _split(weight, heads, version),
                              strict=True):
            yield f"{layer}.attention.self.{part}.{kind}", rows
    elif module in _IN_LAYER:
        yield f"{layer}.{_IN_LAYER[module]}.{kind}", weight
    else:
        raise CheckpointError(f"{path}: found {name}, expected the weights of Megatron-LM's BERT")


def _split(weight: Tensor, heads: int, version: float) -> Tensor:
    """Separate query, key and value: (3, heads x size, ...).

    Version 0 orders rows as (3, heads, size), version 1 as (heads, size, 3), and versions from 2 on
    as (heads, 3, size).
    """
    rest = weight.shape[1:]
    if version >= 2:
        weight = weight.view(heads, 3, -1, *rest).transpose(0, 1)
    elif version >= 1:
        weight = weight.view(heads, -1, 3, *rest).movedim(2, 0)
    return weight.reshape(3, -1, *rest).clone()


def _config(state: Mapping[str, Tensor], heads: int,
            args: JsonMapping) -> MegatronBertConfig:
    from transformers import MegatronBertConfig

    (vocabulary, width), (positions, _), (segments, _) = (
        state[_ROWS.format(kind)].shape for kind in ("word", "position", "token_type"))
    is_approximate = args.get("bias_gelu_fusion") or args.get("openai_gelu")
    return MegatronBertConfig(
        vocab_size=vocabulary, hidden_size=width, max_position_embeddings=positions,
        type_vocab_size=segments, num_attention_heads=heads,
        num_hidden_layers=sum(name.endswith(".attention.ln.weight") for name in state),
        intermediate_size=len(state[_INNER]),
        hidden_act="gelu_pytorch_tanh" if is_approximate else "gelu",
        hidden_dropout_prob=args.get("hidden_dropout", 0.1),
        attention_probs_dropout_prob=args.get("attention_dropout", 0.1),
        layer_norm_eps=args.get("layernorm_epsilon", _EPSILON))
