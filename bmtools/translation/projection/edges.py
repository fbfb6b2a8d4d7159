"""Rules that correct the starts and ends of projected spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bmtools.translation.function_words import function_words
from bmtools.translation.projection.links import plain_words, word_spans
from bmtools.translation.projection.pairs import Projection, SentencePair

CLAUSE = 8
"""Spans of at least this many words are taken for clauses, whose subject has its article."""
_FUNCTIONS = ("determiners", "prepositions", "conjunctions", "pronouns")
_STOPS = frozenset(".,;:!?")
_BRACKETS = {"(": ")", "[": "]", "{": "}", "«": "»", "“": "”"}


class Sentence:
    """Words of a sentence.

    Args:
        text: the sentence.
        language: its ISO 639-1 code; empty if it is not known.

    Attributes:
        text: the sentence.
        words: words in lower case, without the apostrophe of an elision; acronyms keep their case,
            because they may be spelled like a function word.
        spans: start and end of each word.
        kinds: function words by kind.
    """

    def __init__(self, text: str, language: str) -> None:
        self.text, self.spans = text, word_spans(text)
        self.words = [text[start:end] if len(plain) > 1 and text[start:end].isupper() else plain
                      for (start, end), plain in zip(self.spans, plain_words(text), strict=True)]
        self.kinds = function_words(language)

    def has(self, at: int, *kinds: str) -> bool:
        """Return whether a word has one of these kinds; False outside the sentence."""
        return 0 <= at < len(self.words) and any(
            self.words[at] in self.kinds.get(kind, ()) for kind in kinds)

    def is_function(self, at: int) -> bool:
        """Return whether a word is a function word."""
        return self.has(at, *_FUNCTIONS)

    def is_sign(self, at: int) -> bool:
        """Return whether a word is a sign, such as a comma."""
        return 0 <= at < len(self.words) and not any(map(str.isalnum, self.words[at]))

    def range_of(self, start: int, end: int) -> tuple[int, int]:
        """Return the number of the first word that a span touches, and of the word after it."""
        inside = [number for number, (first, last) in enumerate(self.spans)
                  if first < end and start < last]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)


@dataclass
class _Span:
    """A span during correction, in words: `a` to `b` in the source, `c` to `d` in the target.

    The source is never changed; `is_corrected` is True if the target was changed.
    """

    source: Sentence
    target: Sentence
    a: int
    b: int
    c: int
    d: int
    is_corrected: bool = False

    @property
    def is_clause(self) -> bool:
        """Whether the span looks like a clause: it is long, has a stop at its end or a verb."""
        words = [at for at in range(self.a, self.b) if not self.source.is_sign(at)]
        return len(words) >= CLAUSE or self.source.words[self.b - 1] in _STOPS \
            or any(self.source.has(at, "auxiliaries") for at in words)


def correct_edges(pair: SentencePair, found: Sequence[Projection | None], source_lang: str,
               target_lang: str) -> list[Projection | None]:
    """Correct the starts and ends of a pair's spans, whatever method found them.

    Args:
        pair: sentences and spans.
        found: place of each span.
        source_lang: language of the source, ISO 639-1; empty if it is not known.
        target_lang: language of the translation; likewise.
    """
    source, target = Sentence(pair.source, source_lang), Sentence(pair.target, target_lang)
    spans = [None if one is None else
             _Span(source, target, *source.range_of(start, end),
                   *target.range_of(one.start, one.end))
             for (start, end), one in zip(pair.spans, found, strict=True)]
    for rule in (_cover_sentence, _reach_start, _cut_auxiliary, _cut_loose_end, _cut_loose_start,
                 _adjust_determiner, _adjust_punctuation, _close_brackets):
        for span in filter(None, spans):
            if span.a < span.b and span.c < span.d:
                before = span.c, span.d
                rule(span)
                span.is_corrected |= (span.c, span.d) != before
    _fill_gaps(spans)
    return [replace(one, start=target.spans[span.c][0], end=target.spans[span.d - 1][1],
                    is_corrected=True) if one and span and span.is_corrected else one
            for one, span in zip(found, spans, strict=True)]


def _cover_sentence(span: _Span) -> None:
    """Cover the complete translation if the span covers its sentence."""
    outside = [*range(span.a), *range(span.b, len(span.source.words))]
    if all(map(span.source.is_sign, outside)):
        span.c, span.d = 0, len(span.target.words)


def _reach_start(span: _Span) -> None:
    """Include the function words before a clause at the start of its sentence."""
    before = range(span.c)
    if span.is_clause and all(map(span.source.is_sign, range(span.a))) and all(
            span.target.is_sign(at) or span.target.is_function(at) for at in before):
        span.c = 0


def _cut_auxiliary(span: _Span) -> None:
    """Leave out an auxiliary at the end of a name, unless it is written in capitals."""
    target = span.target
    while not span.is_clause and span.c < span.d - 1 and target.has(span.d - 1, "auxiliaries") \
            and not target.text[slice(*target.spans[span.d - 1])].isupper():
        span.d -= 1


def _cut_loose_end(span: _Span) -> None:
    """Leave out function words at the end, and conjunctions at the start, unless the source has
    them.
    """
    source, target = span.source, span.target
    last = span.b - 1
    while last > span.a and source.is_sign(last):
        last -= 1
    if not source.is_function(last):
        while span.d - 1 > span.c and target.is_function(span.d - 1):
            span.d -= 1
    if source.has(span.a - 1, "conjunctions") and not source.has(span.a, "conjunctions"):
        while span.c < span.d - 1 and target.has(span.c, "conjunctions"):
            span.c += 1


def _cut_loose_start(span: _Span) -> None:
    """Leave out function words at the start of a name that does not start with one in the source.
    """
    if not span.is_clause and not span.source.is_function(span.a):
        while span.c < span.d - 1 and span.target.is_function(span.c):
            span.c += 1


def _adjust_determiner(span: _Span) -> None:
    """Include a determiner at the start if the source has one, or if the span is a clause."""
    source, target = span.source, span.target
    takes_one = source.has(span.a, "determiners") or (
        span.is_clause and not source.has(span.a - 1, "determiners"))
    if takes_one and target.has(span.c - 1, "determiners") \
            and not target.has(span.c, "determiners"):
        span.c -= 1


def _adjust_punctuation(span: _Span) -> None:
    """End with a stop exactly if the source does; begin with a sign only if the source does."""
    source, target = span.source, span.target
    while not source.is_sign(span.a) and span.c < span.d - 1 and target.is_sign(span.c) \
            and target.words[span.c] not in _BRACKETS and target.words[span.c] not in "\"'":
        span.c += 1
    if source.words[span.b - 1] in _STOPS:
        if span.d < len(target.words) and target.words[span.d] in _STOPS:
            span.d += 1
    else:
        while span.d - 1 > span.c and target.words[span.d - 1] in _STOPS:
            span.d -= 1


def _close_brackets(span: _Span) -> None:
    """Include the bracket that closes a bracket in the span, or leave out half of a pair."""
    words = span.target.words
    inside = words[span.c:span.d]
    for opening, closing in _BRACKETS.items():
        surplus = inside.count(opening) - inside.count(closing)
        if surplus > 0 and span.d < len(words) and words[span.d] == closing:
            span.d += 1
        elif surplus > 0 and words[span.c] == opening and span.d - span.c > 1:
            span.c += 1
        elif surplus < 0 and words[span.d - 1] == closing and span.d - span.c > 1 \
                and span.source.words[span.b - 1] != closing:
            span.d -= 1


def _fill_gaps(spans: Sequence[_Span | None]) -> None:
    """Make neighbours in the source neighbours in the target if only function words separate them.
    """
    for left, right in pairwise(sorted(filter(None, spans), key=lambda span: (span.a, span.b))):
        gap = range(left.d, right.c)
        if left.b == right.a and gap and all(map(right.target.is_function, gap)):
            right.c, right.is_corrected = left.d, True
