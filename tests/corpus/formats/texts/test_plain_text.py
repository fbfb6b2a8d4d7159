"""Plain text as records."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from bmtools.corpus.formats.texts.plain_text import Unit, text_records

TEXT = "one\u2028still one\r\n\n \n  two\u00a0\nthree\x0bmore\r\n\r\nlast"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_bytes(TEXT.encode())
    return path


@pytest.mark.parametrize(("unit", "expected"), [
    ("line", {"notes:1": "one\u2028still one", "notes:4": "two", "notes:5": "three\x0bmore",
              "notes:7": "last"}),
    ("paragraph", {"notes:1": "one\u2028still one", "notes:4": "two\u00a0\nthree\x0bmore",
                   "notes:7": "last"}),
    ("file", {"notes": "one\u2028still one\n\n \n  two\u00a0\nthree\x0bmore\n\nlast"})])
def test_units(source: Path, unit: Unit, expected: dict[str, str]) -> None:
    records = list(text_records([str(source)], unit))
    assert {record["id"]: record["text"] for record in records} == expected


def test_records_are_named_by_their_first_line(source: Path) -> None:
    records = text_records([str(source)], "paragraph")
    assert [record.place for record in records] == [f"{source}:{line}" for line in (1, 4, 7)]


@pytest.mark.parametrize("unit", get_args(Unit))
def test_white_space_is_no_record(tmp_path: Path, unit: Unit) -> None:
    path = tmp_path / "blank.txt"
    path.write_text(" \n\r\n\t\n")
    assert list(text_records([str(path)], unit)) == []


@pytest.mark.data
def test_general_italian(data: Path) -> None:
    records = list(text_records([str(data / "it/corpus/general-ud.txt")]))
    assert len(records) == 4741
    assert sum(len(record["text"].split()) for record in records) == 103_128
