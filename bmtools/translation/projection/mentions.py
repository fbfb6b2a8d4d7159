"""Projection by translations of the mention itself: from an engine, or a list of terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from bmtools.translation.bilingual import read_pairs
from bmtools.translation.projection.links import best_match
from bmtools.translation.projection.pairs import Places, Projection, SentencePair, Span

_LEAST = 0.5
"""Score below which a place is none."""


class DictionaryProjector:
    """Projector of mentions whose translation is known, in any form that the target has it in.

    Translations are those that a list of terms has, that an engine gave for the mention alone, and
    the mention as it is, which finds names, drugs and words that both languages have from Latin.
    The place that is most like one of them counts, the nearer to the relative position of the
    mention the better.

    Args:
        terms: translations by term.
    """

    def __init__(self, terms: Mapping[str, Sequence[str]] | None = None) -> None:
        self._terms = {term.casefold(): list(found) for term, found in (terms or {}).items()}
        longest_first = sorted(self._terms, key=len, reverse=True)
        self._pattern = re.compile(
            rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE) \
            if longest_first else None

    def project(self, pairs: Sequence[SentencePair]) -> Places:
        """Find each span of each pair; None where nothing is like one of its translations."""
        return [[self._place(pair, number) for number in range(len(pair.spans))] for pair in pairs]

    def _place(self, pair: SentencePair, number: int) -> Projection | None:
        start, end = pair.spans[number]
        expected = (start + end) / max(1, 2 * len(pair.source))
        found = [place for phrase in dict.fromkeys(self._translations(pair, number))
                 if (place := best_match(phrase, pair.target, expected))]
        best = max(found, key=lambda place: place.score, default=None)
        return best if best and best.score >= _LEAST else None

    def _translations(self, pair: SentencePair, number: int) -> Iterator[str]:
        """Yield what the mention may be called in the target."""
        start, end = pair.spans[number]
        mention = pair.source[start:end]
        if self._pattern and self._pattern.search(mention):
            # Terms within a longer mention are replaced; of several translations each in turn.
            most = max(len(self._terms[one.casefold()]) for one in self._pattern.findall(mention))
            for turn in range(most):
                yield self._pattern.sub(partial(self._term, turn), mention)
        if pair.mentions and pair.mentions[number]:
            yield pair.mentions[number]
        yield mention

    def _term(self, turn: int, term: re.Match[str]) -> str:
        found = self._terms[term[0].casefold()]
        return found[turn % len(found)]


def read_glossary(path: Path, source: str, target: str) -> dict[str, list[str]]:
    """Read a list of terms, a TSV or TMX file as of a translation memory.

    Args:
        path: of the file.
        source: ISO 639-1.
        target: ISO 639-1.

    Raises:
        DataError: no such file, or without the two languages.
    """
    terms: dict[str, list[str]] = {}
    for term, translation in read_pairs(path, source, target):
        terms.setdefault(term, []).append(translation)
    return terms


def project_exactly(pairs: Sequence[SentencePair]) -> Places:
    """Find the mentions that the translation repeats, in any case of its letters.

    The translation of the mention by itself is looked for where an engine was asked for it, and
    otherwise the mention as it is: numbers, drugs and names need no translation. Of several
    occurrences the one whose relative position is nearest to the mention's counts.

    Source: BioBIT (Buonocore et al. 2023), translation of the annotated sets.
    """
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


def _occurrences(mention: str, text: str) -> list[Span]:
    """Find the occurrences of a mention as whole words, an acronym in its own letters first."""
    words = r"\s+".join(map(re.escape, mention.split()))
    ways = (re.NOFLAG, re.IGNORECASE) if any(map(str.isupper, mention[1:])) else (re.IGNORECASE,)
    for flags in ways if words else ():
        found = [match.span() for match in re.finditer(rf"(?<!\w){words}(?!\w)", text, flags)]
        if found:
            return found
    return []
