"""Answers before and after projection."""

import json
from collections import Counter

import pytest

from bmtools.errors import RecordError
from bmtools.records import Record, check
from bmtools.translation.projection.questions import (
    LOST,
    TRANSLATED,
    UNANSWERABLE,
    prepare_answers,
    settle_questions,
)

TEXT = "The heart beats. A heart, the hearty HEART."


def starts(answers, occurrences="given"):
    found = prepare_answers(Record(id="1", text=TEXT, answers=answers), occurrences)
    check(found)
    return [answer.get("start") for answer in found["answers"]]


def test_answers_are_projected_where_they_are_given():
    assert starts([{"text": "heart", "start": 19}]) == [19]
    assert starts([{"text": "heart"}, {"text": "liver"}, {"text": ""}]) == [4, None, None]


def test_all_occurrences_of_an_answer_are_projected_once():
    assert starts([{"text": "heart", "start": 19}, {"text": "heart"}], "all") == [19, 4]
    assert starts([{"text": "beat", "start": 10}], "all") == [10]


def question(name, answers, projected, meta=None, **keys):
    """Make a question, and its translation with the projected words of some answers."""
    source = prepare_answers(Record(id=name, text=TEXT, question="Which?", meta=meta or {},
                                    answers=[{"text": one} for one in answers]))
    by_words = dict(zip(answers, projected, strict=True))
    text = "Il cuore, un fegato, il cuore."
    found = [{**one, "text": by_words[one["text"]], "start": text.index(by_words[one["text"]])}
             for one in source["answers"] if by_words[one["text"]]]
    return source, Record(id=name, text=text, question="Quale?", meta=meta or {},
                          answers=found, **keys)


def test_a_question_that_loses_its_answers_is_left_out_and_one_without_any_stays():
    counts, rejected = Counter(), []
    records = list(settle_questions([
        question("lost", ["heart"], [None]), question("none", [], []),
        question("found", ["heart", "hearts"], ["cuore", None])], counts, rejected.append))
    assert [(one["id"], one["answers"]) for one in records] == [
        ("none", []), ("found", [{"text": "cuore", "start": 3}])]
    assert (counts[LOST], counts[UNANSWERABLE]) == (1, 1)
    assert "found none of the answers ['heart'] in the translation" in rejected[0].reason
    assert list(settle_questions([question("lost", ["heart"], [None])], counts)) == []


def test_answers_that_fall_together_are_one():
    [record] = settle_questions([question("1", ["heart", "HEART"], ["cuore", "cuore"])], Counter())
    assert record["answers"] == [{"text": "cuore", "start": 3}]


def test_exact_answers_are_what_any_text_of_the_question_has_for_them():
    meta = {"question": "q", "exact_answer": ["Heart", "cardiac", "liver"]}
    items = {"question": "l", "exact_answer": [["heart", "cor"], ["Liver"]]}
    other = {"question": "other", "exact_answer": ["heart"]}
    counts = Counter()
    records = list(settle_questions([
        question("q_0", ["heart"], ["cuore"], meta), question("q_1", ["liver"], ["fegato"], meta),
        question("q_2", [], [], meta), question("l_0", ["heart"], ["Il cuore"], items),
        question("other", [], [], other)], counts))
    assert [one["meta"]["exact_answer"] for one in records] == [
        ["cuore", "cardiac", "fegato"]] * 3 + [[["Il cuore", "cor"], ["Liver"]], ["heart"]]
    assert counts[TRANSLATED] == 7
    assert "original" not in json.dumps(records)


@pytest.mark.parametrize("exact", [5, "heart", [], {"a": 1}, [1, None], [["heart"], "heart", 2],
                                   [{"a": 1}, {"a": 1}]])
def test_exact_answers_of_another_form_do_no_harm(exact):
    [record] = settle_questions([question("q", ["heart"], ["cuore"], {"exact_answer": exact})],
                                Counter())
    assert record["answers"] == [{"text": "cuore", "start": 3}]
    assert type(record["meta"]["exact_answer"]) is type(exact)


def test_a_translation_lacks_its_question():
    source, record = question("1", ["heart"], ["cuore"])
    with pytest.raises(RecordError, match=r"'question' is missing; expected .* of 'Which\?'"):
        list(settle_questions([(source, record.without("question"))], Counter()))


def test_records_without_questions_pass_as_they_are():
    pair = (Record(id="1", text="a", meta={"a": 1}, answers=[{"text": "a", "start": 0}]),
            Record(id="1", text="b", entities=[], answers=[]))
    counts = Counter()
    assert list(settle_questions([pair], counts)) == [pair[1]]
    assert not +counts
