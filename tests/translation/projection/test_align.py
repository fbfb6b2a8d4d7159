"""Word alignment, its hidden Markov model compared with brute force, and projection by it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from bmtools.translation.projection import align
from bmtools.translation.projection.align import (
    FARTHEST,
    NULL,
    align_words,
    best_span,
    diagonal_posteriors,
    hmm_posteriors,
    initial_jumps,
    project_by_alignment,
    spelling_likeness,
)
from bmtools.translation.projection.pairs import SentencePair

CORPUS = [SentencePair(*pair) for pair in (
    ("The patient has asthma.", "Il paziente ha l'asma."),
    ("The patient has severe fever.", "Il paziente ha una febbre grave."),
    ("Severe asthma was treated.", "L'asma grave \u00e8 stata trattata."),
    ("Fever was treated.", "La febbre \u00e8 stata trattata."))]


def words(pair: SentencePair, corpus: Sequence[SentencePair] = ()) -> list[str | None]:
    found = project_by_alignment([*corpus, pair])[-1]
    return [one and pair.target[one.start:one.end] for one in found]


def test_spans_go_where_their_words_link() -> None:
    pair = SentencePair("The patient has severe asthma.", "Il paziente ha l'asma grave.",
                        ((16, 29), (4, 11), (29, 30)))
    assert words(pair, CORPUS)[1:] == ["paziente", "."]
    assert str(words(pair, CORPUS)[0]).endswith("asma grave")
    scores = [one.score for one in project_by_alignment([*CORPUS, pair])[-1] if one]
    assert len(scores) == 3 and all(0 < score <= 1 for score in scores)


def test_spans_without_linked_words_are_not_found() -> None:
    pairs = [SentencePair("Asthma.", "", ((0, 6),)), SentencePair(" -  x", "y", ((0, 1),)),
             SentencePair("x", "y")]
    assert project_by_alignment(pairs) == [[None], [None], []]


def test_texts_too_long_for_sentences_are_not_aligned() -> None:
    endless = SentencePair("Asthma. " * 1000, "Asma. " * 1000, ((0, 6),))
    short = SentencePair("Asthma.", "Asma.", ((0, 6),))
    [[nothing], [found]] = project_by_alignment([endless, short])
    assert nothing is None and found is not None


@pytest.mark.parametrize(("links", "weights", "expected"), [
    ([[1, 0, 0], [0, 0.9, 0]], [1, 1, 1], (0, 1)),
    # The word between them links elsewhere, but has a low weight.
    ([[1, 0, 1], [0, 1, 0]], [1, 0.5, 1], (0, 5)),
    ([[1, 0, 1], [0, 1, 0]], [1, 1.5, 1.2], (4, 5)),
    ([[0, 0, 0], [1, 1, 1]], [1, 1, 1], None)])
def test_run_with_the_greatest_sum_is_chosen(links: list[list[float]], weights: list[float],
                                             expected: tuple[int, int] | None) -> None:
    found = best_span(np.array(links), np.array([True, False]), np.array(weights),
                      [(0, 1), (2, 3), (4, 5)])
    assert (found and (found.start, found.end)) == expected


@pytest.mark.parametrize(("links", "edge"), [
    ([[0, 1, 0], [1, 0, 1]], 1), ([[0.3, 1, 0], [0.7, 0, 1]], 0.7),
    ([[0, 1, 0.4], [1, 0, 0.6]], 0.6), ([[1, 1, 0.8], [0, 0, 0.2]], 0.8)])
def test_edge_score_is_the_difference_from_the_words_outside(links: list[list[float]],
                                                             edge: float) -> None:
    found = best_span(np.array(links), np.array([True, False]), np.array([1, 1, 0.1]),
                      [(0, 1), (2, 3), (4, 5)])
    assert found is not None
    assert found.edge == pytest.approx(edge, abs=0.01)


PAIRS = [("the house", "la casa"), ("the book", "il libro"), ("a book", "un libro"),
         ("a green house", "una casa verde"), ("green", "verde"), ("the house is green",
         "la casa \u00e8 verde"), ("the green book", "il libro verde")]


def test_words_are_aligned_from_the_pairs() -> None:
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
    monkeypatch.setattr(align, "_MOST_CELLS", 1)
    for one, other in zip(together, align_words(words), strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_sentences_without_words_are_left_out() -> None:
    links = align_words([([], ["a"]), (["b"], []), (["c"], ["d"]), ([], [])])
    assert [one.shape for one in links] == [(2, 0, 1), (2, 1, 0), (2, 1, 1), (2, 0, 0)]
    assert align_words([]) == []


def test_diagonal_posteriors_of_a_hand_worked_pair() -> None:
    words = np.array([[[0.5], [0.5]]], np.float32)
    found = diagonal_posteriors(words, np.array([[0.2]]), np.array([2]), np.array([1]))
    # Both words are at a distance of a quarter of the sentence from the diagonal.
    half = 0.5 * (1 - NULL) * 0.5
    assert found[0, :, 0] == pytest.approx([half / (2 * half + NULL * 0.2)] * 2)


@pytest.mark.parametrize(("one", "other", "expected"), [
    ("aritm", "aritm", 1), ("cel", "celul", 9 / 25), ("seno", "brest", 0), ("cas", "cade", 0.25),
    ("a" * 20, "a" * 30, 1)])
def test_spelling_is_compared_by_common_beginnings(one: str, other: str, expected: float) -> None:
    zero = np.array([0])
    assert spelling_likeness([one], [other], zero, zero) == pytest.approx([expected])


def brute_force(words: np.ndarray, null: np.ndarray, jumps: np.ndarray,
                ) -> tuple[np.ndarray, np.ndarray]:
    """Sum over all paths; a state is a word, or a word remembered while the null word emits."""
    states, positions = words.shape
    moves = np.array([[jumps[b - a + FARTHEST] for b in range(states)] for a in range(states)])
    moves /= moves.sum(axis=1, keepdims=True)
    posteriors, expected, total = np.zeros_like(words), np.zeros(len(jumps)), 0.0
    for path in product(range(2 * states), repeat=positions):
        probability = 1.0
        taken = []
        for position, state in enumerate(path):
            here, is_null = state % states, state >= states
            if position == 0:
                probability /= states
            elif is_null:
                probability *= path[position - 1] % states == here
            else:
                probability *= moves[path[position - 1] % states, here]
                taken.append(here - path[position - 1] % states + FARTHEST)
            probability *= NULL * null[position] if is_null else \
                (1 - NULL) * words[here, position]
        total += probability
        for position, state in enumerate(path):
            if state < states:
                posteriors[state, position] += probability
        for jump in taken:
            expected[jump] += probability
    return posteriors / total, expected / total


def test_posteriors_and_jumps_equal_brute_force() -> None:
    rng = np.random.default_rng(3)
    sizes = [(3, 4), (2, 3), (1, 2)]
    words, null = np.zeros((3, 3, 4), np.float32), np.ones((3, 4), np.float32)
    jumps = initial_jumps() * rng.uniform(0.5, 2, 2 * FARTHEST + 1)
    wanted, expected = [], np.zeros(len(jumps))
    for number, (states, positions) in enumerate(sizes):
        words[number, :states, :positions] = rng.random((states, positions))
        words[number, :states, positions:] = 1
        null[number, :positions] = rng.random(positions)
        found, moved = brute_force(words[number, :states, :positions].astype(float),
                                   null[number, :positions].astype(float), jumps)
        wanted.append(found)
        expected += moved
    posteriors, counts = hmm_posteriors(words, null, *np.array(sizes).T, jumps)
    for number, (states, positions) in enumerate(sizes):
        assert posteriors[number, :states, :positions] == pytest.approx(wanted[number], abs=1e-5)
        assert not posteriors[number, states:].any() and not posteriors[number, :, positions:].any()
    assert counts == pytest.approx(expected, abs=1e-5)
