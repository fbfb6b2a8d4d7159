"""Files of translation models, their cards, and the language tokens of the families."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from bmtools.errors import CheckpointError
from bmtools.io.provenance.manifest import card_licence
from bmtools.translation.engines.model_files import (
    Subwords,
    check_translation_model,
    hash_model,
)
from bmtools.translation.settings import EngineConfig

config = partial(EngineConfig, "transformers", "en", "it")


@pytest.mark.parametrize(("card", "licence"), [
    ("---\nlanguage: en\nlicense: cc-by-nc-4.0\n---\n# NLLB", "cc-by-nc-4.0"),
    ("---\nlicense: \"apache-2.0\" # as OPUS\n---\n", "apache-2.0"),
    ("---\nlicense:\n- mit\ntags: [x]\n---\n", "mit"),
    ("---\nlicense:\n- mit # code\n- 'cc-by-nc-4.0'\ntags: [x]\n---\n", "mit AND cc-by-nc-4.0"),
    ("---\nlicense: [mit, other]\nlicense_name: gemma\n---\n", "mit AND gemma"),
    ("---\nlicense: CC BY-NC 4.0\ntags:\n- x\n---\n", "CC BY-NC 4.0"),
    ("---\nlicense: other\nlicense_name: gemma\n---\n", "gemma"),
    ("---\nlicense: other\n---\n", "other"), ("---\ntags: x\n---\nlicense: mit\n", ""),
    ("# No front matter\nlicense: mit", ""), ("", ""), (None, "")])
def test_licence_is_read_from_the_model_card(
        tmp_path: Path, card: str | None, licence: str) -> None:
    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert card_licence(tmp_path) == licence


def test_directory_without_a_model_is_reported_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config.json.*expected config.json and model"):
        check_translation_model(tmp_path, "ctranslate2")
    with pytest.raises(CheckpointError, match=r"hf download Helsinki-NLP/opus --local-dir opus"):
        check_translation_model(Path("Helsinki-NLP/opus"), "transformers")


def test_hash_covers_only_the_files_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    first = hash_model(tmp_path, None)
    (tmp_path / "notes.md").write_text("notes")
    assert hash_model(tmp_path, None) == first
    (tmp_path / "model.bin").write_text("weights")
    second = hash_model(tmp_path, None)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/vocab.json").write_text("{}")
    assert len({first, second, hash_model(tmp_path, tmp_path / "other")}) == 3


def test_tokens_equal_the_original_tokenizer(
        model: Path, pairs: dict[str, str], recwarn: pytest.WarningsRecorder) -> None:
    theirs = AutoTokenizer.from_pretrained(model, local_files_only=True)
    ours = Subwords(config(model=model))
    mark = "<2it> " if model.name.startswith("madlad") else ""
    for sentence, translation in pairs.items():
        ids = theirs(mark + sentence).input_ids
        assert ours.encode(sentence) == theirs.convert_ids_to_tokens(ids)
        target = theirs.convert_ids_to_tokens(theirs(text_target=translation).input_ids)
        assert ours.decode([theirs.pad_token, *target]) == translation


def test_special_tokens_in_a_sentence_are_text(model: Path) -> None:
    subwords = Subwords(config(model=model))
    special = {*subwords.tokenizer.all_special_tokens} - {subwords.tokenizer.unk_token}
    *tokens, last = subwords.encode("No </s> patient <pad> died.<s>")[len(subwords.prefix):]
    assert last == subwords.tokenizer.eos_token and not special & {*tokens}
    plain = subwords.encode("No patient died.")[len(subwords.prefix):-1]
    assert len(tokens) > len(plain)


@pytest.mark.parametrize("stated", [">>ita<<", "<2it>", "<2es>", ">>10 and <<"])
def test_language_tokens_in_a_sentence_are_text(model: Path, stated: str) -> None:
    subwords = Subwords(config(model=model))
    start = len(subwords.prefix)
    tokens = subwords.encode(f"{stated} The patient died.")[start:-1]
    plain = subwords.encode("The patient died.")[start:-1]
    assert stated not in tokens and tokens[-len(plain):] == plain
    assert len(tokens) > len(plain) + 1  # its letters, not one token


@pytest.mark.parametrize(("family", "prefix", "mark"), [
    ("marian", [], None), ("m2m", ["__en__"], "__it__"), ("nllb", ["eng_Latn"], "ita_Latn")])
def test_language_tokens_are_found_by_language_code(
        family: str, prefix: list[str], mark: str | None,
        request: pytest.FixtureRequest) -> None:
    subwords = Subwords(config(model=request.getfixturevalue(family)))
    assert (subwords.prefix, subwords.target_token) == (prefix, mark)


def test_language_without_a_token_is_an_error(nllb: Path) -> None:
    with pytest.raises(CheckpointError, match=r"language token for 'fr', only tokens .*cat_Latn"):
        Subwords(EngineConfig("transformers", "en", "fr", model=nllb))


def test_marian_with_several_targets_begins_with_the_target_token(
        marian: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(marian, tmp_path / "model")
    vocabulary = json.loads((directory / "vocab.json").read_text())
    vocabulary[">>ita<<"] = len(vocabulary)
    (directory / "vocab.json").write_text(json.dumps(vocabulary))
    subwords = Subwords(config(model=directory))
    assert (subwords.prefix, subwords.target_token) == ([">>ita<<"], None)
    assert subwords.encode("No patient died.")[0] == ">>ita<<"
    with pytest.raises(CheckpointError, match=r"only tokens such as >>ita<<"):
        Subwords(EngineConfig("transformers", "en", "es", model=directory))


def test_empty_directory_has_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="found no tokenizer"):
        Subwords(config(model=tmp_path))
