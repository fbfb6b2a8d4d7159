"""Marks around spans, and spans found by translating marked sentences."""


import time

import pytest

from bmtools.translation.projection.markers import (
    brackets_for,
    find_marks,
    mark_spans,
    project_by_markers,
)
from bmtools.translation.projection.pairs import SentencePair


@pytest.mark.parametrize(("spans", "marked"), [
    (((2, 3),), "a [b] c d"), (((0, 3), (4, 7)), "[1 a b 1] [2 c d 2]"),
    (((0, 7), (0, 1)), "[1 [2 a 2] b c d 1]"), (((0, 1), (1, 3)), "[1 a 1][2  b 2] c d"),
    (((0, 5), (2, 7)), "[1 a [2 b c 1] d 2]"), ((), "a b c d")])
def test_marks_around_spans_are_found_again(spans, marked):
    assert mark_spans("a b c d", spans, "[]") == marked
    clean, found = find_marks(marked, "[]", len(spans))
    assert clean.replace(" ", "") == "abcd"
    assert [clean[start:end].split() for start, end in found] == [
        "a b c d"[start:end].split() for start, end in spans]


def test_brackets_in_the_sentence_are_avoided():
    assert brackets_for("plain") == "[]"
    assert brackets_for("with [its own]") == "{}"
    assert brackets_for("[{(<\u00ab") == "\u00ab\u00bb"


@pytest.mark.parametrize(("text", "count", "found"), [
    ("x [ y z ] w", 1, ["y z"]), ("x [y z", 1, [None]), ("x y] z", 1, [None]),
    ("x [] z", 1, [None]),
    ("[2 in 3 2] e [ 1 in 4 1 ]", 2, ["in 4", "in 3"]),
    ("[1 uno 1] [3 tre 3]", 2, ["uno", None]), ("[1 uno 1] [2 due", 2, ["uno", None])])
def test_changed_and_missing_marks_are_handled(text, count, found):
    clean, spans = find_marks(text, "[]", count)
    assert [span and clean[slice(*span)] for span in spans] == found


def test_the_clean_translation_is_kept(dictionary):
    engine = dictionary({
        "The [advanced breast cancer] was rare.": "Il [cancro di mamma avanzata] era raro.",
        "A [1 pain 1] and a [2 fever 2].": "Un dolore 1] e una [2 febbre 2]."}, batch_sentences=1)
    pairs = [SentencePair("The advanced breast cancer was rare.",
                          "Il cancro al seno avanzato era molto raro.", ((4, 26),)),
             SentencePair("No span.", "Nulla."),
             SentencePair("A pain and a fever.", "Un dolore e febbri.", ((2, 6), (13, 18))),
             SentencePair("A [fault].", "Un [errore].", ((3, 8),))]
    found = project_by_markers(pairs, engine)
    assert [[one and pair.target[one.start:one.end] for one in places]
            for pair, places in zip(pairs, found, strict=True)] == [
        ["cancro al seno avanzato"], [], [None, "febbri"], [None]]
    assert [len(call) for call in engine.calls] == [1, 1, 1]
    assert "A [{fault}]." in {one for call in engine.calls for one in call}


@pytest.mark.parametrize(("filling", "count"), [(" ", 1), (" ", 2), ("1", 2)])
def test_runs_of_blanks_and_digits_take_linear_time(filling: str, count: int) -> None:
    text = "a" + 20_000 * filling + "b"
    started = time.monotonic()
    assert find_marks(text, "[]", count)[0] == text
    assert time.monotonic() - started < 5
