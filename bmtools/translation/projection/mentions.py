"""Projection by searching for translations of the mention, from an engine or a list of terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from bmtools.translation.bilingual import read_pairs
from bmtools.translation.projection.links import best_match
from bmtools.translation.projection.pairs import Places, Projection, SentencePair, Span

_LEAST = 0.5
"""Minimum score of a place."""


class DictionaryProjector:
    """Projector that searches for known translations of mentions, in inflected forms too.

    It searches for translations from a list of terms, for the engine's translation of the mention
    on its own, and for the mention itself. The mention itself finds names, drugs and words that
    both languages took from Latin. The chosen place is most similar to one of these, and near the
    relative position of the mention.

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
        """Find each span of each pair; None if no words resemble one of its translations."""
        return [[self._place(pair, number) for number in range(len(pair.spans))] for pair in pairs]

    def _place(self, pair: SentencePair, number: int) -> Projection | None:
        start, end = pair.spans[number]
        expected = (start + end) / max(1, 2 * len(pair.source))
        found = [place for phrase in dict.fromkeys(self._translations(pair, number))
                 if (place := best_match(phrase, pair.target, expected))]
        best = max(found, key=lambda place: place.score, default=None)
        return best if best and best.score >= _LEAST else None

    def _translations(self, pair: SentencePair, number: int) -> Iterator[str]:
        """Yield possible translations of the mention."""
        start, end = pair.spans[number]
        mention = pair.source[start:end]
        if self._pattern and self._pattern.search(mention):
            # Replace terms inside a longer mention, by each of their translations in turn.
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
    """Read a list of terms, in the TSV or TMX format of translation memories.

    Args:
        path: path of the file.
        source: ISO 639-1 code.
        target: ISO 639-1 code.

    Raises:
        DataError: the file is missing, or does not contain both languages.
    """
    terms: dict[str, list[str]] = {}
    for term, translation in read_pairs(path, source, target):
        terms.setdefault(term, []).append(translation)
    return terms


def project_exactly(pairs: Sequence[SentencePair]) -> Places:
    """Find mentions by their exact words, ignoring case.

    If an engine translated the mention on its own, its translation is searched for first. Then the
    mention itself is searched for, because numbers, drugs and names need no translation. Of several
    occurrences, the one nearest to the mention's relative position is chosen.

    Source: BioBIT (Buonocore et al. 2023), translation of the annotated sets.
    """
    return [[_nearest(pair, number) for number in range(len(pair.spans))] for pair in pairs]


def _nearest(pair: SentencePair, number: int) -> Projection | None:
    """Find the occurrence of a mention nearest to its relative position, or None.

    The score is 1 minus the distance from that position, as a share of the target's length.
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
    """Find the occurrences of a mention as whole words; for an acronym, first match its case."""
    words = r"\s+".join(map(re.escape, mention.split()))
    ways = (re.NOFLAG, re.IGNORECASE) if any(map(str.isupper, mention[1:])) else (re.IGNORECASE,)
    for flags in ways if words else ():
        found = [match.span() for match in re.finditer(rf"(?<!\w){words}(?!\w)", text, flags)]
        if found:
            return found
    return []
