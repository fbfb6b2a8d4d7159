"""Settings that cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from bmtools.vocab.settings import SizeSearchConfig, VocabularyConfig


@pytest.mark.parametrize(("given", "message"), [
    ({"size": 99}, "--size: found 99, expected at least 100"),
    ({"min_frequency": 0}, "--min-frequency: found 0"),
    ({"kind": "words"}, "--kind: found words, expected wordpiece, bpe, unigram"),
    ({"layout": "gpt"}, "--layout: found gpt, expected bert, roberta, modernbert"),
    ({"unicode": "nfd"}, "--unicode: found nfd, expected nfc, nfkc, none"),
    ({"sample_megabytes": -1}, "--sample-megabytes: found -1"),
])
def test_wrong_values_name_their_option(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VocabularyConfig(**given)


@pytest.mark.parametrize("given", ["", "1000,2000", "a,b,c", "99,1000,2000", "1000,1000,2000"])
def test_three_candidates_are_needed(given: str) -> None:
    with pytest.raises(ValueError, match="--candidates: found"):
        SizeSearchConfig(candidates=given)


def test_candidates_rise() -> None:
    assert SizeSearchConfig(candidates="300, 100,200").sizes() == [100, 200, 300]


def test_each_kind_has_its_layout_unless_told() -> None:
    assert VocabularyConfig().frame == "bert"
    assert VocabularyConfig(kind="bpe").frame == VocabularyConfig(kind="unigram").frame \
        == "roberta"
    assert VocabularyConfig(kind="bpe", layout="modernbert").frame == "modernbert"
