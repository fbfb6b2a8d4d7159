"""Similar sentences, against every pair compared with the usual table."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from bmtools.translation.engines import similar
from bmtools.translation.engines.similar import SimilarSentences, edit_distance, with_numbers


def _distance(one: Sequence[object], other: Sequence[object]) -> int:
    row = list(range(len(other) + 1))
    for at, left in enumerate(one, 1):
        before, row[0] = row[0], at
        for position, right in enumerate(other, 1):
            before, row[position] = row[position], min(
                before + (left != right), row[position] + 1, row[position - 1] + 1)
    return row[-1]


def _drawn(rng: random.Random, words: int, longest: int) -> list[int]:
    return [int(rng.random() ** 2 * words) for _ in range(rng.randint(1, longest))]


def test_distances_are_those_of_the_table() -> None:
    rng = random.Random(0)
    for _ in range(500):
        one, other = _drawn(rng, 4, 9), _drawn(rng, 4, 9)
        assert edit_distance(similar._positions(one), len(one), other) == _distance(one, other)


@pytest.mark.parametrize("threshold", [0.5, 0.7, 0.85, 1.0])
def test_no_similar_sentence_is_missed(threshold: float) -> None:
    rng = random.Random(1)
    memory = {" ".join(f"w{word}" for word in _drawn(rng, 12, 8)): str(number)
              for number in range(300)}
    index = SimilarSentences(memory, threshold)
    for _ in range(100):
        sentence = " ".join(f"w{word}" for word in _drawn(rng, 12, 8))
        words = sentence.split()
        best = max(1 - _distance(words, other.split())
                   / (max(len(words), len(other.split())) or 1) for other in memory)
        found = index.find(sentence)
        assert (found is not None) == (best >= threshold - 1e-9)
        if found is not None:
            [other] = [key for key, value in memory.items() if value == found]
            assert 1 - _distance(words, other.split()) / (
                max(len(words), len(other.split())) or 1) == pytest.approx(best)


@pytest.mark.parametrize(("sentence", "expected"), [
    ("Pain was reduced by 40% (p < 0.01).", "Il dolore si è ridotto del 40% (p < 0,01)."),
    ("PAIN was reduced by 30% (p < 0.05).", "Il dolore si è ridotto del 30% (p < 0,05)."),
    ("Pain was reduced by 1,200% (p < 0.05).", None),
    ("Pain was reduced by 40% (p < 1).", "Il dolore si è ridotto del 40% (p < 1)."),
    ("Fever was reduced by 40% (p < 0.01).", None)])
def test_numbers_are_exchanged_and_written_as_in_the_translation(
        sentence: str, expected: str | None) -> None:
    index = SimilarSentences({"Pain was reduced by 30% (p < 0.05).":
                              "Il dolore si è ridotto del 30% (p < 0,05)."}, 1.0)
    assert index.find(sentence) == expected


@pytest.mark.parametrize(("sentence", "similar_one", "translation", "expected"), [
    ("2 of 3", "1 of 3", "1 su 3", "2 su 3"), ("3 of 1", "1 of 3", "di 3, 1", "di 1, 3"),
    ("2 of 5", "1 of 1", "1 su 1", "2 su 5"), ("2 of 5", "1 of 1", "uno su 1", None),
    ("2 days", "1 day", "1 giorno, 1 volta", None), ("2 of 3", "1 of", "1 su", None),
    ("p53 2", "p53 1", "p53 1", "p53 2"), ("IL-8", "IL-6", "IL-6", "IL-8")])
def test_numbers_without_a_certain_place_are_refused(
        sentence: str, similar_one: str, translation: str, expected: str | None) -> None:
    assert with_numbers(sentence, similar_one, translation) == expected


def test_the_next_best_sentence_is_taken_where_numbers_have_no_place() -> None:
    index = SimilarSentences({"It took 4 long days": "quattro giorni lunghi",
                              "It took 4 days": "Ci vollero 4 giorni"}, 0.7)
    assert index.find("It took 5 long days") == "Ci vollero 5 giorni"
