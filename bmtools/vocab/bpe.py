"""Learning a vocabulary of byte-level BPE."""

from __future__ import annotations

from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from bmtools.vocab.counting import blank, train
from bmtools.vocab.normalization import plain_normalizer
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.special_tokens import SpecialTokensLayout
from bmtools.vocab.tokenizer_type import TokenizerType, Words

_SPACE = "\u0120"  # how the byte of a space is spelled


def _steps(settings: VocabularyConfig) -> Tokenizer:
    """GPT-2's steps; a digit of its own takes the space before it along, as a word does.

    The library's own step for digits also splits at such letters as stand for bytes and look like
    raised digits, and would break other characters up.
    """
    splitter: Any = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if settings.split_digits:
        splitter = pre_tokenizers.Sequence(
            [splitter, pre_tokenizers.Split(Regex(f"{_SPACE}?[0-9]"), "isolated")])
    return blank(plain_normalizer(settings, join_spaces=False), splitter, decoders.ByteLevel())


def _fit(words: Words, settings: VocabularyConfig, layout: SpecialTokensLayout) -> Any:
    """Merge pairs of tokens, the most frequent first; ties go by the order of the bytes.

    Source: Sennrich et al. 2016, section 3.2, over bytes as in Radford et al. 2019, section 2.2.
    """
    trainer = trainers.BpeTrainer(
        vocab_size=settings.size, min_frequency=settings.min_frequency,
        special_tokens=list(layout.tokens), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    return train(models.BPE(), trainer, words)


def _first(model: dict[str, Any], size: int) -> dict[str, Any]:
    """Keep the first tokens, and the merges up to the one that makes the last of them."""
    vocabulary = {token: number for token, number in model["vocab"].items() if number < size}
    merges = []
    for left, right in model["merges"]:
        made = model["vocab"][left + right]
        if made >= size:
            break
        merges.append([left, right])
        if made == size - 1:
            break
    return {**model, "vocab": vocabulary, "merges": merges}


def _count_alphabet(_words: Words, _settings: VocabularyConfig) -> int:
    return len(pre_tokenizers.ByteLevel.alphabet())


BPE = TokenizerType(_steps, _fit, _count_alphabet, _first)
