"""Statements of people in a TOML file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmtools.errors import DataError
from bmtools.study.cards.about import About, Dataset, read_about

TOML = """
name = "Our tagger"
description = "Finds diseases."
intended_use = "Entities in discharge letters."
personal_data = false
[base_models]
first = "dbmdz/bert-base-italian-uncased"
[datasets."train.jsonl"]
hub = "a/b"
licence = "CC-BY-4.0"
"""


def test_statements_are_read(tmp_path: Path) -> None:
    (tmp_path / "about.toml").write_text(TOML)
    assert read_about(tmp_path / "about.toml") == About(
        name="Our tagger", description="Finds diseases.",
        intended_use="Entities in discharge letters.", personal_data="no",
        base_models={"first": "dbmdz/bert-base-italian-uncased"},
        datasets={"train.jsonl": Dataset(hub="a/b", licence="CC-BY-4.0")})
    assert read_about(None) == About()


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.toml", 'intended_uses = "x"', "unknown key 'intended_uses', did you mean 'intended_use'"),
    ("a.toml", "intended_use = 3", "Expected `str`, got `int` - at `$.intended_use`"),
    ("a.toml", 'website = "example.org"', "website"),
    ("a.toml", 'repository = "https://huggingface.co/a/b"', "repository"),
    ("a.toml", '[datasets.a]\nlicense = "MIT"', "license"),
    ("a.toml", "intended_use = ", "a.toml")])
def test_wrong_files_are_errors(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message.replace("$", r"\$")) as raised:
        read_about(tmp_path / name)
    assert str(raised.value).startswith(str(tmp_path / name))
    assert "\n" not in str(raised.value)
