"""Architectures by name, built from transformers' own classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from bmtools.errors import BmtoolsError, setting
from bmtools.io.failures import reading
from bmtools.models.families import first_position
from bmtools.models.sizes import HEAD_SIZE, named_size
from bmtools.records import JsonObject

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_FAMILIES = {"bert": "BertConfig", "roberta": "RobertaConfig",
             "megatron-bert": "MegatronBertConfig", "modernbert": "ModernBertConfig"}
_PAD_TOKEN_ID_LIMIT = 1_000  # RoBERTa keeps this many unused position embeddings at the start


def build_config(architecture: str, tokenizer: PreTrainedTokenizerBase,
                 max_length: int = 0) -> PretrainedConfig:
    """Make a configuration from an architecture's name or a `config.json`, for a vocabulary.

    Args:
        architecture: a name from `SIZES`, FAMILY-LAYERSxWIDTH of the families bert, roberta,
            megatron-bert and modernbert, or the path of a `config.json` (or of a directory that
            contains one).
        tokenizer: defines the size of the vocabulary and the ids of special tokens.
        max_length: number of tokens, with special tokens, that a named architecture must be able to
            read. Every architecture reads at least the published number: 512 or, for ModernBERT,
            8,192.

    Raises:
        BmtoolsError: the name is unknown, the width is not a multiple of 64, the file does not
            describe a masked language model, or the padding token of a RoBERTa vocabulary has a
            large id.
    """
    path = Path(architecture)
    is_named = not path.exists()
    config = _named_config(architecture) if is_named else _read_config(path)
    positions = config.max_position_embeddings - first_position(config)
    set_vocabulary(config, tokenizer)
    first = first_position(config)
    if first > _PAD_TOKEN_ID_LIMIT:
        raise BmtoolsError(
            f"{setting('architecture')}: {architecture} counts positions from the padding token, "
            f"which has id {first - 1}; expected one below {_PAD_TOKEN_ID_LIMIT}, or bert, "
            "megatron-bert or modernbert")
    config.max_position_embeddings = max(positions, max_length if is_named else 0) + first
    return config


def _read_config(path: Path) -> PretrainedConfig:
    from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig

    expected = "expected the config.json of a masked language model"
    with reading(f"{setting('architecture')}: {path}", "no configuration could be loaded",
                 expected):
        config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise BmtoolsError(f"{setting('architecture')}: {path}: found model_type "
                           f"{config.model_type!r}, {expected}")
    return config


def _named_config(architecture: str) -> PretrainedConfig:
    """Make the published configuration of a named architecture; the vocabulary is set later."""
    family, size = named_size(architecture)
    width = size.hidden_size
    sizes: JsonObject = {
        "num_hidden_layers": size.num_hidden_layers, "hidden_size": width,
        "num_attention_heads": size.num_attention_heads or width // HEAD_SIZE,
        # ModernBERT's gated feed-forward part has a third matrix, so it is narrower.
        "intermediate_size": size.intermediate_size
        or (3 * width // 2 if family == "modernbert" else 4 * width)}
    if family == "roberta":
        # 512 positions, after those up to the padding token. transformers' defaults are BERT's.
        sizes |= {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    import transformers

    config: PretrainedConfig = getattr(transformers, _FAMILIES[family])(**sizes)
    return config


def set_vocabulary(config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write a vocabulary's size and special token ids into a configuration."""
    config.vocab_size = len(tokenizer)
    for role in ("pad", "bos", "eos", "cls", "sep", "mask"):
        if hasattr(config, f"{role}_token_id"):
            setattr(config, f"{role}_token_id", getattr(tokenizer, f"{role}_token_id"))


def token_embeddings(model: PreTrainedModel) -> nn.Embedding:
    """Return the input embeddings of a model's vocabulary."""
    return cast("nn.Embedding", model.get_input_embeddings())


def position_embeddings(model: PreTrainedModel) -> nn.Embedding | None:
    """Return the learned position embeddings of a model; None for models without (ModernBERT)."""
    embeddings = getattr(model.base_model, "embeddings", None)
    return cast("nn.Embedding | None", getattr(embeddings, "position_embeddings", None))


def max_tokens(model: PreTrainedModel) -> int:
    """Return the length of the longest input in tokens, special ones included.

    RoBERTa never uses the position embeddings up to the padding id.
    """
    if (known := getattr(model, "max_tokens", None)) is not None:  # set in models that only predict
        return int(known)
    positions = position_embeddings(model)
    if positions is None:
        return int(model.config.max_position_embeddings)
    unused = 0 if positions.padding_idx is None else positions.padding_idx + 1
    return positions.num_embeddings - unused


def has_segment_embeddings(model: PreTrainedModel) -> bool:
    """Return whether a model has embeddings for a first and a second segment."""
    return getattr(model.config, "type_vocab_size", 1) > 1 \
        and hasattr(getattr(model.base_model, "embeddings", None), "token_type_embeddings")


@torch.no_grad()
def build_model(config: PretrainedConfig, device: str = "cpu",
                positions: str = "sinusoid") -> PreTrainedModel:
    """Initialize a masked language model with torch's global generator; seed it first.

    There are two departures from transformers' initialization. First, learned positions start as
    sinusoids (Vaswani et al. 2017, section 3.5) of the size that random values would have.
    Positions that differ by a constant are then related by one rotation from the first step, so
    attention to neighbours need not be learned position by position. Small models learn more than
    word frequencies sooner than with the random values of Devlin et al. (2 x 128 on the quickstart
    text, 400 steps: masked loss 4.8 instead of 5.6). Second, Megatron-BERT's projections into the
    residual stream are divided by the root of how often the stream is added to, because
    pre-layer-norm layers do not normalize it (Shoeybi et al. 2020, section 4.2; Radford et al.
    2019, section 2.3). transformers scales ModernBERT in the same way.

    Args:
        config: of the model.
        device: device to build it on; on meta it has no weights, to look up shapes at no cost.
        positions: "random" keeps the random positions of transformers.
    """
    from transformers import AutoModelForMaskedLM

    with torch.device(device):
        model = AutoModelForMaskedLM.from_config(config)
        learned = position_embeddings(model)
        if learned is not None and positions == "sinusoid":
            used = learned.weight[-max_tokens(model):]
            length, width = used.shape
            frequencies = 10_000.0 ** (-torch.arange(0, width, 2) / width)
            angles = torch.arange(length)[:, None] * frequencies
            sinusoids = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
            used.copy_(sinusoids * config.initializer_range * 2**0.5)
        if config.model_type == "megatron-bert":
            layers: Any = model.base_model.encoder.layer
            for layer in layers:
                layer.attention.output.dense.weight *= (2 * len(layers)) ** -0.5
                layer.output.dense.weight *= (2 * len(layers)) ** -0.5
    return model
