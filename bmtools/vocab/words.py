"""Words for figures that compare tokenizers: the same for all of them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

# Joiners of Persian and Indic scripts, soft hyphens, marks of direction: inside words, never alone.
_INVISIBLE = ("\u00ad\u061c\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
              "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff")

Segmenter = Callable[[str], Sequence[int]]
"""Finds the offsets, in code points, at which the words of a text begin."""


class _Separated(dict[int, int | str]):
    """Table for `str.translate` that turns what ends a word into a space, filled on first use."""

    def __missing__(self, code: int) -> int | str:
        in_word = (unicodedata.category(chr(code))[0] in "LMN") or chr(code) in _INVISIBLE
        self[code] = code if in_word else " "
        return self[code]


_SEPARATED = _Separated()


def find_words(text: str, segmenter: Segmenter | None = None) -> list[str]:
    """Find the words of a text, in order and as they are written.

    A word is an unbroken run of letters, combining marks and numbers of any script with a letter
    or a number in it. Digits and letters are one word together (`CYP2D6`, `H1N1`); hyphens,
    apostrophes, points and all other signs separate words (`beta-blocker`, `l'asma`, `0.5` are
    two each), and are no words. Case and accents stay.

    Scripts that put no spaces between words need a segmenter; without one, all text between two
    signs is one word.

    Args:
        segmenter: finds word starts where no spaces do.
    """
    chunks = (text,) if segmenter is None else _split_at(text, segmenter(text))
    return [word for chunk in chunks for run in chunk.translate(_SEPARATED).split()
            if any(map(str.isalnum, word := run.strip(_INVISIBLE)))]


def count_words(texts: Iterable[str], segmenter: Segmenter | None = None) -> Counter[str]:
    """Count the words of texts, by `find_words`; only distinct ones are held in memory.

    Each distinct chunk between white space is split once, so reading is most of the work.

    Args:
        texts: read once.
        segmenter: finds word starts where no spaces do, in whole texts.
    """
    counter = WordCounter(segmenter)
    counter.add(texts)
    return counter.words()


class WordCounter:
    """Counter of words in texts that come bit by bit.

    Args:
        segmenter: as in `count_words`.
    """

    def __init__(self, segmenter: Segmenter | None = None) -> None:
        self._segmenter = segmenter
        self._chunks: Counter[str] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Count the words of some texts."""
        for text in texts:
            self._chunks.update(text.split() if self._segmenter is None
                                else _split_at(text, self._segmenter(text)))

    def words(self) -> Counter[str]:
        """Return all words so far with their counts."""
        return count_words_of(self._chunks)


def count_words_of(texts: Mapping[str, int], segmenter: Segmenter | None = None) -> Counter[str]:
    """Count the words of texts that occur several times.

    Args:
        texts: distinct ones with their counts.
        segmenter: as in `count_words`.
    """
    words: Counter[str] = Counter()
    for text, count in texts.items():
        for word in find_words(text, segmenter):
            words[word] += count
    return words


def _split_at(text: str, starts: Sequence[int]) -> Iterator[str]:
    """Split a text before each of some rising offsets; the pieces joined are the text."""
    begin = 0
    for end in [*starts, len(text)]:
        if end > begin:
            yield text[begin:end]
            begin = end
