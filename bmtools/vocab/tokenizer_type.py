"""What kinds of vocabularies have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from bmtools.errors import DataError
from bmtools.vocab.counting import count_split_words
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.special_tokens import LAYOUTS, SpecialTokensLayout, frame

Words = Counter[str]


@dataclass(frozen=True)
class TokenizerType:
    """A kind of vocabulary.

    Args:
        steps: gives a tokenizer with an empty model and all else that settings ask for.
        fit: learns a model of the library from words with counts.
        alphabet: number of tokens that stand for single characters, without which nothing can be
            spelled.
        first: cuts a model, as `tokenizer.json` holds it, down to its first tokens, to what a
            smaller size would have learned; None where sizes must be learned one by one.
    """

    steps: Callable[[VocabularyConfig], Tokenizer]
    fit: Callable[[Words, VocabularyConfig, SpecialTokensLayout], Any]
    alphabet: Callable[[Words, VocabularyConfig], int]
    first: Callable[[dict[str, Any], int], dict[str, Any]] | None = None

    def count(self, texts: Iterable[str], settings: VocabularyConfig) -> Words:
        """Count words as this kind splits them.

        Raises:
            DataError: there are none.
        """
        words = count_split_words(texts, self.steps(settings))
        if not words:
            raise DataError("no words in the input; expected records with some text")
        return words

    def least(self, words: Words, settings: VocabularyConfig) -> int:
        """The smallest size that holds all special tokens and characters."""
        return len(LAYOUTS[settings.frame].tokens) + self.alphabet(words, settings)

    def build(self, model: Any, settings: VocabularyConfig) -> Any:
        """Make a tokenizer of transformers of a model."""
        backend = self.steps(settings)
        backend.model = model
        return frame(backend, LAYOUTS[settings.frame])

    def learn(self, words: Words, settings: VocabularyConfig) -> Any:
        """Learn as many tokens as asked for, or as the words support."""
        return self.build(self.fit(words, settings, LAYOUTS[settings.frame]), settings)
