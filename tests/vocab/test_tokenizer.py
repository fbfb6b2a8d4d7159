"""Tokenizer directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, BertTokenizer

from bmtools.errors import CheckpointError
from bmtools.vocab.tokenizer import (
    fingerprint,
    is_uncased,
    load_tokenizer,
    model_name,
    save_tokenizer,
    strips_accents,
    token_texts,
)
from bmtools.vocab.vocabulary import load_vocabulary

CASED = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Cuore", "cuore", "##re", "è"]


def blank(**settings: bool) -> BertTokenizer:
    return BertTokenizer(vocab={token: n for n, token in enumerate(CASED)}, **settings)


@pytest.mark.parametrize("lower", [True, False])
def test_casing_is_written_and_comes_back(tmp_path: Path, lower: bool) -> None:
    tokenizer = blank(do_lower_case=lower, strip_accents=False)
    save_tokenizer(tokenizer, tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["do_lower_case"] is lower
    again = load_tokenizer(tmp_path)
    assert is_uncased(again) is lower
    assert fingerprint(again) == fingerprint(tokenizer)
    assert AutoTokenizer.from_pretrained(tmp_path).tokenize("Cuore è") == [
        "cuore" if lower else "Cuore", "è"]
    assert (tmp_path / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1] == CASED


@pytest.mark.parametrize(("settings", "strips"), [
    ({"do_lower_case": True, "strip_accents": None}, True), ({"do_lower_case": False}, False),
    ({"do_lower_case": True, "strip_accents": False}, False),
    ({"do_lower_case": False, "strip_accents": True}, True)])
def test_what_becomes_of_accents(settings: dict[str, Any], strips: bool) -> None:
    assert strips_accents(blank(**settings)) is strips


def bert_directory(path: Path, vocabulary: list[str]) -> Path:
    path.joinpath("vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    path.joinpath("config.json").write_text('{"model_type": "bert"}')
    return path


def test_a_cased_vocabulary_alone_is_not_lower_cased_in_silence(tmp_path: Path) -> None:
    directory = bert_directory(tmp_path, CASED)
    with pytest.raises(CheckpointError, match="holds upper case \\('Cuore'\\)"):
        load_tokenizer(directory)
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert load_tokenizer(directory).tokenize("Cuore") == ["Cuore"]


def test_an_uncased_vocabulary_alone_is_fine(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(bert_directory(tmp_path, [t for t in CASED if t != "Cuore"]))
    assert tokenizer.tokenize("Cuore") == ["cuore"]


def test_contradicting_files_are_refused(tmp_path: Path) -> None:
    save_tokenizer(blank(do_lower_case=True), tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    content["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(content))
    assert AutoTokenizer.from_pretrained(tmp_path).tokenize("Cuore") == ["cuore"]  # no warning
    with pytest.raises(CheckpointError, match="do_lower_case true"):
        load_tokenizer(tmp_path)


def test_no_tokenizer_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such directory"):
        load_tokenizer(tmp_path / "absent")
    with pytest.raises(CheckpointError, match="no tokenizer could be loaded"):
        load_tokenizer(tmp_path)


def test_a_vocabulary_opens_by_directory_or_file(tmp_path: Path) -> None:
    save_tokenizer(blank(do_lower_case=False), tmp_path)
    for name in ("", "tokenizer.json", "vocab.txt"):
        vocabulary = load_vocabulary(tmp_path / name)
        assert vocabulary.backend.encode("Cuore cuore è", add_special_tokens=False).tokens \
            == ["Cuore", "cuore", "è"]
        assert vocabulary.casing == "cased"
        assert vocabulary.backend.get_vocab_size() == len(CASED)
        assert vocabulary.casing_assumed is (name == "vocab.txt")


def test_a_bare_uncased_vocabulary_folds_as_bert_does(tmp_path: Path) -> None:
    tokens = [*CASED[:5], "cuore", "e", "##re", "[unused1]"]
    path = tmp_path / "words.txt"
    path.write_text("\r\n".join(tokens), encoding="utf-8")
    vocabulary = load_vocabulary(path)
    assert (vocabulary.casing, vocabulary.casing_assumed) == ("uncased", True)
    judge = BertTokenizer(vocab={token: n for n, token in enumerate(tokens)}, do_lower_case=True)
    for text in ("Cuore È", "CUORE\u0301re", "[MASK] 東 cuore.", "x" * 101):
        assert vocabulary.backend.encode(text, add_special_tokens=False).ids \
            == judge(text, add_special_tokens=False)["input_ids"]


def test_the_odd_capital_does_not_make_a_vocabulary_cased(tmp_path: Path) -> None:
    """SciBERT's uncased one has `##TM` and Greek capitals."""
    tokens = [*CASED[:5], *(f"w{number}" for number in range(60)), "##TM", "Γ"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    assert load_vocabulary(path).uncased
    path.write_text("\n".join([*tokens, "Il", "Cuore"]) + "\n", encoding="utf-8")
    assert not load_vocabulary(path).uncased


def test_a_directory_with_tokens_alone_is_told_apart_from_a_checkpoint(tmp_path: Path) -> None:
    bert_directory(tmp_path, CASED)
    with pytest.raises(CheckpointError, match="holds upper case"):
        load_vocabulary(tmp_path)  # config.json: transformers would lower-case it
    (tmp_path / "config.json").unlink()
    vocabulary = load_vocabulary(tmp_path)
    assert (vocabulary.casing, vocabulary.casing_assumed) == ("cased", True)


@pytest.mark.parametrize(("name", "content", "message"), [
    ("absent", None, "no such file or directory, expected a tokenizer"),
    ("vocab.json", '{"a": 0}', "no tokenizer could be loaded .*expected a tokenizer.json"),
    ("tokenizer.json", "no json", "no tokenizer could be loaded"),
    ("notes.txt", "some text\n", "found no line \\[UNK\\], expected the vocab.txt"),
    ("vocab.txt", "", "found no line \\[UNK\\]"),
])
def test_what_is_no_vocabulary_is_one_clear_line(tmp_path: Path, name: str, content: str | None,
                                                 message: str) -> None:
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


def byte_level(tokens: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>"])
    return tokenizer


def test_one_spelling_for_all_kinds() -> None:
    bert = BertTokenizer(vocab={token: number for number, token in enumerate(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused7]", "lymph", "##oma", "è", "["])})
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁lymph", -1.0), ("oma", -1.0),
                                        ("▁è", -1.0), ("▁[", -1.0)], unk_id=0))
    unigram.add_special_tokens(["<unk>"])
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    expected = {" lymph", "oma", " è", " ["}
    assert set(token_texts(bert.backend_tokenizer).values()) == expected
    assert set(token_texts(byte_level(["<s>", "Ġlymph", "oma", "ĠÃ¨", "Ġ["])).values()) == expected
    assert set(token_texts(unigram).values()) == expected
    assert [model_name(one) for one in (bert.backend_tokenizer, byte_level(["a"]), unigram)] \
        == ["WordPiece", "byte-level BPE", "Unigram"]


def test_every_byte_comes_back() -> None:
    """The library's own decoder is the judge."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = byte_level(alphabet)
    found = token_texts(tokenizer)
    decoder = decoders.ByteLevel()
    for number, letter in enumerate(alphabet):
        theirs = decoder.decode([letter])
        assert found[number] == theirs or (theirs == "\ufffd" and found[number][:2] == "\\x")
    assert len(set(found.values())) == 256
