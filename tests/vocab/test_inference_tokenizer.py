"""Tokenizers read without transformers are those that transformers reads, or are left to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toy_models import SENTENCES

from bmtools.errors import CheckpointError
from bmtools.io.provenance.manifest import Manifest
from bmtools.vocab.inference_tokenizer import read_inference_tokenizer
from bmtools.vocab.settings import SpecialTokenStyle, TokenizerType, VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint, load_tokenizer, save_tokenizer
from bmtools.vocab.trainers import train_tokenizer

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


@pytest.mark.parametrize(("kind", "style"), [
    ("wordpiece", "bert"), ("bpe", "roberta"), ("unigram", "roberta"), ("bpe", "modernbert")])
def test_equals_that_of_transformers(tmp_path: Path, kind: TokenizerType,
                                     style: SpecialTokenStyle) -> None:
    made = train_tokenizer(SENTENCES, VocabularyConfig(
        size=330, allow_fewer=True, tokenizer_type=kind, special_tokens=style))
    save_tokenizer(made, tmp_path)
    Manifest("build-vocab", {}, fingerprint(made)).write(tmp_path)
    read, theirs = read_inference_tokenizer(tmp_path), load_tokenizer(tmp_path)
    assert read is not None
    ours, vocabulary = read
    assert type(ours).__name__ == "BackendTokenizer"
    assert vocabulary == fingerprint(ours) == fingerprint(theirs)
    assert ours.get_vocab() == theirs.get_vocab() and len(ours) == len(theirs)
    assert {*ours.all_special_ids} == {*theirs.all_special_ids}
    assert {*ours.all_special_tokens} == {*theirs.all_special_tokens}
    for role in ROLES:
        assert getattr(ours, f"{role}_token_id") == getattr(theirs, f"{role}_token_id")


@pytest.fixture
def saved(tmp_path: Path, tokenizer: Any) -> Path:
    save_tokenizer(tokenizer, tmp_path)
    Manifest("build-vocab", {}, fingerprint(tokenizer)).write(tmp_path)
    return tmp_path


def change(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | values))


def test_where_nothing_vouches_for_the_files_transformers_reads(saved: Path) -> None:
    """transformers' BertTokenizer makes its own pipeline, whatever tokenizer.json says."""
    (saved / "bmtools.json").unlink()
    change(saved / "tokenizer_config.json", tokenizer_class="BertTokenizer")
    assert read_inference_tokenizer(saved) is None
    change(saved / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    assert read_inference_tokenizer(saved) is not None


@pytest.mark.parametrize("fault", ["no role", "not special", "another vocabulary", "no file"])
def test_files_in_other_forms_are_left_to_transformers(saved: Path, fault: str) -> None:
    if fault == "no role":
        change(saved / "tokenizer_config.json", sep_token=None)
    elif fault == "not special":
        change(saved / "tokenizer_config.json", sep_token="cuore")
    elif fault == "another vocabulary":
        change(saved / "bmtools.json", vocabulary="0" * 64)
    else:
        (saved / "tokenizer.json").unlink()
    assert read_inference_tokenizer(saved) is None


def test_casing_that_contradicts_itself_is_refused(saved: Path) -> None:
    change(saved / "tokenizer_config.json", do_lower_case=True)
    with pytest.raises(CheckpointError, match="says do_lower_case true"):
        read_inference_tokenizer(saved)
