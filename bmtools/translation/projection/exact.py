"""Projection by words: the occurrence of a translated mention nearest to where it should be."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bmtools.translation.projection.pairs import Projection, Projector, SentencePair


class ExactProjector(Projector):
    """Projector of mentions that the translation repeats in any case of its letters.

    The translation of the mention by itself is looked for where an engine was asked for it, and
    otherwise the mention as it is: numbers, drugs and names need no translation. Of several
    occurrences the one whose relative position is nearest to the mention's counts.

    Source: BioBIT (Buonocore et al. 2023), translation of the annotated sets.
    """

    name = "exact"

    def project(self, pairs: Sequence[SentencePair]) -> list[list[Projection | None]]:
        """Find each span of each pair; None where its words are not in the target."""
        return [[_nearest(pair, number) for number in range(len(pair.spans))] for pair in pairs]


def _nearest(pair: SentencePair, number: int) -> Projection | None:
    """Find the occurrence of a mention nearest to its relative position; None without one.

    The score is the share of the target that lies not between that position and the occurrence.
    """
    start, end = pair.spans[number]
    expected = len(pair.target) * (start + end) / max(1, 2 * len(pair.source))
    translated = pair.mentions[number] if pair.mentions else ""
    found = _occurrences(translated, pair.target) or \
        _occurrences(pair.source[start:end], pair.target)
    if not found:
        return None
    first, last = min(found, key=lambda span: abs(sum(span) / 2 - expected))
    return Projection(first, last, 1 - abs((first + last) / 2 - expected) / len(pair.target))


def _occurrences(mention: str, text: str) -> list[tuple[int, int]]:
    """Find the occurrences of a mention as whole words, an acronym in its own letters first."""
    words = r"\s+".join(map(re.escape, mention.split()))
    ways = (re.NOFLAG, re.IGNORECASE) if any(map(str.isupper, mention[1:])) else (re.IGNORECASE,)
    for flags in ways if words else ():
        found = [match.span() for match in re.finditer(rf"(?<!\w){words}(?!\w)", text, flags)]
        if found:
            return found
    return []
