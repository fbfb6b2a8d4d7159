"""Target words: different spellings with the same tokens."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers.models import Unigram
from toy_tokenizers import train_tokenizer

from bmtools.records import MASK
from bmtools.scoring.mrr_targets import TargetLookup
from bmtools.vocab.settings import VocabularyConfig

TEXTS = ["La città è lontana.", "Il caffè è caldo, perché è buono.", "Perché la città tace?"]
FAMILIES: dict[str, dict[str, Any]] = {
    "WordPiece without accents": {"uncased": True, "strip_accents": True, "min_frequency": 1},
    "byte-level BPE, NFC": {"tokenizer_type": "bpe", "unicode": "nfc", "min_frequency": 1},
    "Unigram, NFKC": {"tokenizer_type": "unigram", "unicode": "nfkc"}}
SPELLINGS: dict[str, Callable[[str], str]] = {
    "composed": lambda text: unicodedata.normalize("NFC", text),
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "with a zero-width space behind it": lambda text: f"{text}\u200b",
    "with a byte order mark before it": lambda text: f"\ufeff{text}"}


def learn(texts: list[str], family: str) -> Any:
    return train_tokenizer(texts, VocabularyConfig(size=2000, allow_fewer=True, **FAMILIES[family]))


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Any:
    """A tokenizer whose vocabulary contains complete words."""
    tokenizer = learn(TEXTS * 20, request.param)
    if request.param.startswith("Unigram"):  # too little text to learn words from
        words = {f"▁{word}" for text in TEXTS for word in re.findall(r"\w+", text)}
        letters = set("".join(TEXTS)) | {"▁"}
        tokenizer.backend_tokenizer.model = Unigram(
            [("<unk>", 0.0), *((word, -2.0) for word in sorted(words)),
             *((letter, -9.0) for letter in sorted(letters))], unk_id=0)
    return tokenizer


@pytest.mark.parametrize("published", [False, True], ids=["exact", "as published"])
def test_equal_looking_spellings_are_one_target(family: Any, published: bool) -> None:
    lookup = TargetLookup(family, ignore_case=False, published=published)
    for text, target in (("La [MASK] è lontana.", "città"), ("Il [MASK] è caldo.", "caffè"),
                         ("Il caffè è caldo, [MASK] è buono.", "perché")):
        composed, *others = (lookup.find(text, respell(target)) for respell in SPELLINGS.values())
        assert len(composed.token_ids) == 1
        assert [one.token_ids for one in others] == [composed.token_ids] * len(others)
        assert [one.correct_ids for one in others] == [composed.correct_ids] * len(others)
        respelled = lookup.find(SPELLINGS["decomposed"](text), SPELLINGS["decomposed"](target))
        assert respelled.correct_ids == composed.correct_ids
        assert respelled.masked.input_ids.tolist() == composed.masked.input_ids.tolist()


@pytest.mark.data
@pytest.mark.parametrize("name", FAMILIES)
def test_decomposed_spelling_keeps_the_single_tokens_of_the_published_set(data: Path,
                                                                          name: str) -> None:
    from bmtools.corpus.formats.sets.curated import curated_records

    records = list(curated_records([str(data / "it/mrr/mlm_data.json")]))
    sentences = {one["text"].replace(MASK, one["target"]) for one in records}
    assert len(records) == 897
    lookup = TargetLookup(learn(sorted(sentences), name), ignore_case=False)

    def single_tokens(respell: Callable[[str], str]) -> int:
        return sum(bool(lookup.find(respell(one["text"]), respell(one["target"])).correct_ids)
                   for one in records)

    found = single_tokens(SPELLINGS["composed"])
    assert found > 200
    assert single_tokens(SPELLINGS["decomposed"]) == found
