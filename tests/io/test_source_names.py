"""Names taken from file names."""

from __future__ import annotations

import pytest

from bmtools.io.jsonl import source_stem


@pytest.mark.parametrize(("name", "expected"), [
    ("-", "stdin"), ("ner/test.tsv", "test"), ("test.tsv.gz", "test"), ("a.b.txt.zst", "a.b"),
    ("notes", "notes"), ("notes.gz", "notes")])
def test_stem(name: str, expected: str) -> None:
    assert source_stem(name) == expected
