"""Topics of texts by keywords, from a TOML file: `Cardiology = ["cardi*", "heart failure"]`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from bmtools.errors import DataError
from bmtools.vocab.words import find_words

MEDICINE = "medicine"
"""Name of the topics that come with bmtools."""
_MOST_WORDS = 200_000
_STEM = "*"


@dataclass(frozen=True)
class _Keyword:
    """A keyword: words one after the other, the last of which may be the beginning of one."""

    topic: int
    words: tuple[str, ...]
    is_stem: bool

    def is_at(self, words: Sequence[str], start: int) -> bool:
        """Tell whether the keyword stands at a word of a text."""
        *whole, last = self.words
        found = words[start:start + len(self.words)]
        return found[:-1] == whole and len(found) == len(self.words) and (
            found[-1].startswith(last) if self.is_stem else found[-1] == last)


class Topics:
    """Topics with their keywords, to find in texts; case makes no difference.

    Args:
        keywords: of each topic; words as `compare-vocab` counts them, `*` at the end of one stands
            for any ending.
    """

    def __init__(self, keywords: Mapping[str, Sequence[str]]) -> None:
        self.names = list(keywords)
        self._by_word: dict[str, list[_Keyword]] = defaultdict(list)
        self._by_stem: dict[str, list[_Keyword]] = defaultdict(list)
        for topic, own in enumerate(keywords.values()):
            for text in own:
                words, is_stem = tuple(find_words(text.casefold())), text.endswith(_STEM)
                if words:
                    index = self._by_stem if is_stem and len(words) == 1 else self._by_word
                    index[words[0]].append(_Keyword(topic, words, is_stem))
        self._stem_lengths = sorted({*map(len, self._by_stem)})
        self._known: dict[str, list[_Keyword]] = {}

    def count(self, text: str) -> Counter[int]:
        """Count the keywords in a text by the number of their topic."""
        words = find_words(text.casefold())
        return Counter(keyword.topic for start, word in enumerate(words)
                       for keyword in self._candidates(word) if keyword.is_at(words, start))

    def main_topic(self, counts: Mapping[int, int]) -> str | None:
        """Name the topic with most keywords, the first of several; None without any."""
        if not counts:
            return None
        return self.names[max(counts, key=lambda topic: (counts[topic], -topic))]

    def _candidates(self, word: str) -> list[_Keyword]:
        """List the keywords that a word may begin."""
        found = self._known.get(word)
        if found is None:
            found = [*self._by_word.get(word, ()), *(
                keyword for length in self._stem_lengths
                for keyword in self._by_stem.get(word[:length], ()) if length <= len(word))]
            if len(self._known) < _MOST_WORDS:
                self._known[word] = found
        return found


def read_topics(name: str) -> dict[str, list[str]]:
    """Read the keywords of topics from a TOML file, or those that come with bmtools by name.

    Raises:
        DataError: no TOML, or something else than lists of keywords.
    """
    from bmtools.recipes.toml import parse_toml

    content = (files(__package__) / "topics.toml").read_bytes() if name == MEDICINE \
        else Path(name).read_bytes()
    found: dict[str, Any] = parse_toml(content, name)
    for topic, keywords in found.items():
        if not (isinstance(keywords, list) and keywords and all(
                isinstance(one, str) and find_words(one) for one in keywords)):
            raise DataError(f"{name}: key '{topic}': found {str(keywords)[:40]!r}, expected a list "
                            'of keywords, as ["cardi*", "heart failure"]')
    if not found:
        raise DataError(f"{name}: found no topics, expected lists of keywords by topic")
    return found
