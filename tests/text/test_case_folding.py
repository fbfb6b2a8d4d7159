"""Folding with the table, compared with the normalizers."""

# ruff: noqa: RUF001
from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tokenizers import normalizers

from bmtools.text.case_folding import CASELESS, EXACT, Folding, as_string

BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
        "strip_accents": None, "lowercase": True}
CASED = {**BERT, "lowercase": False}
KEPT = {**BERT, "strip_accents": False}
NFKC = {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}
NFC = {"type": "NFC"}
TEXTS = (
    "La mobilita\u0300 è ridotta, perche\u0301 l'artrosi; più mobilità.",
    "Größe GROẞE İstanbul ILIK ısı", "ΟΔΟΣ οδός ο\u0301δος ΆΛΦΑ",
    "Лечение ёлки е\u0308лка ЙОД и\u0306од",
    "ﬁbrosis ½ mg™ … 10²", "肝がんか\u3099 ｶﾞﾝ リンパ腫", "a\u00adb\u200bc\td\u00a0e\x07f\n g",
    "한글 \u1112\u1161\u11ab 한", "नि\u093cदान ক\u09cb ক\u09c7\u09be",
    "Q\u0323\u0307 Q\u0307\u0323",
    "\u0301alone at the start", "📈 ok 👩\u200d⚕\ufe0f")


def reference(rule: dict[str, Any], text: str) -> str:
    """Fold the complete text with the library, without the spaces that it puts around Chinese."""
    found = _library(rule).normalize_str(text)
    return "".join(" " if one.isspace() else one for one in found)


def _library(rule: dict[str, Any]) -> Any:
    if rule["type"] == "Sequence":
        return normalizers.Sequence([_library(step) for step in rule["normalizers"]])
    options = {name: value for name, value in rule.items() if name != "type"}
    return getattr(normalizers, rule["type"])(**options)


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
@pytest.mark.parametrize("rule", [BERT, CASED, KEPT, NFKC, NFC],
                         ids=["bert", "cased", "accents", "nfkc", "nfc"])
def test_table_equals_the_normalizer(rule: dict[str, Any], text: str) -> None:
    found = as_string(Folding(json.dumps(rule)).fold(text).codes)
    expected = reference(rule, text)
    if rule["type"] == "BertNormalizer":  # adds spaces around Chinese characters
        found, expected = found.replace(" ", ""), expected.replace(" ", "")
    assert found == expected


@pytest.mark.parametrize(("one", "other"), [
    ("straße", "STRASSE"), ("ΟΔΟΣ", "οδος"), ("İ", "i\u0307"), ("Perche\u0301", "PERCHÉ"),
    ("Ёлка", "е\u0308лка"), ("lym\u00adphoma", "Lymphoma"), ("ﬁbrosis", "FIBROSIS")])
def test_caseless_follows_unicode_case_folding(one: str, other: str) -> None:
    folding = Folding(CASELESS)
    assert folding.string(one) == folding.string(other)
    assert Folding(EXACT).string(one) != Folding(EXACT).string(other)


def test_exact_unites_canonically_equal_text() -> None:
    folding = Folding(EXACT)
    assert folding.string("perche\u0301") == folding.string("perché") == "perché"
    assert folding.string("Perché") != folding.string("perché")
    assert folding.string("myocardial \n infarction") == "myocardial infarction"


@pytest.mark.parametrize("rule", [EXACT, CASELESS, "null", json.dumps(BERT)])
def test_positions_refer_to_the_original_text(rule: str) -> None:
    text = "x e\u0301\u0323 ß \u00ad y ﬁ İ z"
    folded = Folding(rule).fold(text)
    places = folded.positions(np.arange(len(folded.codes) + 1))
    assert places[0] == 0 and places[-1] == len(text)
    assert (np.diff(places) >= 0).all()
    for letter in "xyz":
        number = as_string(folded.codes).index(letter)
        assert text[places[number]] == letter
