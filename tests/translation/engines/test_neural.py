"""Sentences longer than a model takes."""

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
def test_the_best_boundary_near_the_middle(sentence: str, length: int, parts: list[str]) -> None:
    assert split_clauses(sentence, _within(length)) == parts


def test_nothing_is_lost_of_a_megabyte() -> None:
    sentence = "word, and another; " * 50_000
    parts = split_clauses(sentence, _within(500))
    assert "".join(" ".join(parts).split()) == "".join(sentence.split())
    assert max(map(len, parts)) <= 500
    assert split_clauses("ab", lambda text: False) == ["a", "b"]


def test_parts_join_as_one_sentence() -> None:
    found = join_clauses(["We saw it;", "and that was all."], [
        Translation("L'abbiamo visto;.", 1, log_probability=-1.0, engine="x"),
        Translation("E questo è tutto.", 2, log_probability=-2.0, engine="x")], "it")
    assert found == Translation("L'abbiamo visto; e questo è tutto.", 3, "", -1.5, engine="x")
    german = join_clauses(["a", "b"], [Translation("A"), Translation("Haus")], "de-AT")
    assert german.text == "A Haus"
    assert join_clauses(["a,", "B"], [Translation("一"), Translation("二")], "zh").text == "一二"
    failed = join_clauses(["a", "b"], [Translation("A"), Translation("", fault="no end")], "it")
    assert (failed.text, failed.fault) == ("", "no end")
