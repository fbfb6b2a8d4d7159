"""Numbers of words in texts, by the words that `compare-vocab` counts."""

from __future__ import annotations

from bmtools.vocab.words import find_words

_MOST_CHUNKS = 200_000


class WordTally(dict[str, int]):
    """Words in each chunk between white space; few distinct ones make up most of a corpus."""

    def __missing__(self, chunk: str) -> int:
        count = len(find_words(chunk))
        if len(self) < _MOST_CHUNKS:
            self[chunk] = count
        return count

    def count(self, text: str) -> int:
        """Count the words of a text."""
        return sum(map(self.__getitem__, text.split()))
