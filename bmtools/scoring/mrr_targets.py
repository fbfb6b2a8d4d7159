"""From a masked word to the token that a model would have to propose for it."""

from __future__ import annotations

import string
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tokenizers import decoders

from bmtools.records import MASK
from bmtools.scoring.predictor import MaskedCopies, mask_each

_NOT_TEXT = "\N{REPLACEMENT CHARACTER}"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class MaskedTarget:
    """What a predictor is asked about one masked word.

    Args:
        masking: the sentence with one place to hide, where the word stands.
        wanted: ids that are right there; none where the word is no known token.
        pieces: ids of the word as it is spelled there; none where a token holds more than it.
    """

    masking: MaskedCopies
    wanted: tuple[int, ...]
    pieces: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """How many tokens the word takes; what a larger token holds cannot be asked for in one."""
        return len(self.pieces) or 2

    @property
    def multi_token(self) -> bool:
        """Whether the vocabulary has the word only in pieces."""
        return not self.wanted and self.tokens > 1

    @property
    def unknown(self) -> bool:
        """Whether the vocabulary does not have the word at all."""
        return not self.wanted and self.tokens == 1

    @property
    def place(self) -> int:
        """Where the word stands, in tokens."""
        return int(self.masking.spans[0, 0])


class TargetLookup:
    """Looks up the tokens of words in one vocabulary.

    The word is put where the mask stands and the whole text is encoded, so that the token is the
    one this place asks for: with the space before it in byte-level BPE, with `##` in WordPiece
    where the mask touches a word.

    Args:
        tokenizer: of the model.
        ignore_case: take every token that is the word but for case.
        published: take every token that is spelled like the word but for case, the space before
            it and the word's punctuation, as Buonocore et al. compare them.
    """

    def __init__(self, tokenizer: Any, ignore_case: bool, published: bool = False) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._unknown = tokenizer.unk_token_id
        self._ignore_case = ignore_case
        self._published = published
        self._by_folded: defaultdict[str, list[int]] = defaultdict(list)
        if ignore_case or published:
            for number in sorted(tokenizer.get_vocab().values()):
                self._by_folded[self._folded(number)].append(number)

    def find(self, text: str, target: str) -> MaskedTarget:
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
        if self._published:
            return replace(found, wanted=self._spelled_like(word))
        if not found.wanted and self._ignore_case:
            for variant in (word.lower(), word.upper(), word.capitalize()):
                other = self._place(text, variant)
                if other.wanted:
                    return MaskedTarget(other.masking, other.wanted, found.pieces)
        return found

    def _place(self, text: str, word: str) -> MaskedTarget:
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
        masking = mask_each(ids, np.array([start]))
        covered = encoding.offsets[start][0], encoding.offsets[stop - 1][1]
        if not self._is_exactly(whole, covered, begin, end):
            # A token that holds more than the word is not the word's own.
            return MaskedTarget(masking, (), ())
        pieces = tuple(encoding.ids[start:stop])
        return MaskedTarget(masking, self._right(pieces[0]) if len(pieces) == 1 else (), pieces)

    @staticmethod
    def _is_exactly(text: str, offsets: tuple[int, int], begin: int, end: int) -> bool:
        """Whether offsets are those of the word; some tokenizers count the space before it in."""
        first, last = offsets
        return last == end and not text[first:begin].strip() and first <= begin

    def _right(self, number: int) -> tuple[int, ...]:
        if number == self._unknown:
            return ()
        return tuple(self._by_folded.get(self._folded(number), ())) if self._ignore_case \
            else (number,)

    def _folded(self, number: int) -> str:
        token = spell(self._backend, number)
        return token.strip().lower() if self._published else token.casefold()

    def _spelled_like(self, word: str) -> tuple[int, ...]:
        bare = word.translate(_NO_PUNCTUATION).strip().lower()
        return tuple(self._by_folded.get(bare, ())) if bare else ()


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
