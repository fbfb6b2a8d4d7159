"""Learning a WordPiece vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from bmtools.vocab.counting import alphabet_of, blank, most_frequent, train
from bmtools.vocab.normalization import bert_normalizer
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.special_tokens import LAYOUTS, SpecialTokensLayout
from bmtools.vocab.tokenizer_type import TokenizerType, Words

SPECIAL = LAYOUTS["bert"].tokens
INNER = "##"


def learn(texts: Iterable[str], settings: VocabularyConfig) -> Any:
    """Learn a vocabulary and return a tokenizer; the same texts give the same bytes.

    Where the text supports fewer tokens than asked for, there are fewer.

    Args:
        texts: read once; their distinct words are held in memory.
        settings: of kind wordpiece.

    Raises:
        DataError: no text.
    """
    return WORDPIECE.learn(WORDPIECE.count(texts, settings), settings)


def _steps(settings: VocabularyConfig) -> Tokenizer:
    splitter: Any = pre_tokenizers.BertPreTokenizer()
    if settings.split_digits:
        splitter = pre_tokenizers.Sequence(
            [splitter, pre_tokenizers.Split(Regex("[0-9]"), "isolated")])
    return blank(bert_normalizer(settings), splitter, decoders.WordPiece(prefix=INNER))


def _fit(words: Words, settings: VocabularyConfig, layout: SpecialTokensLayout) -> Any:
    """Merge pairs of pieces, the most frequent first.

    The library's trainer numbers the characters inside words in the order of a randomly seeded
    hash map, and ties between merges follow those numbers, so two runs differ. Numbering all
    characters beforehand removes the chance.
    """
    alphabet = _alphabet(words, settings.max_alphabet)
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.size, min_frequency=settings.min_frequency,
        special_tokens=[*layout.tokens, *alphabet], continuing_subword_prefix=INNER,
        show_progress=False)
    unknown = layout.roles["unk_token"]
    found = train(models.WordPiece(unk_token=unknown), trainer, _spellable(words, alphabet))
    found.unk_token = unknown
    return found


def _first(model: dict[str, Any], size: int) -> dict[str, Any]:
    return {**model, "vocab": {token: number for token, number in model["vocab"].items()
                               if number < size}}


def _alphabet(words: Words, limit: int) -> list[str]:
    """The characters to keep, at the start of words and inside them, in a stable order."""
    kept = set(most_frequent(alphabet_of(words), limit))
    first = {word[0] for word in words} & kept
    inner = {character for word in words for character in word[1:]} & kept
    return sorted(first) + [INNER + character for character in sorted(inner)]


def _spellable(words: Words, alphabet: list[str]) -> Words:
    """Leave out words with a character outside the alphabet: they are unknown anyway, and the
    trainer would take the character in."""
    known = set(alphabet)
    return Words({word: count for word, count in words.items()
                  if word[0] in known and all(INNER + c in known for c in word[1:])})


def _count_alphabet(words: Words, settings: VocabularyConfig) -> int:
    return len(_alphabet(words, settings.max_alphabet))


WORDPIECE = TokenizerType(_steps, _fit, _count_alphabet, _first)
