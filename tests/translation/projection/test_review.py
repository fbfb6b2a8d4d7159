"""Review items, and decisions read back."""

import json

import pytest

from bmtools.errors import DataError, RecordError
from bmtools.translation.projection.pairs import Projection, SentencePair
from bmtools.translation.projection.review import Decisions, review_item

PAIR = SentencePair("A drug reduces pain.", "Un farmaco \U0001f642 riduce il dolore.",
                    ((2, 6), (15, 19)))


def items():
    return [review_item("d1", "Chemical", 30, PAIR, 0, Projection(3, 10, 0.4), 0.41234,
                        {"align": Projection(3, 10, 0.4), "exact": None}),
            review_item("d1", "Disease", 30, PAIR, 1, None, 0.0, {})]


def decided(*accepted):
    """Read items back as a file has them, the first ones with a decision."""
    lines = [json.loads(json.dumps({**item, "accepted": one}))
             for item, one in zip(items(), accepted, strict=False)]
    return Decisions((f"r.jsonl:{number}", line) for number, line in
                     enumerate([*lines, *items()[len(accepted):]], 1))


def test_an_item_has_all_that_a_person_needs():
    assert json.loads(json.dumps(items()[0])) == {
        "id": "d1", "type": "Chemical", "at": 30, "source": PAIR.source, "span": [2, 6],
        "mention": "drug", "target": PAIR.target, "proposed": [3, 10], "words": "farmaco",
        "confidence": 0.4123,
        "candidates": [{"method": "align", "start": 3, "end": 10, "score": 0.4}]}
    assert items()[1]["proposed"] is None


@pytest.mark.parametrize(("accepted", "place"), [
    ([0, 10], Projection(0, 10, 1.0)), ("il dolore", Projection(20, 29, 1.0)), (None, None)])
def test_decisions_are_offsets_or_words_or_no_place(accepted, place):
    decisions = decided(accepted)
    assert decisions.undecided == 1
    assert decisions.applies("d1", 30, PAIR, 0)
    assert decisions.place("d1", 30, PAIR, 0) == place
    assert not decisions.applies("d1", 30, PAIR, 1)
    assert not decisions.applies("d2", 30, PAIR, 0)
    decisions.require_all_used()


@pytest.mark.parametrize(("accepted", "message"), [
    ([5, 5], r"r\.jsonl:1: key 'accepted': found \[5, 5\], expected the start and end of some"),
    ([3, 99], "in the target's 30 characters"), ([-1, 3], "found .-1, 3."), ([2, 3], "some words"),
    ("o", "'o', which the target has 3 times"),
    ("dolori", "'dolori', which the target has 0 times"), (" ", "0 times")])
def test_decisions_that_do_not_fit_their_sentence(accepted, message):
    with pytest.raises(DataError, match=message):
        decided(accepted)


def test_items_that_are_none():
    with pytest.raises(RecordError, match=r"r\.jsonl:4: key 'at' is missing"):
        Decisions([("r.jsonl:4", {"id": "1", "type": "a"})])
    with pytest.raises(RecordError, match=r"key 'accepted'.*found a number"):
        decided(3.5)


def test_a_span_is_decided_once():
    [first, _] = items()
    line = {**first, "accepted": None}
    with pytest.raises(DataError, match="b:2: found the span 'drug' of 'd1' again, which b:1 has"):
        Decisions([("b:1", line), ("b:2", line)])


def test_decisions_on_other_sentences_are_refused():
    changed = SentencePair(PAIR.source, PAIR.target + " Sempre.", PAIR.spans)
    with pytest.raises(DataError, match=r"r\.jsonl:1: found the target 'Un farmaco .* review them"):
        decided([3, 10]).applies("d1", 30, changed, 0)


def test_decisions_that_no_record_takes_are_refused():
    decisions = decided([3, 10], None)
    assert decisions.applies("d1", 30, PAIR, 0)
    with pytest.raises(DataError, match=r"r\.jsonl:2: found a decision on 'pain' at 45 of"):
        decisions.require_all_used()


def test_decisions_are_read_from_files(tmp_path):
    path = tmp_path / "reviewed.jsonl"
    path.write_text("".join(json.dumps({**item, "accepted": None}) + "\n" for item in items()))
    decisions = Decisions.read([str(path)])
    assert decisions.applies("d1", 30, PAIR, 1)
    assert decisions.place("d1", 30, PAIR, 1) is None
