"""What people state: TOML and Markdown alike, unknown keys refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmtools.errors import DataError
from bmtools.study.cards.about import About, Benchmark, Dataset, read_about

TABLES = """[base_models]
first = "dbmdz/bert-base-italian-uncased"
[datasets."train.jsonl"]
hub = "a/b"
licence = "CC-BY-4.0"
[benchmarks."test.jsonl"]
dataset = "a/b"
task = "ner"
"""
TOML = """
name = "Our tagger"
description = "Finds diseases."
intended_use = "Entities in discharge letters."
personal_data = false
""" + TABLES
MARKDOWN = """+++
personal_data = "no"
""" + TABLES + """+++
# Our tagger

Finds diseases.

## Intended use

Entities in discharge letters.
"""


def test_both_forms_state_the_same(tmp_path: Path) -> None:
    expected = About(
        name="Our tagger", description="Finds diseases.",
        intended_use="Entities in discharge letters.", personal_data="no",
        base_models={"first": "dbmdz/bert-base-italian-uncased"},
        datasets={"train.jsonl": Dataset(hub="a/b", licence="CC-BY-4.0")},
        benchmarks={"test.jsonl": Benchmark("a/b", "ner")})
    for name, text in (("about.toml", TOML), ("about.md", MARKDOWN)):
        (tmp_path / name).write_text(text)
        assert read_about(tmp_path / name) == expected
    assert read_about(None) == About()


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.toml", 'intended_uses = "x"', "unknown key 'intended_uses', did you mean 'intended_use'"),
    ("a.md", "# Our model\n\n## Risk\n\nnone", "unknown key 'risk', did you mean 'risks'"),
    ("a.toml", "intended_use = 3", "Expected `str`, got `int` - at `$.intended_use`"),
    ("a.toml", 'website = "example.org"', "website"),
    ("a.toml", 'repository = "https://huggingface.co/a/b"', "repository"),
    ("a.toml", '[datasets.a]\nlicense = "MIT"', "license"),
    ("a.toml", "intended_use = ", "a.toml")])
def test_wrong_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message.replace("$", r"\$")) as raised:
        read_about(tmp_path / name)
    assert str(raised.value).startswith(str(tmp_path / name))
    assert "\n" not in str(raised.value)
