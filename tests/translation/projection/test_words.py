"""Words as projection sees them."""

from __future__ import annotations

import pytest

from bmtools.translation.projection.words import plain_words, spelling, word_spans


@pytest.mark.parametrize(("text", "words"), [
    ("L'atassia (A-T) \u00e8 C5D.",
     ["l", "atassia", "(", "a", "-", "t", ")", "\u00e8", "c5d", "."]),
    ("p<0,05 e 1.5 mg", ["p", "<", "0.05", "e", "1.5", "mg"]),
    ("\u80ba\u764c\uff0c \ud55c\uad6d", ["\u80ba", "\u764c", "\uff0c", "\ud55c\uad6d"]),
    ("", [])])
def test_words_of_a_sentence(text: str, words: list[str]) -> None:
    assert plain_words(text) == words
    assert "".join(text[start:end] for start, end in word_spans(text)) == "".join(text.split())


@pytest.mark.parametrize(("english", "italian"), [
    ("arrhythmias", "aritmie"), ("psychoses", "psicosi"), ("encephalopathy", "encefalopatia"),
    ("histamine", "istamina"), ("dexamethasone", "desametasone"), ("mutation", "mutazioni"),
    ("quality", "qualit\u00e0")])
def test_scholarly_words_are_spelled_alike(english: str, italian: str) -> None:
    common = 0
    for one, other in zip(spelling(english), spelling(italian), strict=False):
        common += one == other
    assert common >= len(spelling(english)) - 1


def test_nothing_is_spelled_as_nothing() -> None:
    assert spelling("h") == "h"
