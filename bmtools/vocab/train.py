"""Learning a vocabulary of any kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bmtools.errors import DataError
from bmtools.vocab.bpe import BPE
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer_type import TokenizerType
from bmtools.vocab.unigram import UNIGRAM
from bmtools.vocab.wordpiece import WORDPIECE

FAMILIES: Mapping[str, TokenizerType] = {"wordpiece": WORDPIECE, "bpe": BPE, "unigram": UNIGRAM}


def learn_vocabulary(texts: Iterable[str], settings: VocabularyConfig) -> Any:
    """Learn a vocabulary and return a tokenizer of transformers.

    The same texts, in any order, give the same bytes, at any number of threads.

    Args:
        texts: read once; their distinct words are held in memory.
        settings: with a size.

    Raises:
        DataError: no text, or too little of it for the size.
    """
    family = FAMILIES[settings.kind]
    words = family.count(texts, settings)
    least = family.least(words, settings)
    if settings.size < least:
        raise DataError(
            f"--size: found {settings.size}, but special tokens and single characters alone are "
            f"{least}; expected --size {least} or more, or a lower --max-alphabet")
    tokenizer = family.learn(words, settings)
    require_size(len(tokenizer), settings)
    return tokenizer


def require_size(tokens: int, settings: VocabularyConfig) -> None:
    """Raise where there are fewer tokens than asked for, and that is not said to do.

    Raises:
        DataError: names how many there are.
    """
    if tokens < settings.size and not settings.at_most:
        raise DataError(
            f"--size: found {settings.size}, but the text supports {tokens} tokens; expected "
            f"--size {tokens} or less, more text, or --at-most to take what there is")
