"""Frequencies of all words of a corpus, exactly: what memory does not hold is sorted on disk."""

from __future__ import annotations

import heapq
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from bmtools.io.output import temporary_file
from bmtools.records import JsonObject

MOST_WORDS = 1_000_000
"""Distinct words in memory, some 150 MB; more are sorted into temporary files."""
_MOST_RUNS = 64
WordCount = tuple[str, int]


class WordFrequencies:
    """Counts of the words of a corpus; what `word_counts` needs is kept as long as they are.

    Args:
        most_words: distinct words held in memory.
    """

    def __init__(self, most_words: int = MOST_WORDS) -> None:
        self._most_words = most_words
        self._counts: Counter[str] = Counter()
        self._runs: list[BinaryIO] = []
        weakref.finalize(self, _close, self._runs)

    def add(self, counts: Mapping[str, int]) -> None:
        """Count words."""
        self._counts.update(counts)
        if len(self._counts) > self._most_words:
            self.put_aside()
        if len(self._runs) > _MOST_RUNS:
            merged = _write_run(self.word_counts())
            self._counts.clear()
            _close(self._runs)
            self._runs.append(merged)

    def put_aside(self) -> None:
        """Move what memory holds into a file."""
        self._runs.append(_write_run(sorted(self._counts.items())))
        self._counts.clear()

    def word_counts(self) -> Iterator[WordCount]:
        """Yield all words with their counts, in the order of their code points."""
        runs = [*map(_read_run, self._runs), iter(sorted(self._counts.items()))]
        for word, found in groupby(heapq.merge(*runs, key=itemgetter(0)), itemgetter(0)):
            yield word, sum(count for _, count in found)


def _write_run(counts: Iterable[WordCount]) -> BinaryIO:
    file = temporary_file()
    file.writelines(f"{word}\t{count}\n".encode() for word, count in counts)
    return file


def _close(runs: list[BinaryIO]) -> None:
    for run in runs:
        run.close()
    runs.clear()


def _read_run(file: BinaryIO) -> Iterator[WordCount]:
    file.seek(0)
    for line in file:
        word, _, count = line.decode().partition("\t")
        yield word, int(count)


def band_names(bounds: Sequence[int]) -> list[str]:
    """Name the bands of frequencies between some bounds: 1-9, 10-99 ..."""
    lows = [1, *bounds]
    return [*(f"{low}-{high - 1}" if high - 1 > low else str(low)
              for low, high in zip(lows, bounds, strict=False)), f"{lows[-1]}+"]


def count_bands(counts: Iterable[WordCount], bounds: Sequence[int]) -> dict[str, int]:
    """Count the distinct words of each band.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), figure 1: raw counts in four categories, whose
    bounds the paper does not state.
    """
    found = Counter(bisect_right(bounds, count) for _, count in counts)
    return {name: found[number] for number, name in enumerate(band_names(bounds))}


def compare_words(one: Iterable[WordCount], other: Iterable[WordCount],
                  bounds: Sequence[int]) -> JsonObject:
    """Count the distinct words of two corpora by band, and those that both have.

    Args:
        one: words in order, each once.
        other: likewise.
        bounds: of the bands.

    Returns:
        the words that both have, and by band those of each side and those of them that the other
        side has, at any frequency.
    """
    sides: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    common: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    merged = heapq.merge(((word, 0, count) for word, count in one),
                         ((word, 1, count) for word, count in other))
    for _, found in groupby(merged, itemgetter(0)):
        own = list(found)
        for _, side, count in own:
            band = bisect_right(bounds, count)
            sides[side][band] += 1
            common[side][band] += len(own) == 2
    return {"shared_words": common[0].total(), "bands": {
        name: {"words": sides[0][number], "shared": common[0][number],
               "other_words": sides[1][number], "other_shared": common[1][number]}
        for number, name in enumerate(band_names(bounds))}}
