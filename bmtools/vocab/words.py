"""What a word is, for figures that compare tokenizers: the same to all of them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

# Joiners of Persian and Indic scripts, soft hyphens, marks of direction: inside words, never alone.
_INVISIBLE = ("\u00ad\u061c\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
              "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff")

FindStarts = Callable[[str], Sequence[int]]
"""From a text to the offsets, in code points, at which words begin."""


class _Apart(dict[int, int | str]):
    """For `str.translate`: puts a space where no word can go on; learns each character once."""

    def __missing__(self, code: int) -> int | str:
        within = (unicodedata.category(chr(code))[0] in "LMN") or chr(code) in _INVISIBLE
        self[code] = code if within else " "
        return self[code]


_APART = _Apart()


def find_words(text: str, find_starts: FindStarts | None = None) -> list[str]:
    """Give the words of a text in order, as they are written.

    A word is an unbroken run of letters, combining marks and numbers of any script that holds a
    letter or a number. Digits and letters are one word together (`CYP2D6`, `H1N1`); hyphens,
    apostrophes, points and all other signs stand between words (`beta-blocker`, `l'asma`, `0.5`
    are two each), and are no words. Case and accents stay.

    Scripts that put no spaces between words need a segmenter; without one, what stands between
    signs is taken for a word.

    Args:
        find_starts: says where words begin where no spaces do.
    """
    chunks = (text,) if find_starts is None else _cut_at(text, find_starts(text))
    return [word for chunk in chunks for run in chunk.translate(_APART).split()
            if any(map(str.isalnum, word := run.strip(_INVISIBLE)))]


def count_words(texts: Iterable[str], find_starts: FindStarts | None = None) -> Counter[str]:
    """Count the words of texts, by `find_words`; only distinct ones are held in memory.

    Each distinct chunk between white space is looked at once, so reading is most of the work.

    Args:
        texts: read once.
        find_starts: says where words begin where no spaces do, and sees whole texts.
    """
    counter = WordCounter(find_starts)
    counter.add(texts)
    return counter.words()


class WordCounter:
    """Counts words of texts that come bit by bit.

    Args:
        find_starts: as in `count_words`.
    """

    def __init__(self, find_starts: FindStarts | None = None) -> None:
        self._find_starts = find_starts
        self._chunks: Counter[str] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Count the words of some texts."""
        for text in texts:
            self._chunks.update(text.split() if self._find_starts is None
                                else _cut_at(text, self._find_starts(text)))

    def words(self) -> Counter[str]:
        """Give all words so far with their counts."""
        words: Counter[str] = Counter()
        for chunk, count in self._chunks.items():
            for word in find_words(chunk):
                words[word] += count
        return words


def _cut_at(text: str, starts: Sequence[int]) -> Iterator[str]:
    """Cut a text before each of some offsets, which rise; the pieces joined are the text."""
    begin = 0
    for end in [*starts, len(text)]:
        if end > begin:
            yield text[begin:end]
            begin = end
