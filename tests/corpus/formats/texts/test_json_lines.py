"""JSON Lines in other forms than records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, TypedDict

import pytest

from bmtools.corpus.formats.texts.json_lines import json_objects, jsonl_records
from bmtools.errors import DataError, RecordError, refuse

NAME = "in.jsonl"


class Named(TypedDict):
    name: str


@pytest.mark.parametrize(("line", "shape", "fault"), [
    ("{1", Named, "found '{1' (JSON is malformed"),
    ("[1]", Named, "found '[1]' (Expected `object`, got `array`), expected a JSON object"),
    ('{"a":' * 10**5, dict[str, Any], "recursion depth exceeded"),
    ('{"name": 1}', Named, "key 'name': found a whole number, expected text"),
    ("{}", Named, "key 'name' is missing"),
    ('{"name": 1e999}', dict[str, Any], "found the number 1e999, which is out of range"),
    ("7", dict[str, Any], "found '7' (Expected `object`")])
def test_objects_of_another_type_are_rejected(tmp_path: Path, line: str, shape: Any,
                                              fault: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(f'\n{line}\n{{"name": "a"}}\n')
    refused: list[RecordError] = []
    assert [*json_objects([str(path)], shape, refused.append)] == [
        ("set:3", f"{path}:3", {"name": "a"})]
    assert f"{path}:2: {refused[0].reason}" == str(refused[0]) and fault in refused[0].reason
    assert refused[0].content == line


@pytest.mark.parametrize("content", [
    '[\n{"name": "a"},\n{"name": 1}]\n', '[{"name": "a"}, {"name": 1}]',
    '{\n"name":\n"a"}'])
def test_a_file_may_be_one_object_or_a_list_of_them(tmp_path: Path, content: str) -> None:
    path = tmp_path / "set.json"
    path.write_text(content)
    refused: list[RecordError] = []
    assert [*json_objects([str(path)], Named, refused.append)] == [
        ("set:1", f"{path} (1)", {"name": "a"})]
    assert [str(error) for error in refused] == [
        f"{path} (2): key 'name': found a whole number, expected text"] * (content[0] == "[")


def test_an_incomplete_list_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text('[\n{"name": "a"},\n')
    with pytest.raises(DataError, match=r"set\.json:2: not JSON .*; expected objects"):
        list(json_objects([str(path)], Named, refuse))


@pytest.mark.data
def test_raw_files_of_e3c_are_read(data: Path) -> None:
    names = sorted(map(str, (data / "it" / "corpus" / "e3c-raw-sample").glob("*.json")))
    found = [content for _, _, content in json_objects(names, dict[str, Any], refuse)]
    assert [one["id"] for one in found] == [Path(name).stem for name in names]


@pytest.mark.parametrize(("given", "expected"), [
    ({"pmid": 12, "abstract": "x", "n": None}, {"id": "12", "text": "x", "n": None}),
    ({"abstract": "x", "pmid": "a", "label": 1, "title": None},
     {"id": "a", "text": "x", "label": "1"}),
    ({"id": 7, "text": {"k": 1}, "pmid": 2, "abstract": "x"},
     {"id": "2", "text": "x", "other_id": 7, "other_text": {"k": 1}}),
    ({"abstract": "x"}, {"id": "in:1", "text": "x"}),
    ({"pmid": None, "abstract": "x", "z": [1]}, {"id": "in:1", "text": "x", "z": [1]}),
])
def test_keys_are_mapped(write, given: dict, expected: dict) -> None:
    counts: Counter[str] = Counter()
    record, = jsonl_records([write(given)], "id=pmid,text=abstract", counts=counts)
    assert counts.total() == record["id"].startswith("in:")
    assert record == expected
    assert list(record) == list(expected)


@pytest.mark.parametrize(("line", "message"), [
    ("{", "expected a JSON object"), ("[1]", "expected a JSON object"),
    ('{"id": "1"}', "key 'text': found no such key, expected text; name its key"),
    ('{"id": "1", "text": 5}', "key 'text': found 5, expected text"),
])
def test_bad_lines_are_reported(write, line: str, message: str) -> None:
    path = write(f'{{"text": "a"}}\n{line}\n{{"text": "b"}}')
    with pytest.raises(RecordError, match=r"in\.jsonl:2: ") as caught:
        list(jsonl_records([path]))
    assert message in str(caught.value)
    rejected: list[RecordError] = []
    assert [record["text"] for record in jsonl_records([path], reject=rejected.append)] == [
        "a", "b"]
    assert len(rejected) == 1
