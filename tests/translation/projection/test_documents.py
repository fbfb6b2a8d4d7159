"""Conversion of records to sentence pairs and back, and preparation of answers."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from bmtools.errors import RecordError
from bmtools.records import Record, check
from bmtools.translation.projection.confidence import Vote
from bmtools.translation.projection.documents import (
    LOST,
    NOT_FOUND,
    RELATIONS_LOST,
    TRANSLATED,
    UNANSWERABLE,
    UNLOCATED,
    UNSURE,
    UNTRANSLATED,
    annotated,
    pair_document,
    pair_records,
    prepare_answers,
    settle_questions,
)
from bmtools.translation.projection.pairs import Projection


def record(text: str, lang: str = "en", place: str = "a.jsonl:1", **keys: Any) -> Record:
    return Record({"id": "r", "text": text, "lang": lang, **keys}, place=place)


SOURCE = record("No pain. High  fever.", entities=[
    {"id": "T1", "type": "S", "start": 3, "end": 7, "text": "pain"},
    {"id": "T2", "type": "S", "start": 9, "end": 20, "spans": [[9, 13], [15, 20]]}],
    relations=[{"head": "T1", "tail": "T2", "type": "R"}],
    answers=[{"text": "fever", "start": 15}, {"text": "pain"}])
TARGET = record("Nessun dolore. Febbre alta.", "it", meta={"translation": {"sentence_spans": {
    "text": [[0, 8, 0, 14], [9, 21, 15, 27]]}}})


def votes(*spans: tuple[int, int, float] | None) -> list[Vote]:
    return [Vote(Projection(*span) if span else None, {}) for span in spans]


def test_sentences_of_the_translation_make_pairs() -> None:
    document = pair_document(SOURCE, TARGET)
    assert [(one.source, one.target) for one in document.pairs] == [
        ("No pain.", "Nessun dolore."), ("High  fever.", "Febbre alta.")]
    assert [one.spans for one in document.pairs] == [((3, 7),), ((0, 4), (6, 11), (6, 11))]
    assert document.places == [(0, 0), (1, 0), (1, 1), (1, 2)]


def test_annotations_are_transferred_with_their_relations() -> None:
    document = pair_document(SOURCE, TARGET)
    lost: Counter[str] = Counter()
    found = annotated(document, [votes((7, 13, 0.9)), votes((7, 11, 0.8), (0, 6, 0.7),
                                                           (0, 6, 0.6))], 0.5, lost)
    assert found["entities"] == [
        {"id": "T1", "type": "S", "start": 7, "end": 13, "text": "dolore", "score": 0.9},
        {"id": "T2", "type": "S", "start": 15, "end": 26, "text": "Febbre alta",
         "spans": [[15, 21], [22, 26]], "score": 0.7}]
    assert found["relations"] == SOURCE["relations"]
    assert found["answers"] == [{"text": "Febbre", "start": 15, "score": 0.6}]
    assert lost == {UNLOCATED: 1}
    assert found["text"] == TARGET["text"]
    assert found.place == TARGET.place


def test_touching_parts_become_one() -> None:
    found = annotated(pair_document(SOURCE.without("answers", "relations"), TARGET),
                      [votes((7, 13, 1)), votes((0, 8, 1), (7, 11, 1))], 0, Counter())
    assert found["entities"][1] == {"id": "T2", "type": "S", "start": 15, "end": 26,
                                    "text": "Febbre alta", "score": 1}


@pytest.mark.parametrize(("part", "least", "cause"), [
    (None, 0.0, NOT_FOUND), ((0, 6, 0.4), 0.5, UNSURE)])
def test_an_entity_without_one_of_its_parts_is_lost_with_its_relations(
        part: tuple[int, int, float] | None, least: float, cause: str) -> None:
    lost: Counter[str] = Counter()
    found = annotated(pair_document(SOURCE.without("answers"), TARGET),
                      [votes((7, 13, 0.9)), votes((7, 11, 0.8), part)], least, lost)
    assert [one["id"] for one in found["entities"]] == ["T1"]
    assert found["relations"] == []
    assert lost == {cause: 1, RELATIONS_LOST: 1}


def test_missing_translation_is_counted_as_the_cause() -> None:
    target = record("Nessun dolore. ", "it", meta={"translation": {"sentence_spans": {
        "text": [[0, 8, 0, 14], [9, 21, 15, 15]]}}})
    lost: Counter[str] = Counter()
    annotated(pair_document(SOURCE.without("answers", "relations"), target),
              [votes((7, 13, 0.9)), votes(None, None)], 0, lost)
    assert lost == {UNTRANSLATED: 1}


def test_an_entity_across_sentences_joins_them() -> None:
    source = record("No pain. High fever. Cough.", entities=[
        {"type": "S", "start": 3, "end": 19}])
    target = record("Nessun dolore. Febbre alta. Tosse.", "it", meta={"translation": {
        "sentence_spans": {"text": [[0, 8, 0, 14], [9, 20, 15, 27], [21, 27, 28, 34]]}}})
    document = pair_document(source, target)
    assert [(one.source, one.target) for one in document.pairs] == [
        ("No pain. High fever.", "Nessun dolore. Febbre alta."), ("Cough.", "Tosse.")]


@pytest.mark.parametrize("spans", [
    [[0, 8, 0, 14]] * 2, [[0, 8, 0, 99]], [[0, 8]], "x", [[0, "8", 0, 14]], [[9, 21, 15, 27]]])
def test_wrongly_recorded_sentences_are_ignored(spans: Any) -> None:
    target = TARGET.replace(meta={"translation": {"sentence_spans": {"text": spans}}})
    document = pair_document(SOURCE, target)
    assert [(one.source, one.target) for one in document.pairs] == [
        (SOURCE["text"], TARGET["text"])]


def test_long_texts_with_equal_numbers_of_sentences_are_split() -> None:
    source, target = "It hurts a lot. " * 50, "Fa molto male. " * 50
    entity = {"type": "S", "start": 16, "end": 30}
    document = pair_document(record(source, entities=[entity]), record(target, "it"))
    assert len(document.pairs) == 50
    assert document.places == [(1, 0)]
    other = pair_document(record(source, entities=[entity]), record(target + "Sì. ", "it"))
    assert len(other.pairs) == 1


def test_texts_with_unequal_sentences_are_split_by_lines() -> None:
    source = "A title\n" + "It hurts a lot. " * 50
    target = "Un titolo\n" + "Fa molto male. " * 49
    document = pair_document(record(source, entities=[{"type": "S", "start": 2, "end": 7}]),
                             record(target, "it"))
    assert [(one.source[:7], one.target[:9]) for one in document.pairs] == [
        ("A title", "Un titolo"), ("It hurt", "Fa molto ")]


def test_records_are_paired_by_id_or_order() -> None:
    left = [record("a").replace(id="1"), record("b").replace(id="2")]
    right = [record("B").replace(id="2"), record("A").replace(id="1")]

    def texts(pairing: Any) -> list[tuple[str, str]]:
        return [(one["text"], other["text"])
                for one, other in pair_records(left, right, fail, pairing)]

    assert texts("id") == [("a", "A"), ("b", "B")]
    assert texts("order") == [("a", "B"), ("b", "A")]


def fail(error: RecordError) -> None:
    raise error


ONE, TWO = (Record({"id": str(number), "text": ""}, place=f"f:{number}") for number in (1, 2))


@pytest.mark.parametrize(("left", "right", "pairing", "message"), [
    ([ONE], [], "id", "f:1: found no translation with the id '1'; add it"),
    ([ONE], [TWO], "id", "f:1: found no translation with the id '1' in f; add it"),
    ([ONE], [ONE, TWO], "id",
     "f:2: found a translation with the id '2', but no such record in f; remove it"),
    ([ONE, ONE], [ONE], "id", "f:1: found the id '1' again, which f:1 has"),
    ([ONE], [ONE, ONE], "id", "f:1: found the id '1' again"),
    ([ONE, TWO], [ONE], "order", "f:2: found the record '2' after the last of"),
    ([ONE], [ONE, TWO], "order", "f:2: found the record '2' after the last of")])
def test_unpaired_records_are_reported_with_place_and_id(left: list[Record], right: list[Record],
                                                         pairing: Any, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        list(pair_records(left, right, fail, pairing))
    assert str(caught.value).startswith(message)
    rejected: list[RecordError] = []
    list(pair_records(left, right, rejected.append, pairing))
    assert str(rejected[0]) == str(caught.value)


def test_a_mention_with_a_control_character_has_its_translation() -> None:
    source = Record(id="a", text="Has acute\x07\n asthma.",
                    entities=[{"start": 4, "end": 18, "type": "D"}])
    found = pair_document(source, Record(id="a", text="Ha asma acuta."),
                          {"acute asthma": "asma acuta"})
    assert [pair.mentions for pair in found.pairs] == [("asma acuta",)]


TEXT = "The heart beats. A heart, the hearty HEART."


def starts(answers):
    found = prepare_answers(Record(id="1", text=TEXT, answers=answers))
    check(found)
    return [answer.get("start") for answer in found["answers"]]


def test_given_offsets_of_answers_are_projected():
    assert starts([{"text": "heart", "start": 19}]) == [19]
    assert starts([{"text": "heart"}, {"text": "liver"}, {"text": ""}]) == [4, None, None]


def question(name, answers, projected, meta=None, **keys):
    """Return a question, and its translation with the projected words of some answers."""
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


def test_equal_projected_answers_are_merged():
    [record] = settle_questions([question("1", ["heart", "HEART"], ["cuore", "cuore"])], Counter())
    assert record["answers"] == [{"text": "cuore", "start": 3}]


def test_exact_answers_are_translated_from_all_texts_of_the_question():
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


def test_questions_wait_for_each_other_only_if_they_have_exact_answers():
    plain = record("Fever.", answers=[{"text": "Fever", "start": 0, "original": "Febbre"}])
    exact = plain.replace(id="s", meta={"question": "q", "exact_answer": [["Febbre"]]})
    seen = []

    def projected():
        for one in (plain, exact, plain):
            seen.append(one["id"])
            yield one, one

    found = settle_questions(projected(), Counter())
    assert (next(found)["id"], seen) == ("r", ["r"])
    assert (next(found)["meta"]["exact_answer"], seen) == ([["Fever"]], ["r", "s", "r"])
    assert [one["id"] for one in found] == ["r"]


@pytest.mark.parametrize("exact", [5, "heart", [], {"a": 1}, [1, None], [["heart"], "heart", 2],
                                   [{"a": 1}, {"a": 1}]])
def test_malformed_exact_answers_are_kept(exact):
    [record] = settle_questions([question("q", ["heart"], ["cuore"], {"exact_answer": exact})],
                                Counter())
    assert record["answers"] == [{"text": "cuore", "start": 3}]
    assert type(record["meta"]["exact_answer"]) is type(exact)


def test_missing_question_is_an_error():
    source, record = question("1", ["heart"], ["cuore"])
    with pytest.raises(RecordError, match=r"'question' is missing; add .* of 'Which\?'"):
        list(settle_questions([(source, record.without("question"))], Counter()))
