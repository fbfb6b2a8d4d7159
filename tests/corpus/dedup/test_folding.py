"""Folding of many texts, against `overlap.folded` one by one."""

from __future__ import annotations

import random

import pytest

from bmtools.corpus.dedup.folding import END, batches, fold_texts
from bmtools.corpus.overlap import folded


def expected(texts: list[str]) -> bytes:
    return END.join([*(folded(text).encode() for text in texts), b""])


@pytest.mark.parametrize("texts", [
    [], [""], ["", ""], [" \n "], ["Asma\r\n  grave "], ["Él\u00a0  à", " x"], ["\u2003\u3000a"],
    ["Straße ﬁne", "İstanbul"], ["ΣΊΣΥΦΟΣ ς", "Жар"], ["\U00010400 x  Y"], ["a\x1c\x1fb\x0bC\x85"],
    ["\ufb03 \u00df", "\u0130\u0130"]])
def test_odd_characters(texts: list[str]) -> None:
    assert fold_texts(texts) == expected(texts)


def test_all_characters() -> None:
    every = [chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000]
    for first in range(0, len(every), 4000):
        texts = ["".join(every[start:start + 8]) for start in range(first, first + 4000, 8)]
        assert fold_texts(texts) == expected(texts)


def test_random_white_space() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        texts = ["".join(rng.choices(" aB\u00a0\n\u2003ﬁÀ", k=rng.randrange(7)))
                 for _ in range(rng.randrange(4))]
        assert fold_texts(texts) == expected(texts), texts


def test_batches_have_all_texts_in_order() -> None:
    texts = ["x" * size for size in (0, 70_000, 70_000, 0, 5, 200_000, 1)]
    found = list(batches(texts))
    assert found == [(0, 2), (2, 5), (5, 6), (6, 7)]
    assert list(batches([])) == []
