"""Review items and decisions."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from bmtools.errors import DataError, RecordError
from bmtools.records import Record
from bmtools.translation.projection.confidence import Vote
from bmtools.translation.projection.documents import (
    DECIDED,
    NOT_FOUND,
    annotated,
    pair_document,
)
from bmtools.translation.projection.pairs import Projection
from bmtools.translation.projection.review import APPLIED, Decisions, review_items

SOURCE = Record(id="d1", text="First. A drug reduces pain.", entities=[
    {"id": "a", "start": 9, "end": 13, "type": "Chemical"},
    {"id": "b", "start": 22, "end": 26, "type": "Disease"}])
TARGET = "Un farmaco \U0001f642 riduce il dolore."


def document(target=TARGET):
    spans = [[0, 6, 0, 6], [7, 27, 7, 7 + len(target)]]
    return pair_document(SOURCE, Record(id="d1", text=f"Primo. {target}", meta={
        "translation": {"sentence_spans": {"text": spans}}}))


def votes():
    found = Projection(3, 10, 0.4)
    return [[], [Vote(replace(found, score=0.41234), {"align": found, "exact": None}),
                 Vote(None, {"align": None, "exact": None})]]


def items():
    return list(review_items(document(), votes(), 0.5))


def decided(*accepted):
    """Read items as from a file; the first ones have a decision."""
    lines = [json.loads(json.dumps({**item, "accepted": one}))
             for item, one in zip(items(), accepted, strict=False)]
    return Decisions((f"r.jsonl:{number}", line) for number, line in
                     enumerate([*lines, *items()[len(accepted):]], 1))


def test_item_has_all_data_for_the_review():
    assert json.loads(json.dumps(items()[0])) == {
        "id": "d1", "type": "Chemical", "at": 7, "source": "A drug reduces pain.",
        "span": [2, 6], "mention": "drug", "target": TARGET, "proposed": [3, 10],
        "words": "farmaco", "confidence": 0.4123,
        "candidates": [{"method": "align", "start": 3, "end": 10, "score": 0.4}]}
    assert (items()[1]["proposed"], items()[1]["type"]) == (None, "Disease")


def test_only_uncertain_spans_are_reviewed():
    assert [item["mention"] for item in review_items(document(), votes(), 0.4)] == ["pain"]
    done = decided(None, None).apply(document(), votes(), Counter())
    assert list(review_items(document(), done, 0.5)) == []


@pytest.mark.parametrize(("accepted", "place"), [
    ([0, 10], Projection(0, 10, 1.0)), ("il dolore", Projection(20, 29, 1.0)), (None, None)])
def test_decisions_are_offsets_or_words_or_no_place(accepted, place):
    decisions, counts = decided(accepted), Counter()
    [_, [drug, pain]] = decisions.apply(document(), votes(), counts)
    assert (drug.place, drug.is_decided) == (place, True)
    assert pain == votes()[1][1]
    assert (decisions.undecided, counts[APPLIED]) == (1, 1)
    decisions.require_all_used()
    lost = Counter()
    record = annotated(document(), [[], [drug, pain]], 0.9, lost)
    assert [one["text"] for one in record["entities"]] == (
        [TARGET[place.start:place.end]] if place else [])
    assert lost == {NOT_FOUND: 1, **({} if place else {DECIDED: 1})}


@pytest.mark.parametrize(("accepted", "message"), [
    ([5, 5], r"r\.jsonl:1: key 'accepted': found \[5, 5\], expected the start and end of some"),
    ([3, 99], "in the target's 30 characters"), ([-1, 3], "found .-1, 3."), ([2, 3], "some words"),
    ("o", "'o', 3 times in the target"),
    ("dolori", "'dolori', 0 times in the target"), (" ", "0 times")])
def test_decisions_must_fit_their_sentence(accepted, message):
    with pytest.raises(DataError, match=message):
        decided(accepted)


def test_malformed_items_are_errors():
    with pytest.raises(RecordError, match=r"r\.jsonl:4: key 'at' is missing"):
        Decisions([("r.jsonl:4", {"id": "1", "type": "a"})])
    with pytest.raises(RecordError, match=r"key 'accepted'.*found a number"):
        decided(3.5)


def test_span_cannot_be_decided_twice():
    [first, _] = items()
    line = {**first, "accepted": None}
    with pytest.raises(DataError, match="'drug' of 'd1' again, it is already in b:1"):
        Decisions([("b:1", line), ("b:2", line)])


def test_decisions_on_other_sentences_are_errors():
    with pytest.raises(DataError, match=r"r\.jsonl:1: found the target 'Un farmaco .* review them"):
        decided([3, 10]).apply(document(f"{TARGET} Sempre."), votes(), Counter())


def test_unused_decisions_are_errors():
    decisions = decided(None)
    decisions.apply(document(), votes(), Counter())
    decisions.require_all_used()
    with pytest.raises(DataError, match=r"r\.jsonl:1: found a decision on 'drug' at 9 of"):
        decided(None).require_all_used()
