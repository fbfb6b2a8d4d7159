"""Projection by exact words."""

from __future__ import annotations

import pytest

from bmtools.translation.projection.exact import ExactProjector
from bmtools.translation.projection.pairs import SentencePair


@pytest.mark.parametrize(("source", "target", "span", "mention", "expected"), [
    ("Aspirin helps.", "L'aspirin aiuta.", (0, 7), "", (2, 9)),
    ("Pain, then fever.", "Dolore, poi dolore, poi febbre.", (0, 4), "dolore", (0, 6)),
    ("Then pain.", "Dolore, poi dolore.", (5, 9), "dolore", (12, 18)),
    ("DA falls.", "Da ieri DA cala.", (0, 2), "", (8, 10)),
    ("In 5 mg", "15 mg, 5 mg", (3, 4), "", (7, 8)),
    ("Severe pain", "Dolore  intenso", (0, 11), "dolore intenso", (0, 15)),
    ("Fever.", "Febbre.", (0, 5), "", None),
    ("C++ x", "x C++", (0, 3), "", (2, 5))])
def test_the_nearest_occurrence_is_taken(
        source: str, target: str, span: tuple[int, int], mention: str,
        expected: tuple[int, int] | None) -> None:
    projector = ExactProjector()
    pair = SentencePair(source, target, (span,), (mention,))
    projector.fit([pair])
    [[found]] = projector.project([pair])
    assert (found and (found.start, found.end)) == expected
    assert found is None or 0 < found.score <= 1
