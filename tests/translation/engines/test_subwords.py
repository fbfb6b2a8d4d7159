"""Language marks, where each family of models wants them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from bmtools.errors import CheckpointError
from bmtools.translation.engines.subwords import Subwords
from bmtools.translation.settings import ModelConfig


def test_tokens_are_those_of_the_model_s_own_tokenizer(
        model: Path, pairs: dict[str, str], recwarn: pytest.WarningsRecorder) -> None:
    theirs = AutoTokenizer.from_pretrained(model, local_files_only=True)
    ours = Subwords(ModelConfig(model), "en", "it")
    mark = "<2it> " if model.name.startswith("madlad") else ""
    for sentence, translation in pairs.items():
        ids = theirs(mark + sentence).input_ids
        assert ours.encode(sentence) == theirs.convert_ids_to_tokens(ids)
        target = theirs.convert_ids_to_tokens(theirs(text_target=translation).input_ids)
        assert ours.decode([theirs.pad_token, *target]) == translation
        marked = [ours.target_token] if ours.target_token else []
        assert ours.encode_target(translation) == [
            *marked, *(one for one in target if one not in marked)]


@pytest.mark.parametrize(("family", "prefix", "mark"), [
    ("marian", [], None), ("m2m", ["__en__"], "__it__"), ("nllb", ["eng_Latn"], "ita_Latn")])
def test_marks_are_found_by_the_code_of_the_language(
        family: str, prefix: list[str], mark: str | None,
        request: pytest.FixtureRequest) -> None:
    subwords = Subwords(ModelConfig(request.getfixturevalue(family)), "en", "it")
    assert (subwords.prefix, subwords.target_token) == (prefix, mark)


def test_a_mark_can_be_named(nllb: Path) -> None:
    settings = ModelConfig(nllb, source_code="ita_Latn", target_code="cat_Latn")
    subwords = Subwords(settings, "en", "it")
    assert (subwords.prefix, subwords.target_token) == (["ita_Latn"], "cat_Latn")
    with pytest.raises(CheckpointError,
                       match=r"no language token for 'fra_Latn'.*target_code names one"):
        Subwords(ModelConfig(nllb, target_code="fra_Latn"), "en", "it")
    with pytest.raises(CheckpointError, match=r"no language token for 'fr'.*cat_Latn"):
        Subwords(ModelConfig(nllb), "en", "fr")


def test_a_pair_of_languages_takes_no_codes(marian: Path) -> None:
    with pytest.raises(CheckpointError, match="leave out source_code"):
        Subwords(ModelConfig(marian, source_code="en"), "en", "it")


def test_marian_with_several_targets_names_its_target_first(marian: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(marian, tmp_path / "model")
    vocabulary = json.loads((directory / "vocab.json").read_text())
    vocabulary[">>ita<<"] = len(vocabulary)
    (directory / "vocab.json").write_text(json.dumps(vocabulary))
    subwords = Subwords(ModelConfig(directory), "en", "it")
    assert (subwords.prefix, subwords.target_token) == ([">>ita<<"], None)
    assert subwords.encode("No patient died.")[0] == ">>ita<<"
    with pytest.raises(CheckpointError, match=r"only some like >>ita<<"):
        Subwords(ModelConfig(directory), "en", "es")


def test_an_empty_directory_holds_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="found no tokenizer"):
        Subwords(ModelConfig(tmp_path), "en", "it")
