"""JSON Lines with other keys."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.texts.other_jsonl import jsonl_records
from bmtools.errors import RecordError


@pytest.fixture
def lines(tmp_path: Path):
    def write(*contents: object) -> str:
        path = tmp_path / "in.jsonl"
        path.write_text("".join(f"{content if isinstance(content, str) else json.dumps(content)}\n"
                                for content in contents))
        return str(path)

    return write


@pytest.mark.parametrize(("given", "expected"), [
    ({"pmid": 12, "abstract": "x", "n": None}, {"id": "12", "text": "x", "n": None}),
    ({"abstract": "x", "pmid": "a", "label": 1, "title": None},
     {"id": "a", "text": "x", "label": "1"}),
    ({"id": 7, "text": {"k": 1}, "pmid": 2, "abstract": "x"},
     {"id": "2", "text": "x", "other_id": 7, "other_text": {"k": 1}}),
    ({"abstract": "x"}, {"id": "in:1", "text": "x"}),
    ({"pmid": None, "abstract": "x", "z": [1]}, {"id": "in:1", "text": "x", "z": [1]}),
])
def test_keys_are_mapped(lines, given: dict, expected: dict) -> None:
    record, = jsonl_records([lines(given)], "pmid", "abstract")
    assert record == expected
    assert list(record) == list(expected)


def test_numbered_ids_are_counted_and_blank_lines_keep_the_number(lines) -> None:
    counts: Counter[str] = Counter()
    path = lines({"text": "a"}, "", {"text": "b"})
    assert [record["id"] for record in jsonl_records([path], counts=counts)] == ["in:1", "in:3"]
    assert sum(counts.values()) == 2


@pytest.mark.parametrize(("line", "message"), [
    ("{", "expected a JSON object"), ("[1]", "expected a JSON object"),
    ({"id": "1"}, "key 'text': found no such key, expected text; text_key"),
    ({"id": "1", "text": 5}, "key 'text': found 5, expected text"),
])
def test_bad_lines_are_reported(lines, line: object, message: str) -> None:
    path = lines({"text": "a"}, line, {"text": "b"})
    with pytest.raises(RecordError, match=r"in\.jsonl:2: ") as caught:
        list(jsonl_records([path]))
    assert message in str(caught.value)
    rejected: list[RecordError] = []
    assert [record["text"] for record in jsonl_records([path], reject=rejected.append)] == [
        "a", "b"]
    assert len(rejected) == 1
