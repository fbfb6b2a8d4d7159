"""Architectures by name, built from transformers' own classes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModelForMaskedLM,
    BertConfig,
    MegatronBertConfig,
    ModernBertConfig,
    RobertaConfig,
)

from bmtools.errors import BmtoolsError

_HEAD_WIDTH = 64
_SHAPE = re.compile(r"(bert|roberta|megatron-bert|modernbert)-(\d+)x(\d+)")
# Their positions are counted from behind the id of the padding token.
_PAST_PADDING = frozenset(
    {"camembert", "data2vec-text", "roberta", "roberta-prelayernorm", "xlm-roberta",
     "xlm-roberta-xl"})
_MOST_PADDING = 1_000  # as many rows of weights, never used, stand before RoBERTa's first position


@dataclass(frozen=True)
class ModelSize:
    """How large a model is.

    Args:
        layers: number of them.
        width: of the states.
        heads: of attention; 0 for one for each 64 of the width.
        inner: width inside the feed-forward part; 0 for the family's own multiple of the width.
    """

    layers: int
    width: int
    heads: int = 0
    inner: int = 0


# bert-tiny to -medium: Turc et al. 2019, table 1; base and large: Devlin et al. 2019, section 3.
# roberta: Liu et al. 2019, section 5. modernbert: Warner et al. 2024, table 4.
# megatron-bert: Shin et al. 2020 (BioMegatron), section 3, states totals and no shapes. 345m is
# that of NVIDIA's model card. 800m and 1.2b take the shapes of Shoeybi et al. 2020 (Megatron-LM)
# whose totals come nearest: 752 million and 1.2 billion there.
SHAPES = {
    "bert-tiny": ModelSize(2, 128),
    "bert-mini": ModelSize(4, 256),
    "bert-small": ModelSize(4, 512),
    "bert-medium": ModelSize(8, 512),
    "bert-base": ModelSize(12, 768),
    "bert-large": ModelSize(24, 1024),
    "roberta-base": ModelSize(12, 768),
    "roberta-large": ModelSize(24, 1024),
    "megatron-bert-345m": ModelSize(24, 1024),
    "megatron-bert-800m": ModelSize(36, 1280),
    "megatron-bert-1.2b": ModelSize(40, 1536, heads=16),
    "modernbert-base": ModelSize(22, 768, inner=1152),
    "modernbert-large": ModelSize(28, 1024, inner=2624),
}


def build_config(architecture: str, tokenizer: Any, positions: int = 0) -> Any:
    """Make the configuration of a named architecture, or of a `config.json`, for a vocabulary.

    Args:
        architecture: a name from `SHAPES`, FAMILY-LAYERSxWIDTH of the families bert, roberta,
            megatron-bert and modernbert, or the path of a `config.json` (or of a directory that
            holds one).
        tokenizer: gives the size of the vocabulary and the ids of special tokens.
        positions: tokens of the longest row that a named architecture shall take, special ones
            included. None gets fewer than are published: 512 or, in ModernBERT, 8,192.

    Raises:
        BmtoolsError: the name is unknown, the width is no multiple of 64, the file describes
            no masked language model, or RoBERTa meets a padding token far from id 0.
    """
    path = Path(architecture)
    named = not path.exists()
    config = _named(architecture) if named else _read_config(path)
    longest = config.max_position_embeddings - first_position(config)
    adopt_vocabulary(config, tokenizer)
    before = first_position(config)
    if before > _MOST_PADDING:
        raise BmtoolsError(
            f"--architecture: {architecture} counts positions from the padding token, which has "
            f"id {before - 1}; expected one below {_MOST_PADDING}, or bert, megatron-bert or "
            "modernbert")
    config.max_position_embeddings = max(longest, positions if named else 0) + before
    return config


def _read_config(path: Path) -> Any:
    try:
        config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BmtoolsError(f"--architecture: {path}: {str(error).strip().splitlines()[0][:200]}; "
                           "expected the config.json of a masked language model") from error
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise BmtoolsError(f"--architecture: {path}: found model_type {config.model_type!r}, "
                           "expected the config.json of a masked language model")
    return config


def first_position(config: Any) -> int:
    """Count the rows of the position table that stand before the first position."""
    if config.model_type in _PAST_PADDING and config.pad_token_id is not None:
        return int(config.pad_token_id) + 1
    return 0


def adopt_vocabulary(config: Any, tokenizer: Any) -> None:
    """Write a vocabulary's size and special ids into a configuration."""
    config.vocab_size = len(tokenizer)
    for role in ("pad", "bos", "eos", "cls", "sep", "mask"):
        if hasattr(config, f"{role}_token_id"):
            setattr(config, f"{role}_token_id", getattr(tokenizer, f"{role}_token_id"))


def _named(architecture: str) -> Any:
    match = _SHAPE.fullmatch(architecture)
    if match:
        family, shape = match[1], ModelSize(int(match[2]), int(match[3]))
    elif architecture in SHAPES:
        family, shape = architecture.rpartition("-")[0], SHAPES[architecture]
    else:
        raise BmtoolsError(
            f"--architecture: found {architecture!r}, expected {', '.join(SHAPES)}, "
            "FAMILY-LAYERSxWIDTH (bert, roberta, megatron-bert or modernbert) or the path of a "
            "config.json")
    if shape.layers < 1 or shape.width % _HEAD_WIDTH or not shape.width:
        raise BmtoolsError(f"--architecture: found {architecture!r}, expected at least one layer "
                           f"and a width that is a multiple of {_HEAD_WIDTH}")
    return _config_of(family, shape)


def _config_of(family: str, shape: ModelSize) -> Any:
    """Make a family's configuration, as published, with the vocabulary left open."""
    common: dict[str, Any] = {"num_hidden_layers": shape.layers, "hidden_size": shape.width,
                              "num_attention_heads": shape.heads or shape.width // _HEAD_WIDTH}
    inner = shape.inner or 4 * shape.width
    if family == "bert":
        return BertConfig(**common, intermediate_size=inner)
    if family == "roberta":
        # 512 positions and those up to the padding token; transformers' defaults are BERT's.
        return RobertaConfig(**common, intermediate_size=inner, max_position_embeddings=514,
                             type_vocab_size=1, layer_norm_eps=1e-5)
    if family == "megatron-bert":
        return MegatronBertConfig(**common, intermediate_size=inner)
    # A gated part has a third matrix, so ModernBERT's is narrower.
    return ModernBertConfig(**common, intermediate_size=shape.inner or 3 * shape.width // 2)


def build_model(config: Any) -> Any:
    """Initialise a masked language model; draws from torch's global generator, seed it first."""
    model = AutoModelForMaskedLM.from_config(config)
    embeddings = getattr(model.base_model, "embeddings", None)
    positions = getattr(embeddings, "position_embeddings", None)
    if positions is not None:
        used = 0 if positions.padding_idx is None else positions.padding_idx + 1
        _start_as_waves(positions.weight[used:], config.initializer_range)
    if config.model_type == "megatron-bert":
        _shrink_residual_outputs(model.base_model.encoder.layer)
    return model


def build_on_meta(config: Any) -> Any:
    """Build a model without weights, to ask for its shapes; this costs nothing."""
    with torch.device("meta"):
        return build_model(config)


@torch.no_grad()
def _start_as_waves(positions: torch.Tensor, deviation: float) -> None:
    """Start learned positions as sinusoids, of the size that random ones would have.

    Positions that differ by a constant are then related by one rotation from the first step, so
    attention to neighbours need not be learned place by place. A departure from Devlin et al.
    2019, whose positions start at random: small models leave the floor of word frequencies
    sooner (2 x 128 on the quickstart text, 400 steps: masked loss 4.8 instead of 5.6).

    Source: Vaswani et al. 2017, section 3.5.

    Args:
        positions: (positions, width) weights, without RoBERTa's rows up to the padding token.
        deviation: standard deviation that they get.
    """
    length, width = positions.shape
    rates = 10_000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(length)[:, None] * rates
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
    positions.copy_(waves * deviation * 2**0.5)


@torch.no_grad()
def _shrink_residual_outputs(layers: Any) -> None:
    """Divide what enters the residual stream by the root of how often it is added to.

    Layers that are normalised on their way in add up unnormalised, so that a deep stream would
    grow with depth. transformers leaves this out of Megatron-BERT and has it in ModernBERT.

    Source: Shoeybi et al. 2020 (Megatron-LM), section 4.2; Radford et al. 2019, section 2.3.
    """
    factor = (2 * len(layers)) ** -0.5
    for layer in layers:
        layer.attention.output.dense.weight *= factor
        layer.output.dense.weight *= factor
