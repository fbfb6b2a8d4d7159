"""Files of translation models: what they are, and what their cards say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bmtools.errors import CheckpointError
from bmtools.io.provenance.manifest import card_licence
from bmtools.records import Record
from bmtools.translation import translate
from bmtools.translation.engines.model_files import (
    check_translation_model,
    hash_model,
)
from bmtools.translation.settings import ModelConfig


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
def test_licences_are_those_of_the_model_card(
        tmp_path: Path, card: str | None, licence: str) -> None:
    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert card_licence(tmp_path) == licence


def test_the_model_s_licence_goes_into_the_records(
        marian: Path, converted: Callable[[Path], Path], pairs: dict[str, str]) -> None:
    card = marian / "README.md"
    card.write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    records = [Record(id="a", text="Fever is common.", licence="CC-BY-4.0"),
               Record(id="b", text="Fever is common.")]
    try:
        for engine, model in (("transformers", ModelConfig(marian)),
                              ("ctranslate2", ModelConfig(converted(marian), marian))):
            found = list(translate(records, "en", "it", engine, model=model))
            assert [one["licence"] for one in found] == [
                "CC-BY-NC-4.0", "unknown AND CC-BY-NC-4.0"]
            [named, _] = translate(records, "en", "it", engine, model=model,
                                   model_licence="CC-BY-NC-3.0")
            assert named["licence"] == "CC-BY-4.0 AND CC-BY-NC-3.0"
    finally:
        card.unlink()


def test_a_directory_without_a_model_has_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config.json.*expected config.json and model"):
        check_translation_model(tmp_path)
    with pytest.raises(CheckpointError, match=r"hf download Helsinki-NLP/opus --local-dir opus"):
        check_translation_model(Path("Helsinki-NLP/opus"))


def test_a_hash_is_that_of_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    first = hash_model(tmp_path, None)
    (tmp_path / "notes.md").write_text("notes")
    assert hash_model(tmp_path, None) == first
    (tmp_path / "model.bin").write_text("weights")
    second = hash_model(tmp_path, None)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/vocab.json").write_text("{}")
    assert len({first, second, hash_model(tmp_path, tmp_path / "other")}) == 3
