from __future__ import annotations

from typing import Any

import pytest

from bmtools.errors import RecordError
from bmtools.records import Record
from bmtools.tasks.ner import EntityCounts, TaggedText, read_examples

TEXT = "Caffe\u0301 🧬🧬 e diabete mellito, ipertensione arteriosa."


def entity(text: str, mention: str, kind: str = "X") -> dict[str, Any]:
    start = text.index(mention)
    return {"start": start, "end": start + len(mention), "type": kind}


def read(tokenizer: Any, *entities: dict[str, Any], text: str = TEXT,
         merge_types: str = "") -> tuple[TaggedText, EntityCounts]:
    record = Record(id="1", text=text, entities=list(entities))
    [example], counts = read_examples([record], tokenizer, 512, merge_types)
    return example, counts


def spans(example: TaggedText) -> list[tuple[int, int, str]]:
    return example.entities(example.tags)


def test_offsets_come_back_exactly(tokenizer: Any) -> None:
    given = [entity(TEXT, "Caffe\u0301"), entity(TEXT, "🧬🧬", "Y"),
             entity(TEXT, "diabete mellito"), entity(TEXT, "arteriosa")]
    example, counts = read(tokenizer, *given)
    assert spans(example) == [(e["start"], e["end"], e["type"]) for e in given]
    assert counts.unaligned == 0
    assert counts.reachable == counts.entities == 4


def test_the_first_word_opens_and_the_others_continue(tokenizers: dict[str, Any]) -> None:
    example, _ = read(tokenizers["wordpiece"], entity(TEXT, "diabete mellito"))
    assert [tag for tag in example.tags if tag != "O"] == ["B-X", "I-X"]
    assert len(example.tags) == len(example.words)


@pytest.mark.parametrize(("mention", "found"), [
    ("diab", "diabete"), ("bete mell", "diabete mellito"), ("mellito, ", "mellito,"),
    (" e", "e")])
def test_borders_inside_words_are_counted(tokenizers: dict[str, Any], mention: str,
                                          found: str) -> None:
    example, counts = read(tokenizers["wordpiece"], entity(TEXT, mention))
    assert counts.unaligned == 1 and counts.reachable == 0
    assert [TEXT[start:end] for start, end, _ in spans(example)] == [found]
    assert example.gold == {(TEXT.index(mention), TEXT.index(mention) + len(mention), "X")}


def test_an_entity_without_words_is_counted(tokenizers: dict[str, Any]) -> None:
    entity_of_spaces = {"start": 1, "end": 2, "type": "X"}
    example, counts = read(tokenizers["wordpiece"], entity_of_spaces, text="a  b")
    assert counts.unaligned == 1 and spans(example) == []


def test_the_longest_of_overlapping_entities_is_tagged(tokenizer: Any) -> None:
    whole = entity(TEXT, "diabete mellito")
    part = entity(TEXT, "mellito", "Y")
    example, counts = read(tokenizer, part, whole)
    assert spans(example) == [(whole["start"], whole["end"], "X")]
    assert counts.overlapping == 1
    assert (counts.entities, counts.reachable) == (2, 1)
    assert len(example.gold) == 2, "the score still expects both"


def test_repeated_annotations_count_once(tokenizer: Any) -> None:
    _, counts = read(tokenizer, entity(TEXT, "diabete"), entity(TEXT, "diabete"))
    assert (counts.entities, counts.repeated) == (1, 1)


def test_discontinuous_entities_are_taken_whole(tokenizers: dict[str, Any]) -> None:
    start, end = TEXT.index("diabete"), TEXT.index(" arteriosa")
    parts = {"start": start, "end": end, "type": "X",
             "spans": [[start, start + 7], [end - 4, end]]}
    example, counts = read(tokenizers["wordpiece"], parts)
    assert counts.discontinuous == 1
    assert spans(example) == [(start, end, "X")]


def test_types_can_be_merged(tokenizer: Any) -> None:
    _, counts = read(tokenizer, entity(TEXT, "diabete", "A"), entity(TEXT, "diabete", "B"),
                     merge_types="Disease")
    assert counts.types == {"Disease": 1}
    assert counts.repeated == 1


def test_records_without_annotation_are_refused(tokenizer: Any) -> None:
    records = [Record(id="1", text="asma", place="a.jsonl:3"),
               Record(id="2", text="asma", entities=[], place="a.jsonl:4")]
    with pytest.raises(RecordError, match=r"a\.jsonl:3: key 'entities' is missing"):
        read_examples(records, tokenizer, 512)
    errors: list[RecordError] = []
    _, counts = read_examples(records, tokenizer, 512, reject=errors.append)
    assert [error.place for error in errors] == ["a.jsonl:3"]
    assert counts.records == 1
