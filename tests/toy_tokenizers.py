"""A trained tokenizer as an object of transformers."""

from __future__ import annotations

from collections.abc import Iterable

from transformers import PreTrainedTokenizerFast

from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.trainers import train_backend


def train_tokenizer(texts: Iterable[str], config: VocabularyConfig) -> PreTrainedTokenizerFast:
    """Train a tokenizer on texts."""
    return train_backend(texts, config).loaded()
