"""Records: their keys and types, and keys that are passed on."""

from __future__ import annotations

import pytest

from bmtools.errors import RecordError
from bmtools.records import Record, check, distinct

FAULTS = [
    ({"text": "a"}, "key 'id' is missing"),
    ({"id": "1"}, "key 'text' is missing"),
    ({"id": 1, "text": "a"}, "key 'id': found a whole number, expected text"),
    ({"id": "1", "text": None}, "key 'text': found null, expected text"),
    ({"id": "1", "text": "a", "labels": "x"}, "key 'labels': found text, expected a list"),
    ({"id": "1", "text": "abc", "entities": [{"start": 0, "type": "X"}]},
     "key 'entities[0].end' is missing"),
    ({"id": "1", "text": "abc", "entities": [{"start": 0, "end": 4, "type": "X"}]},
     "key 'entities[0]': found start 0 and end 4, "
     "expected offsets within the text of 3 characters"),
    ({"id": "1", "text": "abc", "entities": [{"start": 0, "end": 2, "type": "X", "text": "bc"}]},
     "key 'entities[0].text': found 'bc', but the text has 'ab' at 0 to 2"),
    ({"id": "1", "text": "abc", "entities": [
        {"start": 0, "end": 2, "type": "X", "spans": [[0, 1], [2, 3]]}]},
     "key 'entities[0].spans': found [[0, 1], [2, 3]], expected parts within 0 to 2"),
    ({"id": "1", "text": "abc", "relations": [{"head": "T1", "tail": "T2", "type": "X"}]},
     "key 'relations[0].head': found 'T1', expected the id of one of the record's entities"),
    ({"id": "1", "text": "abc", "answers": [{"text": "bc", "start": 0}]},
     "key 'answers[0].start': found 'ab' at 0, expected 'bc'"),
    ({"id": "1", "text": "no mask", "target": "x"},
     "key 'text': found 0 [MASK] with a target, expected exactly one"),
    ({"id": "1", "text": "[MASK] [MASK]", "target": "x"},
     "key 'text': found 2 [MASK] with a target, expected exactly one"),
    ({"id": "1", "text": "a [MASK]", "target": " "},
     "key 'target': found an empty text, expected the masked word"),
]


@pytest.mark.parametrize(("content", "reason"), FAULTS, ids=[reason for _, reason in FAULTS])
def test_a_fault_is_named_with_its_place(content: dict, reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        check(Record(content, place="notes.jsonl:412"))
    assert str(caught.value) == f"notes.jsonl:412: {reason}"


def test_offsets_count_code_points() -> None:
    text = "𝛽-catenina è n\u0303ota"
    check(Record({"id": "1", "text": text, "entities": [
        {"start": 0, "end": 10, "type": "GENE", "text": "𝛽-catenina"}]}))


def test_unknown_keys_are_valid_and_survive_a_change() -> None:
    record = Record({"own": {"deep": [1]}, "id": "1", "text": "a", "entities": [
        {"start": 0, "end": 1, "type": "X", "norm": "D001"}]}, place="f:1")
    check(record)
    changed = record.replace(text="b", lang="it")
    assert list(changed) == ["own", "id", "text", "entities", "lang"]
    assert changed["entities"][0]["norm"] == "D001"
    assert changed.place == "f:1"


def test_a_repeated_id_is_rejected():
    rejected = []
    records = [Record(id=name, text=name, place=f"f:{number}")
               for number, name in enumerate("abac")]
    assert [one.place for one in distinct(records, rejected.append)] == ["f:0", "f:1", "f:3"]
    assert [str(one) for one in rejected] == [
        "f:2: found the id 'a' again, which f:0 has; expected ids that differ"]
