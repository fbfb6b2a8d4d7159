"""Topics of texts by keywords, from a TOML file: `Cardiology = ["cardi*", "heart failure"]`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from bmtools.errors import DataError
from bmtools.vocab.words import ChunkCache, find_words

MEDICINE = "medicine"
"""Name of the topics that come with bmtools."""
_STEM = "*"


@dataclass(frozen=True)
class _Keyword:
    """A keyword of several words, the last of which may be the beginning of one."""

    topic: int
    words: list[str]
    is_stem: bool

    def is_at(self, words: Sequence[str], start: int) -> bool:
        """Tell whether the keyword stands at a word of a text."""
        *whole, last = self.words
        found = words[start:start + len(self.words)]
        return found[:-1] == whole and len(found) == len(self.words) and (
            found[-1].startswith(last) if self.is_stem else found[-1] == last)


_ChunkTopics = tuple[list[int], list[_Keyword]]


class Topics:
    """Topics with their keywords, to find in texts; case makes no difference.

    Args:
        keywords: of each topic; words as `compare-vocab` counts them, `*` at the end of one stands
            for any ending.
    """

    def __init__(self, keywords: Mapping[str, Sequence[str]]) -> None:
        self.names = list(keywords)
        self._by_word: dict[str, list[int]] = defaultdict(list)
        self._by_stem: dict[str, list[int]] = defaultdict(list)
        self._several: dict[str, list[_Keyword]] = defaultdict(list)
        for topic, own in enumerate(keywords.values()):
            for text in own:
                words, is_stem = find_words(text.casefold()), text.endswith(_STEM)
                if len(words) == 1:
                    (self._by_stem if is_stem else self._by_word)[words[0]].append(topic)
                elif words:
                    self._several[words[0]].append(_Keyword(topic, words, is_stem))
        self._stem_lengths = sorted({*map(len, self._by_stem)})
        self._chunks = ChunkCache(self._of_chunk)

    def count(self, text: str) -> Counter[int]:
        """Count the keywords in a text by the number of their topic."""
        topics: list[int] = []
        several: list[_Keyword] = []
        for own, begun in filter(None, map(self._chunks.__getitem__, text.split())):
            topics += own
            several += begun
        folded = text.casefold() if several else ""
        if any(keyword.words[-1] in folded for keyword in several):
            words = find_words(folded)
            topics += [keyword.topic for start, word in enumerate(words)
                       for keyword in self._several.get(word, ()) if keyword.is_at(words, start)]
        return Counter(topics)

    def main_topic(self, counts: Mapping[int, int]) -> str | None:
        """Name the topic with most keywords, the first of several; None without any."""
        if not counts:
            return None
        return self.names[max(counts, key=lambda topic: (counts[topic], -topic))]

    def _of_chunk(self, chunk: str) -> _ChunkTopics | None:
        """Return the topics of a chunk between white space, and keywords that may begin in it."""
        words = find_words(chunk.casefold())
        topics = [topic for word in words for topic in (*self._by_word.get(word, ()), *(
            topic for length in self._stem_lengths if length <= len(word)
            for topic in self._by_stem.get(word[:length], ())))]
        several = [keyword for word in words for keyword in self._several.get(word, ())]
        return (topics, several) if topics or several else None


def read_topics(name: str) -> dict[str, list[str]]:
    """Read the keywords of topics from a TOML file, or those that come with bmtools by name.

    Raises:
        DataError: no TOML, or something else than lists of keywords.
    """
    from bmtools.recipes.toml import parse_toml

    content = (files(__package__) / "topics.toml").read_bytes() if name == MEDICINE \
        else Path(name).read_bytes()
    found = parse_toml(content, name)
    for topic, keywords in found.items():
        if not (isinstance(keywords, list) and keywords and all(
                isinstance(one, str) and find_words(one) for one in keywords)):
            raise DataError(f"{name}: key '{topic}': found {str(keywords)[:40]!r}, expected a list "
                            'of keywords, as ["cardi*", "heart failure"]')
    if not found:
        raise DataError(f"{name}: found no topics, expected lists of keywords by topic")
    return found
