"""Vocabularies from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

import bmtools.vocab
from bmtools.errors import BmtoolsError, DataError
from bmtools.vocab.settings import VocabularyConfig

RECORDS = [{"id": "1", "title": "Cuore", "text": "il cuore batte e il sangue scorre"}] * 3


def test_a_vocabulary_is_built_compared_and_extended_in_a_line_each(tmp_path: Path) -> None:
    config = VocabularyConfig(size=100, uncased=True, allow_fewer=True)
    built = bmtools.vocab.build_vocab(RECORDS, config, tmp_path / "tok")
    assert built.results["vocab_size"] == len(built.tokenizer)
    assert AutoTokenizer.from_pretrained(tmp_path / "tok").get_vocab() == \
        built.tokenizer.get_vocab()
    manifest = json.loads((tmp_path / "tok/bmtools.json").read_text(encoding="utf-8"))
    assert (manifest["vocabulary"], manifest["results"]) == (built.fingerprint, built.results)
    more = VocabularyConfig(size=len(built.tokenizer) + 100, allow_fewer=True)
    larger = bmtools.vocab.build_vocab([{"text": "aritmia, aritmia ventricolare"}] * 9, more,
                                       extend=tmp_path / "tok")
    assert larger.results["kept_tokens"] == len(built.tokenizer) < len(larger.tokenizer)
    lines = list(bmtools.vocab.compare_vocab({"old": tmp_path / "tok"}, RECORDS))
    assert [line["scope"] for line in lines] == ["text"]
    with pytest.raises(BmtoolsError, match="or overwrite to replace it"):
        bmtools.vocab.build_vocab(RECORDS, config, tmp_path / "tok")
    with pytest.raises(DataError, match="size: found 5000, but the text supports"):
        bmtools.vocab.build_vocab(RECORDS, VocabularyConfig(size=5_000))
