"""Projection by translating sentences with marks around their spans."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bmtools.translation.engines.engine import Translator, translate_all
from bmtools.translation.projection.links import (
    likeness_table,
    linked_place,
    monotone_links,
    mutual_links,
)
from bmtools.translation.projection.pairs import Places, Projection, SentencePair, Span

_PHRASE = 4  # words; longer spans are taken for clauses
BRACKETS = ("[]", "{}", "()", "<>", "\u00ab\u00bb")


def project_by_markers(pairs: Sequence[SentencePair], translator: Translator) -> Places:
    """Find each span of each pair by translating the sentence with brackets around the span.

    Marks make translations worse. Therefore the words of the marked translation are only searched
    for in the clean translation, by their similarity and order. If there are several spans, their
    brackets contain numbers. A span is None if the engine lost its marks.

    Source: Chen et al. 2023 (EasyProject), which keeps the marked translation. Like CODEC (Le et
    al. 2024), this function keeps the clean translation.

    Args:
        pairs: sentences and spans.
        translator: engine for the languages of the pairs.
    """
    marked = [mark_spans(pair.source, pair.spans, brackets_for(pair.source)) for pair in pairs]
    translations = translate_all(translator, (
        one for one, pair in zip(marked, pairs, strict=True) if pair.spans))
    return [_places(pair, translations.get(one, ""))
            for one, pair in zip(marked, pairs, strict=True)]


def mark_spans(sentence: str, spans: Sequence[Span], brackets: str) -> str:
    """Put brackets around spans, with numbers if there are several spans."""
    opening, closing = brackets[0], brackets[1]
    marks = []
    for number, (start, end) in enumerate(spans):
        left, right = (f"{number + 1} ", f" {number + 1}") if len(spans) > 1 else ("", "")
        # At the same offset, ends come before starts, and longer spans start first.
        marks += [(start, 1, -end, f"{opening}{left}"), (end, 0, -start, f"{right}{closing}")]
    marked, at = [], 0
    for offset, _, _, mark in sorted(marks):
        marked += [sentence[at:offset], mark]
        at = offset
    return "".join([*marked, sentence[at:]])


def brackets_for(sentence: str, kinds: Sequence[str] = BRACKETS) -> str:
    """Return the first kind of bracket that a sentence does not contain, or the last kind."""
    return next((pair for pair in kinds if not set(pair) & set(sentence)), kinds[-1])


def find_marks(text: str, brackets: str, count: int) -> tuple[str, list[Span | None]]:
    """Remove the brackets from a text, and find the spans inside them.

    Args:
        text: a translation.
        brackets: kind of bracket from `brackets_for`.
        count: number of spans.

    Returns:
        the text without marks, and the place of each span in it; None if a mark is missing.
    """
    opening, closing = map(re.escape, brackets)
    # Bounded: runs of blanks or digits would take quadratic time.
    number, blanks = r"(\d{1,6})" if count > 1 else "()", r"\s{0,9}"
    clean, at = "", 0
    starts: dict[int, int] = {}
    found: list[Span | None] = [None] * count
    for mark in re.finditer(
            rf"{opening}{blanks}{number}\s*|{blanks}{number}{blanks}{closing}", text):
        clean += text[at:mark.start()]
        at = mark.end()
        which = int(mark[1] or mark[2] or 1) - 1
        if mark[0].startswith(brackets[0]):
            starts.setdefault(which, len(clean))
        elif which < count and which in starts and starts[which] < len(clean):
            found[which] = starts[which], len(clean)
    return clean + text[at:], found


def _places(pair: SentencePair, translation: str) -> list[Projection | None]:
    """Find marked spans in the clean translation."""
    clean, spans = find_marks(translation, brackets_for(pair.source), len(pair.spans))
    if not any(spans):
        return [None] * len(spans)
    table, words, places = likeness_table(clean, pair.target)
    # A complete phrase may have moved; a clause is also found by the order of its words.
    anywhere = mutual_links(table)
    ordered = anywhere + monotone_links(table)
    return [span and linked_place(
        anywhere if len(clean[slice(*span)].split()) <= _PHRASE else ordered, words, places, span)
        for span in spans]
