"""From settings to an engine, and from the command line to a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bmtools.translation
from bmtools.records import Record
from bmtools.translation.settings import EngineConfig, ModelConfig
from bmtools.translation.translate import load_translator


def test_each_engine_opens(
        marian: Path, converted: Callable[[Path], Path], tmp_path: Path) -> None:
    memory = tmp_path / "m.tsv"
    memory.write_text("en\tit\nFever is common.\tLa febbre è comune.\n", encoding="utf-8")
    for settings in (
            EngineConfig("memory", "en", "it", memory=memory),
            EngineConfig("transformers", "en", "it", model=ModelConfig(marian)),
            EngineConfig("ctranslate2", "en", "it",
                         model=ModelConfig(converted(marian), tokenizer=marian))):
        translator = load_translator(settings)
        assert translator.name == settings.engine
        [translation] = translator.translate(["Fever is common."])
        assert translation.text == "La febbre è comune."


def test_records_are_translated_in_a_line(tmp_path: Path) -> None:
    memory = tmp_path / "m.tsv"
    memory.write_text("en\tit\nFever is common.\tLa febbre è comune.\n", encoding="utf-8")
    [record] = bmtools.translation.translate(
        [Record(id="1", text="Fever is common.")], "en", "it", "memory", memory=memory)
    assert (record["text"], record["lang"]) == ("La febbre è comune.", "it")


def test_faults_of_settings_are_told_together() -> None:
    with pytest.raises(ValueError, match=r"needs memory; via means nothing to") as error:
        EngineConfig("memory", "en", "it", via="en")
    assert "via en is one of the two languages" in str(error.value)


def test_a_model_translates_records_from_the_command_line(
        run: Callable[..., Any], write_lines: Callable[..., Path], nllb: Path,
        pairs: dict[str, str]) -> None:
    path = write_lines("notes.jsonl", {"id": "a", "text": "\n".join(pairs), "title": "Fever " * 70})
    command = ("translate", "--source-lang", "en", "--target-lang", "it", "--engine",
               "transformers",
               "--model", nllb, "--beam-size", 1)
    outcome = run(*command, path)
    assert outcome.code == 1
    assert "tokens, the model takes 64; or go on with --missing keep or drop" in outcome.err
    outcome = run(*command, "--missing", "drop", path)
    assert outcome.code == 0
    assert outcome.records[0]["text"] == "\n".join(pairs.values())
    assert outcome.records[0]["title"] == ""
    assert outcome.err.splitlines() == [
        "bmtools: 1 records, 7 sentences (7 different ones), 97 words",
        "bmtools: 1 sentences without a translation"]
