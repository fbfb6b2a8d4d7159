"""Frequencies of words, compared with a counter, with and without the database."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bmtools.study.corpora.frequencies import WordFrequencies


@pytest.mark.parametrize("most_words", [1, 5, 1_000])
def test_counts_are_exact(most_words: int) -> None:
    draw = random.Random(0)
    batches = [Counter(draw.choices(["è", "Zug", "a", "\U0001d538", "zz", "b1", "ﬁ"], k=4))
               for _ in range(30)]
    found = WordFrequencies(most_words)
    for batch in batches:
        found.add(batch)
    expected = sorted(sum(batches, Counter()).values())
    assert sorted(found.counts()) == sorted(found.counts()) == expected


@pytest.mark.parametrize(("bounds", "bands"), [
    ([10, 100], {"1-9": 2, "10-99": 2, "100+": 1}),
    ([2, 3, 1000], {"1": 1, "2": 0, "3-999": 3, "1000+": 1})])
def test_bands(bounds: list[int], bands: dict[str, int]) -> None:
    found = WordFrequencies()
    found.add({"a": 1, "b": 9, "c": 10, "d": 99, "e": 5000})
    assert found.bands(bounds) == bands
