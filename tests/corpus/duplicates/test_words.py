"""Folding and hashes of words and runs, compared with plain Python."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from bmtools.corpus.duplicates.words import END, Words, batches, fold_texts
from bmtools.corpus.overlap import folded

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
def test_words_equal_plain_python(text: str, expected: list[str]) -> None:
    assert split(words_of([text, text])) == [expected, expected]


def test_equal_words_have_equal_hashes() -> None:
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
def test_runs_do_not_cross_texts(size: int) -> None:
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


def test_long_words_with_common_beginnings_differ() -> None:
    words = words_of(["x" * size for size in range(1, 60)] + ["12345678", "123456780", "12345678a"])
    assert len(np.unique(words.hashes)) == len(words.hashes) == 62


def expected(texts: list[str]) -> bytes:
    return END.join([*(folded(text).encode() for text in texts), b""])


@pytest.mark.parametrize("texts", [
    [], [""], ["", ""], [" \n "], ["Asma\r\n  grave "], ["Él\u00a0  à", " x"], ["\u2003\u3000a"],
    ["Straße ﬁne", "İstanbul"], ["ΣΊΣΥΦΟΣ ς", "Жар"], ["\U00010400 x  Y"], ["a\x1c\x1fb\x0bC\x85"],
    ["\ufb03 \u00df", "\u0130\u0130"]])
def test_unusual_characters_are_folded(texts: list[str]) -> None:
    assert fold_texts(texts) == expected(texts)


def test_all_characters_are_folded() -> None:
    every = [chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000]
    for first in range(0, len(every), 4000):
        texts = ["".join(every[start:start + 8]) for start in range(first, first + 4000, 8)]
        assert fold_texts(texts) == expected(texts)


def test_random_white_space_is_folded() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        texts = ["".join(rng.choices(" aB\u00a0\n\u2003ﬁÀ", k=rng.randrange(7)))
                 for _ in range(rng.randrange(4))]
        assert fold_texts(texts) == expected(texts), texts


def test_batches_contain_all_texts_in_order() -> None:
    texts = ["x" * size for size in (0, 70_000, 70_000, 0, 5, 200_000, 1)]
    found = list(batches(texts))
    assert found == [(0, 2), (2, 5), (5, 6), (6, 7)]
    assert list(batches([])) == []
