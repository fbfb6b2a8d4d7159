"""What becomes of characters."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from bmtools.vocab.normalization import GREEK
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.trainers import TRAINERS, trainer_for


def normal(text: str, tokenizer_type: str = "bpe", **choices: Any) -> str:
    step = trainer_for(VocabularyConfig(tokenizer_type=tokenizer_type,
                                        **choices)).pipeline().normalizer
    return text if step is None else step.normalize_str(text)


@pytest.mark.parametrize("tokenizer_type", TRAINERS)
@pytest.mark.parametrize(("choices", "text", "expected"), [
    ({}, "perche\u0301 \ufb01bra", "perch\u00e9 \ufb01bra"),
    ({"unicode": "none"}, "perche\u0301", "perche\u0301"),
    ({"unicode": "nfkc"}, "\ufb01bra m\u00b2 \uff21", "fibra m2 A"),
    ({"uncased": True}, "Perch\u00c9", "perch\u00e9"),
    ({"strip_accents": True}, "Perch\u00e9", "Perche"),
    ({"uncased": True, "strip_accents": True}, "PERCH\u00c9", "perche"),
    ({"spell_greek": True}, "TNF-\u03b1, \u0394F508 \u03c2", "TNF-alpha, DeltaF508 sigma"),
    ({"spell_greek": True, "uncased": True}, "\u0394F508", "deltaf508"),
    ({"spell_greek": True}, "5 \u00b5g, 5 \u03bcM, \u03bc-opioid", "5 ug, 5 uM, mu-opioid"),
])
def test_choices(tokenizer_type: str, choices: dict[str, Any], text: str, expected: str) -> None:
    assert normal(text, tokenizer_type, **choices) == expected


def test_nothing_is_done_where_nothing_is_asked_for() -> None:
    assert trainer_for(VocabularyConfig(tokenizer_type="bpe",
                                        unicode="none")).pipeline().normalizer is None


def test_korean_is_put_together_again_where_accents_are_dropped() -> None:
    assert normal("\ud55c\uad6d", strip_accents=True) == "\ud55c\uad6d"


def test_unigram_knows_only_plain_spaces() -> None:
    assert normal("il\tcuore \n\u00a0 batte\n", "unigram") == "il cuore batte"


def test_every_letter_of_the_alphabet_has_its_unicode_name() -> None:
    assert len(GREEK) == 24 * 2 + 1 + 5
    for letter, name in GREEK.items():
        words = unicodedata.name(letter).replace("LAMDA", "LAMBDA").split()
        assert name.upper() in words
        assert name[0].isupper() == ("CAPITAL" in words)
