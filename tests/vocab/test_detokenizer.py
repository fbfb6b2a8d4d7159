"""Texts rebuilt from ids: what each vocabulary gives back, and the characters of each token."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from bmtools.vocab.detokenizer import Detokenizer
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import token_texts
from bmtools.vocab.trainers import train_tokenizer

TEXTS = ["Un β-bloccante (2.5 mg) riduce l'ipertensione, non l'età: 50% dei pazienti.",
         "Perché il paziente\nha febbre? Sì; Mo β e IL-6 [alti] aumentano/calano.",
         "心臓 𠀀 è la diagnosi: naïve, Sjögren."]
RARE = "Il paziente ha ☃ e 🫀."


def learned(**settings: Any) -> Any:
    return train_tokenizer(TEXTS * 3, VocabularyConfig(size=320, allow_fewer=True, **settings))


def rebuilt(tokenizer: Any, text: str, unknown: str = "[?]") -> tuple[str, list[str]]:
    """The text, and that of each token, without the frame."""
    ids = np.array([0, *tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids, 0])
    frame = np.zeros(len(ids), dtype=bool)
    frame[[0, -1]] = True
    found, spans = Detokenizer(tokenizer.backend_tokenizer, unknown)(ids, frame)
    assert spans[0].tolist() == [0, 1] and spans[-1].tolist() == [len(found) - 1, len(found)]
    assert (found[0], found[-1]) == ("\0", "\0")
    return found[1:-1], [found[begin:end] for begin, end in spans[1:-1]]


@pytest.mark.parametrize(("settings", "expected"), [
    ({"tokenizer_type": "bpe"}, str),
    ({"tokenizer_type": "unigram"}, lambda text: " " + text.replace("\n", " ")),
    ({}, lambda text: " " + text.replace("\n", " ")),
    ({"uncased": True, "strip_accents": True},
     lambda text: " " + text.replace("\n", " ").lower().translate(
         {ord("à"): "a", ord("é"): "e", ord("ì"): "i", ord("è"): "e", ord("ï"): "i",
          ord("ö"): "o"})),
], ids=["bpe", "unigram", "wordpiece", "wordpiece, uncased"])
@pytest.mark.parametrize("text", TEXTS[:2])
def test_what_a_vocabulary_keeps_comes_back(settings: dict[str, Any], expected: Any,
                                            text: str) -> None:
    found, pieces = rebuilt(learned(**settings), text)
    assert found == expected(text)
    assert re.sub(r"([^ -~])\1", r"\1", "".join(pieces)) == found  # a letter in two parts


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_each_token_has_its_own_characters(kind: Any) -> None:
    tokenizer = learned(tokenizer_type=kind)
    texts = token_texts(tokenizer.backend_tokenizer)
    ids = tokenizer.backend_tokenizer.encode(TEXTS[0], add_special_tokens=False).ids
    for number, piece in zip(ids, rebuilt(tokenizer, TEXTS[0])[1], strict=True):
        assert piece in (texts[number], texts[number].strip()) or "\\x" in texts[number]


def test_characters_in_parts_belong_to_each_part() -> None:
    tokenizer = learned(tokenizer_type="bpe")
    found, pieces = rebuilt(tokenizer, RARE)
    assert found == RARE
    assert (pieces.count("☃"), pieces.count("🫀")) == (3, 4)


def test_bytes_that_are_no_character_are_one_each() -> None:
    tokenizer = learned(tokenizer_type="bpe")
    broken = tokenizer.backend_tokenizer.encode("☃", add_special_tokens=False).ids[:1]
    ids = np.array([0, *broken, *broken, 0])
    text, spans = Detokenizer(tokenizer.backend_tokenizer, "?")(
        ids, np.array([True, False, False, True]))
    assert text == "\0\ufffd\ufffd\0"
    assert spans.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]


def test_unknown_words_become_the_other_models_unknown_token() -> None:
    found, pieces = rebuilt(learned(), RARE)
    assert found == " Il paziente ha [?] e [?]."
    assert pieces.count(" [?]") == 2
