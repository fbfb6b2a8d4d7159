"""Tokenizers read from files, without transformers if the result is the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toy_models import SENTENCES
from toy_tokenizers import train_tokenizer
from transformers import AutoTokenizer, BertTokenizer

from bmtools.errors import CheckpointError
from bmtools.io.provenance.manifest import Manifest
from bmtools.vocab.loading import load_tokenizer, load_vocabulary, read_inference_tokenizer
from bmtools.vocab.settings import SpecialTokenStyle, TokenizerType, VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint, save_tokenizer

CASED = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Cuore", "cuore", "##re", "è"]
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def blank(**settings: bool) -> BertTokenizer:
    return BertTokenizer(vocab={token: n for n, token in enumerate(CASED)}, **settings)


@pytest.mark.parametrize(("kind", "style"), [
    ("wordpiece", "bert"), ("bpe", "roberta"), ("unigram", "roberta"), ("bpe", "modernbert")])
def test_tokenizer_equals_the_one_of_transformers(tmp_path: Path, kind: TokenizerType,
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


def test_transformers_reads_files_without_a_recorded_fingerprint(saved: Path) -> None:
    """transformers' BertTokenizer builds its own pipeline and ignores tokenizer.json."""
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


def test_contradictory_casing_is_an_error(saved: Path) -> None:
    change(saved / "tokenizer_config.json", do_lower_case=True)
    with pytest.raises(CheckpointError, match="has do_lower_case true"):
        read_inference_tokenizer(saved)


def bert_directory(path: Path, vocabulary: list[str]) -> Path:
    path.joinpath("vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    path.joinpath("config.json").write_text('{"model_type": "bert"}')
    return path


def test_a_cased_vocab_file_without_config_is_an_error(tmp_path: Path) -> None:
    directory = bert_directory(tmp_path, CASED)
    with pytest.raises(CheckpointError, match="contains upper case \\('Cuore'\\)"):
        load_tokenizer(directory)
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert load_tokenizer(directory).tokenize("Cuore") == ["Cuore"]


def test_contradictory_files_are_an_error(tmp_path: Path) -> None:
    save_tokenizer(blank(do_lower_case=True), tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    content["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(content))
    assert AutoTokenizer.from_pretrained(tmp_path).tokenize("Cuore") == ["cuore"]  # no warning
    with pytest.raises(CheckpointError, match="do_lower_case true"):
        load_tokenizer(tmp_path)


def test_an_empty_unknown_token_is_an_error(tmp_path: Path) -> None:
    save_tokenizer(blank(do_lower_case=True), tmp_path)
    change(tmp_path / "tokenizer_config.json", unk_token="", tokenizer_class="TokenizersBackend")
    with pytest.raises(CheckpointError, match=r"could be loaded \(unk_token is empty\)"):
        load_tokenizer(tmp_path)


def test_a_vocabulary_is_loaded_from_a_directory_or_file(tmp_path: Path) -> None:
    save_tokenizer(blank(do_lower_case=False), tmp_path)
    for name in ("", "tokenizer.json", "vocab.txt"):
        vocabulary = load_vocabulary(tmp_path / name)
        assert vocabulary.backend.encode("Cuore cuore è", add_special_tokens=False).tokens \
            == ["Cuore", "cuore", "è"]
        assert vocabulary.casing == "cased"
        assert vocabulary.backend.get_vocab_size() == len(CASED)
        assert vocabulary.casing_assumed is (name == "vocab.txt")


@pytest.mark.parametrize(("name", "content", "message"), [
    ("absent", None, "no such file or directory, expected a tokenizer"),
    ("vocab.json", '{"a": 0}', "no tokenizer could be loaded .*expected a tokenizer.json"),
    ("tokenizer.json", "no json", "no tokenizer could be loaded"),
    ("notes.txt", "some text\n", "found no line \\[UNK\\], expected the vocab.txt"),
    ("vocab.txt", "", "found no line \\[UNK\\]"),
])
def test_files_without_a_vocabulary_are_a_one_line_error(tmp_path: Path, name: str,
                                                         content: str | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(CheckpointError, match=f"{name}: {message}") as found:
        load_vocabulary(path)
    assert "\n" not in str(found.value)


@pytest.mark.data
@pytest.mark.parametrize(("name", "size"), [
    ("bert-base-uncased", 30_522), ("scibert-scivocab-uncased", 31_089),
    ("covid-electra-50k-uncased", 50_000)])
def test_the_real_vocabularies_are_uncased(data: Path, name: str, size: int) -> None:
    vocabulary = load_vocabulary(data / "vocab" / f"{name}.txt")
    found = (vocabulary.backend.get_vocab_size(), vocabulary.casing, vocabulary.casing_assumed)
    assert found == (size, "uncased", True)


def test_an_uncased_vocab_file_folds_case_as_bert_does(tmp_path: Path) -> None:
    tokens = [*CASED[:5], "cuore", "e", "##re", "[unused1]"]
    path = tmp_path / "words.txt"
    path.write_text("\r\n".join(tokens), encoding="utf-8")
    vocabulary = load_vocabulary(path)
    assert (vocabulary.casing, vocabulary.casing_assumed) == ("uncased", True)
    judge = BertTokenizer(vocab={token: n for n, token in enumerate(tokens)}, do_lower_case=True)
    for text in ("Cuore È", "CUORE\u0301re", "[MASK] 東 cuore.", "x" * 101):
        assert vocabulary.backend.encode(text, add_special_tokens=False).ids \
            == judge(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
