"""Hashes of words and of runs of words, against regular expressions."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from bmtools.corpus.dedup.folding import fold_texts
from bmtools.corpus.dedup.words import Words

ALPHABET = "ab .,-\u2019«é\n"


def words_of(texts: list[str]) -> Words:
    return Words.of(fold_texts(texts))


def split(words: Words) -> list[list[str]]:
    return [[words.text(number, number) for number in range(first, end)]
            for first, end in zip(words.offsets, words.offsets[1:], strict=False)]


@pytest.mark.parametrize(("text", "expected"), [
    ("", []), ("...", []), ("dell\u2019asma, dell'ASMA", ["dell", "asma", "dell", "asma"]),
    ("IL-2 (5 µg)…«x»", ["il", "2", "5", "μg", "x"]), ("5±2 °C", ["5", "2", "c"]),
    ("喘息は病気 x", ["喘", "息", "は", "病", "気", "x"]), ("โรค", ["โ", "ร", "ค"]),
    ("한국어 말", ["한국어", "말"])])
def test_words(text: str, expected: list[str]) -> None:
    assert split(words_of([text, text])) == [expected, expected]


def test_hashes_are_those_of_the_words() -> None:
    rng = random.Random(0)
    texts = ["".join(rng.choices(ALPHABET, k=rng.randrange(60))) for _ in range(500)]
    words = words_of(texts)
    pattern = re.compile(r"[abé]+")
    assert split(words) == [pattern.findall(text) for text in texts]
    seen: dict[str, int] = {}
    for number, value in enumerate(words.hashes.tolist()):
        assert seen.setdefault(words.text(number, number), value) == value
    assert len(set(seen.values())) == len(seen) > 100


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_runs_are_those_of_each_text(size: int) -> None:
    rng = random.Random(size)
    texts = [" ".join(rng.choices("abcdefghijklmnopq", k=rng.randrange(9))) for _ in range(300)]
    hashes, offsets = words_of(texts).ngrams(size)
    seen: dict[tuple[str, ...], int] = {}
    for text, first, end in zip(texts, offsets, offsets[1:], strict=False):
        own = text.split()
        runs = [tuple(own[start:start + size])
                for start in range(max(1, len(own) - size + 1))] if own else []
        assert len(runs) == end - first
        for run, value in zip(runs, hashes[first:end].tolist(), strict=True):
            assert seen.setdefault(run, value) == value
    assert len(set(seen.values())) == len(seen)


def test_long_words_and_common_beginnings_differ() -> None:
    words = words_of(["x" * size for size in range(1, 60)] + ["12345678", "123456780", "12345678a"])
    assert len(np.unique(words.hashes)) == len(words.hashes) == 62
