"""Exact frequencies of all words in a corpus, in memory and a temporary database."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from bmtools.io.output import temporary_database

MOST_WORDS = 1_000_000
"""Distinct words in memory, about 150 MB; further words are moved to a temporary database."""


class WordFrequencies:
    """Counts of the words in a corpus.

    Args:
        most_words: maximum number of distinct words in memory.
    """

    def __init__(self, most_words: int = MOST_WORDS) -> None:
        self._most_words = most_words
        self._counts: Counter[str] = Counter()
        self._database = temporary_database()
        self._database.execute("CREATE TABLE words (word PRIMARY KEY, count) WITHOUT ROWID")
        self._has_more = False

    def add(self, counts: Mapping[str, int]) -> None:
        """Add the counts of words."""
        self._counts.update(counts)
        if len(self._counts) > self._most_words:
            self._put_aside()

    def _put_aside(self) -> None:
        self._has_more = True
        self._database.executemany(
            "INSERT INTO words VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + "
            "excluded.count", sorted(self._counts.items()))
        self._counts.clear()

    def counts(self) -> Iterator[int]:
        """Yield the frequency of each distinct word."""
        if not self._has_more:
            yield from self._counts.values()
            return
        self._put_aside()
        yield from (count for count, in self._database.execute("SELECT count FROM words"))

    def bands(self, bounds: Sequence[int]) -> dict[str, int]:
        """Count the distinct words in bands of frequency, such as 1-9 and 10-99.

        Source: Pavlova and Makhlouf 2023 (BIOptimus), figure 1: raw counts in four categories. The
        paper does not state the bounds.
        """
        found = Counter(bisect_right(bounds, count) for count in self.counts())
        ends = zip([1, *bounds], [*bounds, None], strict=True)
        return {f"{low}+" if high is None else str(low) if high - 1 == low else f"{low}-{high - 1}":
                found[number] for number, (low, high) in enumerate(ends)}
