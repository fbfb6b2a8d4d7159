"""Plain text as records."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmtools.corpus.formats.texts.plain_text import Unit, text_records

NAME = "notes.txt"
TEXT = "one\u2028still one\r\n\n \n  two\u00a0\nthree\x0bmore\r\n\r\nlast"


@pytest.mark.parametrize(("unit", "expected"), [
    ("line", {"notes:1": "one\u2028still one", "notes:4": "two", "notes:5": "three\x0bmore",
              "notes:7": "last"}),
    ("paragraph", {"notes:1": "one\u2028still one", "notes:4": "two\u00a0\nthree\x0bmore",
                   "notes:7": "last"}),
    ("file", {"notes": "one\u2028still one\n\n \n  two\u00a0\nthree\x0bmore\n\nlast"})])
def test_lines_paragraphs_or_files_are_records(write, unit: Unit, expected: dict[str, str]) -> None:
    records = list(text_records([path := write(TEXT)], unit))
    assert {record["id"]: record["text"] for record in records} == expected
    assert unit == "file" or [record.place for record in records] == [
        f"{path}:{name[6:]}" for name in expected]
    assert list(text_records([write(" \n\r\n\t\n")], unit)) == []


@pytest.mark.data
def test_general_italian_is_read(data: Path) -> None:
    records = list(text_records([str(data / "it/corpus/general-ud.txt")]))
    assert len(records) == 4741
    assert sum(len(record["text"].split()) for record in records) == 103_128
