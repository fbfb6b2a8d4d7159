"""Topics of texts, found by keywords in a TOML file: `Cardiology = ["cardi*", "heart failure"]`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bmtools.errors import DataError
from bmtools.vocab.words import ChunkCache, find_words

MEDICINE = "medicine"
"""Name of the topics in bmtools."""
_STEM = "*"


class _Keyword(NamedTuple):
    """A keyword; its last word may be the beginning of a word."""

    topic: int
    words: list[str]
    is_stem: bool

    def is_at(self, words: Sequence[str], start: int) -> bool:
        """Return whether the keyword begins at a word of a text."""
        *whole, last = self.words
        found = words[start:start + len(self.words)]
        return found[:-1] == whole and len(found) == len(self.words) and (
            found[-1].startswith(last) if self.is_stem else found[-1] == last)


class Topics:
    """Case-insensitive search for the keywords of topics in texts.

    Args:
        keywords: keywords of each topic, split into words as in `compare-vocab`. `*` at the end
            matches any ending.
    """

    def __init__(self, keywords: Mapping[str, Sequence[str]]) -> None:
        self.names = list(keywords)
        found = [_Keyword(topic, words, text.endswith(_STEM)) for topic, own
                 in enumerate(keywords.values()) for text in own
                 if (words := find_words(text.casefold()))]
        self._by_letter = {letter: [one for one in found if one.words[0][0] == letter]
                           for letter in {one.words[0][0] for one in found}}
        self._of_word = ChunkCache(self._beginning)
        self._words = ChunkCache(lambda chunk: find_words(chunk.casefold()))

    def _beginning(self, word: str) -> list[_Keyword]:
        """List the keywords that may begin with a word."""
        return [one for one in self._by_letter.get(word[0], ())
                if one.is_at([word, *one.words[1:]], 0)]

    def count(self, text: str) -> Counter[int]:
        """Count the keywords in a text, by the index of their topic."""
        words = [word for chunk in text.split() for word in self._words[chunk]]
        return Counter(one.topic for start, word in enumerate(words)
                       for one in self._of_word[word] if one.is_at(words, start))

    def main_topic(self, counts: Mapping[int, int]) -> str | None:
        """Return the topic with the most keywords, the first among equals, or None."""
        if not counts:
            return None
        return self.names[max(counts, key=lambda topic: (counts[topic], -topic))]


def read_topics(name: str) -> dict[str, list[str]]:
    """Read the keywords of topics from a TOML file, or the topics in bmtools by name.

    Raises:
        DataError: the file is not TOML, or contains other values than lists of keywords.
    """
    from bmtools.recipes.toml import parse_toml

    path = Path(__file__).with_name("topics.toml") if name == MEDICINE else Path(name)
    found = parse_toml(path.read_bytes(), name)
    for topic, keywords in found.items():
        if not (isinstance(keywords, list) and keywords and all(
                isinstance(one, str) and find_words(one) for one in keywords)):
            raise DataError(f"{name}: key '{topic}': found {str(keywords)[:40]!r}, expected a list "
                            'of keywords, such as ["cardi*", "heart failure"]')
    if not found:
        raise DataError(f"{name}: found no topics, expected lists of keywords by topic")
    return found
