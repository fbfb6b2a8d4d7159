"""Tokenizer directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, BertTokenizer

from bmtools.errors import CheckpointError
from bmtools.vocab.tokenizer import fingerprint, load_tokenizer, lower_cases, save_tokenizer

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
    assert lower_cases(again) is lower
    assert fingerprint(again) == fingerprint(tokenizer)
    assert AutoTokenizer.from_pretrained(tmp_path).tokenize("Cuore è") == [
        "cuore" if lower else "Cuore", "è"]
    assert (tmp_path / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1] == CASED


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
