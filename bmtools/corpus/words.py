"""Words of texts as `compare-vocab` counts them, fast: each distinct chunk is split once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bmtools.vocab.words import find_words

_MOST_CHUNKS = 200_000


class ChunkWords(dict[str, tuple[str, ...]]):
    """Words in each chunk between white space; few distinct ones make up most of a corpus."""

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        words = tuple(find_words(chunk))
        if len(self) < _MOST_CHUNKS:
            self[chunk] = words
        return words

    def number(self, text: str) -> int:
        """Return the number of words in a text."""
        return sum(map(len, map(self.__getitem__, text.split())))

    def frequencies(self, texts: Iterable[str]) -> Counter[str]:
        """Count the words of some texts by word."""
        chunks = Counter[str]()
        for text in texts:
            chunks.update(text.split())
        counts = Counter[str]()
        for chunk, count in chunks.items():
            for word in self[chunk]:
                counts[word] += count
        return counts
