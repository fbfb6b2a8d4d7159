"""Word alignment."""

from __future__ import annotations

import numpy as np
import pytest

from bmtools.translation.projection import alignment
from bmtools.translation.projection.alignment import (
    Cells,
    align_words,
    diagonal_posteriors,
    spelling_likeness,
)
from bmtools.translation.projection.hmm import NULL, Emissions

PAIRS = [("the house", "la casa"), ("the book", "il libro"), ("a book", "un libro"),
         ("a green house", "una casa verde"), ("green", "verde"), ("the house is green",
         "la casa \u00e8 verde"), ("the green book", "il libro verde")]


def test_words_are_learned_from_the_pairs_alone() -> None:
    links = align_words([(left.split(), right.split()) for left, right in PAIRS])
    assert [one.shape for one in links] == [(2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 3, 3), (2, 1, 1),
                                           (2, 4, 4), (2, 3, 3)]
    assert links[6].mean(axis=0).argmax(axis=0).tolist() == [0, 2, 1]
    assert all((one >= 0).all() and (one.sum(axis=1) <= 1.001).all() for one in
               (pair[0] for pair in links))


def test_alignment_does_not_depend_on_the_groups_that_are_computed_together(
        monkeypatch: pytest.MonkeyPatch) -> None:
    words = [(left.split(), right.split()) for left, right in PAIRS]
    together = align_words(words)
    monkeypatch.setattr(alignment, "_MOST_CELLS", 1)
    for one, other in zip(together, align_words(words), strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_sentences_without_words_are_left_out() -> None:
    links = align_words([([], ["a"]), (["b"], []), (["c"], ["d"]), ([], [])])
    assert [one.shape for one in links] == [(2, 0, 1), (2, 1, 0), (2, 1, 1), (2, 0, 0)]
    assert align_words([]) == []


def test_cells_are_grouped_once_each_in_both_directions() -> None:
    rng = np.random.default_rng(1)
    shapes = rng.integers(0, 9, (20, 2))
    cells = Cells([(np.arange(left), np.arange(right)) for left, right in shapes])
    for axis in (0, 1):
        seen = np.concatenate([group.cells.ravel() for group in cells.groups(axis)])
        assert np.sort(seen[seen < cells.offsets[-1]]).tolist() == list(range(cells.offsets[-1]))
        for group in cells.groups(axis):
            inside = group.cells < cells.offsets[-1]
            assert (inside.any(axis=2).sum(axis=1) == group.states).all()
            given = (cells.source, cells.target)[axis]
            for number, states in enumerate(group.states):
                assert given[group.cells[number, :states, 0]].tolist() == list(range(states))


def test_diagonal_posteriors_of_a_hand_worked_pair() -> None:
    words = np.array([[[0.5], [0.5]]], np.float32)
    found = diagonal_posteriors(Emissions(words, np.array([[0.2]]), np.array([2]), np.array([1])))
    # Both words are a quarter of the sentence off the diagonal.
    half = 0.5 * (1 - NULL) * 0.5
    assert found[0, :, 0] == pytest.approx([half / (2 * half + NULL * 0.2)] * 2)


@pytest.mark.parametrize(("one", "other", "expected"), [
    ("aritm", "aritm", 1), ("cel", "celul", 9 / 25), ("seno", "brest", 0), ("cas", "cade", 0.25),
    ("a" * 20, "a" * 30, 1)])
def test_likeness_is_that_of_beginnings(one: str, other: str, expected: float) -> None:
    zero = np.array([0])
    assert spelling_likeness([one], [other], zero, zero) == pytest.approx([expected])
