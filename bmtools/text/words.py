"""Words of texts as `compare-vocab` counts them, fast: each distinct chunk is split once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from bmtools.vocab.words import find_words

Found = TypeVar("Found")
_MOST_CHUNKS = 200_000


class ChunkCache(dict[str, Found]):
    """Findings by chunk between white space; few distinct chunks make up most of a corpus.

    Args:
        find: looks at a chunk that is not known.
    """

    def __init__(self, find: Callable[[str], Found]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, chunk: str) -> Found:
        found = self._find(chunk)
        if len(self) < _MOST_CHUNKS:
            self[chunk] = found
        return found


class ChunkWords(ChunkCache[list[str]]):
    """Words in each chunk."""

    def __init__(self) -> None:
        super().__init__(find_words)

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
