"""JSON Lines of other forms than records."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import pytest

from bmtools.corpus.sets.json_lines import json_objects
from bmtools.errors import RecordError


class Named(TypedDict):
    name: str


@pytest.mark.parametrize(("line", "shape", "fault"), [
    ("{", Named, "found '{' (Input data was truncated), expected a JSON object on one line"),
    ("[1]", Named, "found '[1]' (Expected `object`, got `array`), expected a JSON object"),
    ('{"a":' * 10**5, dict[str, Any], "recursion depth exceeded"),
    ('{"name": 1}', Named, "key 'name': found a whole number, expected text"),
    ("{}", Named, "key 'name' is missing"), ("7", dict[str, Any], "found '7' (Expected `object`")])
def test_what_is_no_such_object_is_refused(tmp_path: Path, line: str, shape: Any,
                                           fault: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(f'\n{line}\n{{"name": "a"}}\n')
    refused: list[RecordError] = []
    assert [*json_objects([str(path)], shape, refused.append)] == [
        ("set:3", f"{path}:3", {"name": "a"})]
    assert f"{path}:2: {refused[0].reason}" == str(refused[0]) and fault in refused[0].reason
    assert refused[0].content == line
