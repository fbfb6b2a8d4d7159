"""From a masked word to the token that a model would have to propose for it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import decoders

from bmtools.records import MASK
from bmtools.scoring.predictors import Masking

_NOT_TEXT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Target:
    """What a predictor is asked about one masked word.

    Args:
        masking: the sentence with one place to hide, where the word stands.
        wanted: ids that are right there; none where the word is no known token.
        tokens: how many tokens the word takes as it is spelled.
    """

    masking: Masking
    wanted: tuple[int, ...]
    tokens: int

    @property
    def multi_token(self) -> bool:
        """Whether the vocabulary has the word only in pieces."""
        return not self.wanted and self.tokens > 1

    @property
    def unknown(self) -> bool:
        """Whether the vocabulary does not have the word at all."""
        return not self.wanted and self.tokens == 1


class Targets:
    """Looks up the tokens of words in one vocabulary.

    The word is put where the mask stands and the whole text is encoded, so that the token is the
    one this place asks for: with the space before it in byte-level BPE, with `##` in WordPiece
    where the mask touches a word.

    Args:
        tokenizer: of the model.
        ignore_case: take every token that is the word but for case.
    """

    def __init__(self, tokenizer: Any, ignore_case: bool) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._unknown = tokenizer.unk_token_id
        self._ignore_case = ignore_case
        self._by_folded: defaultdict[str, list[int]] = defaultdict(list)
        if ignore_case:
            for number in sorted(tokenizer.get_vocab().values()):
                self._by_folded[self._folded(number)].append(number)

    def find(self, text: str, target: str) -> Target:
        """Find the place and the tokens of a word.

        Where it is no token of its own, all its pieces together become one place to hide.

        Args:
            text: holds `[MASK]` once.
            target: the word behind it.

        Raises:
            ValueError: the tokenizer makes nothing of the word.
        """
        word = target.strip()
        found = self._place(text, word)
        if not found.wanted and self._ignore_case:
            for variant in (word.lower(), word.upper(), word.capitalize()):
                other = self._place(text, variant)
                if other.wanted:
                    return Target(other.masking, other.wanted, found.tokens)
        return found

    def _place(self, text: str, word: str) -> Target:
        begin = text.index(MASK)
        end = begin + len(word)
        whole = text[:begin] + word + text[begin + len(MASK):]
        encoding = self._backend.encode(whole)
        over = [number for number, (first, last) in enumerate(encoding.offsets)
                if first < last and first < end and last > begin]
        if not over:
            raise ValueError(f"the tokenizer makes nothing of {word!r}")
        start, stop = over[0], over[-1] + 1
        ids = np.array([*encoding.ids[:start + 1], *encoding.ids[stop:]], dtype=np.int64)
        masking = Masking(ids, np.array([start]))
        if len(over) > 1 or not self._is_exactly(whole, encoding.offsets[start], begin, end):
            # A token that holds more than the word is not the word's own.
            return Target(masking, (), max(2, len(over)))
        return Target(masking, self._right(encoding.ids[start]), 1)

    @staticmethod
    def _is_exactly(text: str, offsets: tuple[int, int], begin: int, end: int) -> bool:
        """Whether offsets are those of the word; some tokenizers count the space before it in."""
        first, last = offsets
        return last == end and not text[first:begin].strip() and first <= begin

    def _right(self, number: int) -> tuple[int, ...]:
        if number == self._unknown:
            return ()
        return tuple(self._by_folded[self._folded(number)]) if self._ignore_case else (number,)

    def _folded(self, number: int) -> str:
        return spell(self._backend, number).casefold()


def spell(backend: Any, number: int) -> str:
    """Name a token the way people read it; the space before a word stays, and so does `##`.

    Bytes that are no text on their own keep the alphabet of byte-level BPE. Models may have more
    rows than their tokenizer has tokens; those get their number.
    """
    token = backend.id_to_token(number)
    if token is None:
        return f"<{number}>"
    if isinstance(backend.decoder, decoders.ByteLevel):
        text = backend.decoder.decode([token])
        return token if _NOT_TEXT in text else text
    return token
