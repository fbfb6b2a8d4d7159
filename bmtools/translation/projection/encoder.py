"""Encoders whose hidden states are compared: a translation model's own, or any multilingual one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bmtools.errors import CheckpointError, require, setting
from bmtools.models.checkpoint import load_checkpoint
from bmtools.models.checkpoint_files import positions
from bmtools.models.hardware import resolve_device
from bmtools.translation.engines.engine import Translator
from bmtools.translation.engines.model_files import check_sequence_to_sequence
from bmtools.translation.engines.subwords import Subwords
from bmtools.translation.engines.transformers_engine import TransformersTranslator
from bmtools.translation.projection.embeddings import StatesProjector, WordTokenizer
from bmtools.translation.projection.links import link_rule
from bmtools.translation.projection.settings import LinkRule
from bmtools.translation.settings import ModelConfig

_USUAL_LAYER = 8
_NO_LIMIT = 1 << 30


def translation_encoder(config: ModelConfig, source: str, target: str, layer: int | None = None,
                        rule: LinkRule = "softmax",
                        engine: Translator | None = None) -> StatesProjector:
    """Load the encoder of a translation model, which must read both languages.

    Source: Ebing and Glavaš 2025 (TransAlign, arXiv 2510.27337), without its fine-tuning.

    Args:
        config: names the directory of the model as transformers saves it, or that of the
            tokenizer where the model is a converted one.
        source: ISO 639-1 code.
        target: ISO 639-1 code.
        layer: whose states are compared; the last one by default.
        rule: links states of tokens.
        engine: on transformers, where it is loaded; its encoder serves if its weights are float32.

    Raises:
        CheckpointError: no such model, or one that reads the source language alone.
        ValueError: the encoder has not so many layers.
    """
    directory = config.directory if engine else config.tokenizer or config.directory
    check_sequence_to_sequence(directory)
    left = Subwords(replace(config, model=directory), source, target)
    if not (left.target_token or "".join(left.prefix).startswith("<2")):
        raise CheckpointError(
            f"{directory}: has no token for the language of a sentence, so its encoder reads "
            f"{source!r} alone; {setting('method')} encoder needs a model that reads both "
            "languages, such as NLLB, M2M-100 or MADLAD-400")
    right = Subwords(replace(config, model=directory, source_code=config.target_code,
                             target_code=config.source_code), target, source)
    if not isinstance(engine, TransformersTranslator) or not engine.is_float32:
        engine = TransformersTranslator(replace(config, model=directory, compute_type="float32"),
                                        source, target)
    encoder = engine.encoder
    sides = [WordTokenizer(one.tokenizer, [one.vocabulary[token] for token in one.prefix],
                           [one.tokenizer.eos_token_id]) for one in (left, right)]
    return StatesProjector("encoder", encoder, (sides[0], sides[1]), _layer(encoder, layer, None),
                           link_rule(rule), left.tokenizer.pad_token_id, left.max_length,
                           config.batch_tokens)


def text_encoder(directory: Path, layer: int | None = None, rule: LinkRule = "itermax",
                 device: str = "auto", batch_tokens: int = ModelConfig.batch_tokens,
                 ) -> StatesProjector:
    """Load any encoder that reads both languages, such as LaBSE, XLM-R or multilingual BERT.

    Source: Jalili Sabet et al. 2020 (SimAlign).

    Args:
        directory: of its checkpoint.
        layer: whose states are compared; the eighth by default, or the last of fewer.
        rule: links states of tokens.
        device: `auto` takes a GPU where there is one.
        batch_tokens: tokens of one batch, padding included.

    Raises:
        CheckpointError: no encoder that can be loaded.
        ValueError: it has not so many layers.
    """
    # A class with a new head has the encoder's own names for the weights, and no pooler.
    loaded = load_checkpoint(directory, resolve_device(device), "AutoModelForTokenClassification",
                             new_head=True)
    encoder: Any = loaded.model.base_model
    tokenizer = loaded.tokenizer
    words = WordTokenizer(tokenizer, [tokenizer.cls_token_id], [tokenizer.sep_token_id])
    return StatesProjector("embeddings", encoder, (words, words),
                           _layer(encoder, layer, _USUAL_LAYER), link_rule(rule),
                           tokenizer.pad_token_id,
                           positions(encoder.config.to_dict()) or _NO_LIMIT, batch_tokens)


def _layer(encoder: Any, layer: int | None, usual: int | None) -> int:
    """Return the layer to compare; the usual one, or the last of fewer, unless one is named."""
    last = int(encoder.config.num_hidden_layers)
    if layer is None:
        return min(last, usual or last)
    require(0 <= layer <= last, "layer", layer, f"0 to {last}, the encoder's last one")
    return layer
