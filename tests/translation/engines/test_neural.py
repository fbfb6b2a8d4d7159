"""Sentences that are too long for a model."""

from __future__ import annotations

from functools import partial

import pytest

from bmtools.translation.engines.engine import Translation
from bmtools.translation.engines.neural import join_clauses, split_clauses
from bmtools.translation.settings import EngineConfig

config = partial(EngineConfig, "transformers", "en", "it")


def _within(length: int):
    return lambda text: len(text) <= length


@pytest.mark.parametrize(("sentence", "length", "parts"), [
    ("Short enough.", 20, ["Short enough."]),
    ("It is so; yes. Then, so it was.", 18, ["It is so; yes.", "Then, so it was."]),
    ("One, two of them; three, and four.", 20, ["One, two of them;", "three, and four."]),
    ("One two three: four five, six.", 20, ["One two three:", "four five, six."]),
    ("One, two, three, but four, five.", 20, ["One, two, three,", "but four, five."]),
    ("Una, due, quattro, oppure sette.", 25, ["Una, due, quattro,", "oppure sette."]),
    ("Eins, zwei, die drei, vier.", 20, ["Eins, zwei,", "die drei, vier."]),
    ("One two three, four five six.", 20, ["One two three,", "four five six."]),
    ("It was 1,234 or 2,345 in all.", 16, ["It was 1,234", "or 2,345 in all."]),
    ("one two three four", 10, ["one two", "three four"]),
    ("a; bcdefgh ijklmnopq", 12, ["a; bcdefgh", "ijklmnopq"]),
    ("abcdefgh", 4, ["abcd", "efgh"]),
    ("患者没有发烧,但是他头痛。", 8, ["患者没有发烧,", "但是他头痛。"]),
])
def test_sentence_is_split_at_the_best_boundary(
        sentence: str, length: int, parts: list[str]) -> None:
    assert split_clauses(sentence, _within(length)) == parts


def test_splitting_a_megabyte_loses_no_text() -> None:
    sentence = "word, and another; " * 50_000
    parts = split_clauses(sentence, _within(500))
    assert "".join(" ".join(parts).split()) == "".join(sentence.split())
    assert max(map(len, parts)) <= 500
    assert split_clauses("ab", lambda text: False) == ["a", "b"]


def test_parts_join_as_one_sentence() -> None:
    found = join_clauses("We saw it; and that was all.", ["We saw it;", "and that was all."], [
        Translation("L'abbiamo visto;.", 1, log_probability=-1.0, engine="x"),
        Translation("E questo è tutto.", 2, log_probability=-2.0, engine="x")], "it")
    assert found == Translation("L'abbiamo visto; e questo è tutto.", 3, "", -1.5, engine="x")
    german = join_clauses("a b", ["a", "b"], [Translation("A"), Translation("Haus")], "de-AT")
    assert german.text == "A Haus"
    assert join_clauses(
        "a, B", ["a,", "B"], [Translation("一"), Translation("二")], "zh").text == "一二"
    failed = join_clauses(
        "a b", ["a", "b"], [Translation("A"), Translation("", fault="no end")], "it")
    assert (failed.text, failed.fault) == ("", "no end")


@pytest.mark.parametrize(("sentence", "language"), [
    ("See https://example.org/" + "abcdefgh/" * 9 + "index.html now.", "it"),
    ("ACGT" * 40, "it"), ("血压" * 20 + "\uff0c" + "患者" * 20 + "。", "zh")])
def test_parts_of_a_word_join_without_blanks(sentence: str, language: str) -> None:
    clauses = split_clauses(sentence, _within(20))
    assert len(clauses) > 3
    assert join_clauses(sentence, clauses, [*map(Translation, clauses)], language).text == sentence


def test_parts_of_a_sentence_without_spaces_join_with_spaces() -> None:
    clauses = ["患者没有发烧,", "但是他头痛。"]
    found = join_clauses("".join(clauses), clauses, [
        Translation("The patient had no fever,"), Translation("But he had a headache.")], "en")
    assert found.text == "The patient had no fever, But he had a headache."
