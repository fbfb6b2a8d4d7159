"""Projection by word alignment."""

from __future__ import annotations

import numpy as np
import pytest

from bmtools.translation.projection.align import AlignProjector, best_span
from bmtools.translation.projection.pairs import SentencePair

CORPUS = [SentencePair(*pair) for pair in (
    ("The patient has asthma.", "Il paziente ha l'asma."),
    ("The patient has severe fever.", "Il paziente ha una febbre grave."),
    ("Severe asthma was treated.", "L'asma grave \u00e8 stata trattata."),
    ("Fever was treated.", "La febbre \u00e8 stata trattata."))]


def words(pair: SentencePair, projector: AlignProjector) -> list[str | None]:
    [found] = projector.project([pair])
    return [one and pair.target[one.start:one.end] for one in found]


def test_spans_go_where_their_words_link() -> None:
    pair = SentencePair("The patient has severe asthma.", "Il paziente ha l'asma grave.",
                        ((16, 29), (4, 11), (29, 30)))
    projector = AlignProjector()
    projector.fit([*CORPUS, pair])
    assert words(pair, projector)[1:] == ["paziente", "."]
    assert str(words(pair, projector)[0]).endswith("asma grave")
    scores = [one.score for one in projector.project([pair])[0] if one]
    assert len(scores) == 3 and all(0 < score <= 1 for score in scores)


def test_pairs_that_were_not_fitted_are_learned_from_late() -> None:
    pair = SentencePair("Asthma.", "Asma.", ((0, 6),))
    assert words(pair, AlignProjector()) == ["Asma"]


def test_nothing_is_found_where_there_are_no_words() -> None:
    pairs = [SentencePair("Asthma.", "", ((0, 6),)), SentencePair(" -  x", "y", ((0, 1),)),
             SentencePair("x", "y")]
    assert AlignProjector().project(pairs) == [[None], [None], []]


def test_what_is_no_sentence_is_not_aligned() -> None:
    endless = SentencePair("Asthma. " * 1000, "Asma. " * 1000, ((0, 6),))
    short = SentencePair("Asthma.", "Asma.", ((0, 6),))
    [[nothing], [found]] = AlignProjector().project([endless, short])
    assert nothing is None and found is not None


@pytest.mark.parametrize(("links", "weights", "expected"), [
    ([[1, 0, 0], [0, 0.9, 0]], [1, 1, 1], (0, 1)),
    # The word between links elsewhere, but says little.
    ([[1, 0, 1], [0, 1, 0]], [1, 0.5, 1], (0, 5)),
    ([[1, 0, 1], [0, 1, 0]], [1, 1.5, 1.2], (4, 5)),
    ([[0, 0, 0], [1, 1, 1]], [1, 1, 1], None)])
def test_the_run_that_gains_most_is_taken(links: list[list[float]], weights: list[float],
                                          expected: tuple[int, int] | None) -> None:
    found = best_span(np.array(links), np.array([True, False]), np.array(weights),
                      [(0, 1), (2, 3), (4, 5)])
    assert (found and (found.start, found.end)) == expected
