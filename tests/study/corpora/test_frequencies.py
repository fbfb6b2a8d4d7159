"""Frequencies of words against a counter, whatever memory holds."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from bmtools.study.corpora import frequencies
from bmtools.study.corpora.frequencies import (
    WordFrequencies,
    band_names,
    compare_words,
    count_bands,
)


@pytest.mark.parametrize("most_words", [1, 5, 1_000])
def test_counts_are_exact(most_words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequencies, "_MOST_RUNS", 3)
    draw = random.Random(0)
    batches = [Counter(draw.choices(["è", "Zug", "a", "\U0001d538", "zz", "b1", "ﬁ"], k=4))
               for _ in range(30)]
    found = WordFrequencies(most_words)
    for batch in batches:
        found.add(batch)
    expected = sorted(sum(batches, Counter()).items())
    assert list(found.word_counts()) == expected
    found.put_aside()
    assert list(found.word_counts()) == list(found.word_counts()) == expected


def test_bands() -> None:
    assert band_names([10, 100, 1000]) == ["1-9", "10-99", "100-999", "1000+"]
    assert band_names([2, 3]) == ["1", "2", "3+"]
    assert count_bands([("a", 1), ("b", 9), ("c", 10), ("d", 99), ("e", 5000)], [10, 100]) == {
        "1-9": 2, "10-99": 2, "100+": 1}


def test_words_of_two_corpora() -> None:
    one = [("a", 1), ("b", 20), ("d", 3), ("e", 2)]
    other = [("a", 30), ("b", 40), ("c", 1), ("e", 1)]
    assert compare_words(one, other, [10]) == {"shared_words": 3, "bands": {
        "1-9": {"words": 3, "shared": 2, "other_words": 2, "other_shared": 1},
        "10+": {"words": 1, "shared": 1, "other_words": 2, "other_shared": 2}}}
