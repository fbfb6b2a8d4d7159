"""Projection by marks around the spans, which an engine translates or whose places it scores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bmtools.errors import CheckpointError
from bmtools.translation.engines.engine import Translator, translate_all
from bmtools.translation.projection.links import (
    likeness_table,
    linked_place,
    monotone_links,
    mutual_links,
    word_spans,
)
from bmtools.translation.projection.pairs import Projection, SentencePair, Span

if TYPE_CHECKING:
    from bmtools.translation.engines.neural import NeuralTranslator

_OPENINGS = 4
"""Best openings whose closings are tried."""
_LONGER = 3
"""A place has at most so many times the words of its span, and so many more."""
_SPANS_AT_ONCE = 32
_PHRASE = 4  # words, up to which a span is taken for a phrase
BRACKETS = ("[]", "{}", "()", "<>", "\u00ab\u00bb")


class MarkersProjector:
    """Projector by brackets around the spans, which are translated with the sentence.

    Marks make translations worse, so the words of the marked translation are only looked up in the
    clean one, by their likeness and order. Several spans have numbers behind their brackets.

    Source: Chen et al. 2023 (EasyProject), which keeps the marked translation; the clean one is
    kept as in CODEC (Le et al. 2024).

    Args:
        translator: engine for the languages of the pairs.
    """

    name = "markers"

    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def project(self, pairs: Sequence[SentencePair]) -> list[list[Projection | None]]:
        """Find each span of each pair; None where the engine lost its marks."""
        marked = [mark_spans(pair.source, pair.spans, brackets_for(pair.source)) for pair in pairs]
        translations = translate_all(self._translator, (
            one for one, pair in zip(marked, pairs, strict=True) if pair.spans))
        return [_places(pair, translations.get(one, ""))
                for one, pair in zip(marked, pairs, strict=True)]


def mark_spans(sentence: str, spans: Sequence[Span], brackets: str) -> str:
    """Put brackets around spans, with a number each where there are several."""
    opening, closing = brackets[0], brackets[1]
    marks = []
    for number, (start, end) in enumerate(spans):
        left, right = (f"{number + 1} ", f" {number + 1}") if len(spans) > 1 else ("", "")
        # At one offset spans end before others begin, and the longer one begins first.
        marks += [(start, 1, -end, f"{opening}{left}"), (end, 0, -start, f"{right}{closing}")]
    marked, at = [], 0
    for offset, _, _, mark in sorted(marks):
        marked += [sentence[at:offset], mark]
        at = offset
    return "".join([*marked, sentence[at:]])


def brackets_for(sentence: str, kinds: Sequence[str] = BRACKETS) -> str:
    """Return the first kind of bracket that a sentence does not contain, or else the last one."""
    return next((pair for pair in kinds if not set(pair) & set(sentence)), kinds[-1])


def find_marks(text: str, brackets: str, count: int) -> tuple[str, list[Span | None]]:
    """Take the brackets out of a text, and find the spans that they were around.

    Args:
        text: a translation.
        brackets: as `brackets_for` chose them.
        count: of spans.

    Returns:
        the text without marks, and for each span its place there; None where a mark is missing.
    """
    opening, closing = map(re.escape, brackets)
    number = r"(\d+)" if count > 1 else "()"
    clean, at = "", 0
    starts: dict[int, int] = {}
    found: list[Span | None] = [None] * count
    for mark in re.finditer(rf"{opening}\s*{number}\s*|\s*{number}\s*{closing}", text):
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
    # A phrase may have moved as a whole; a clause is found by the order of its words as well.
    anywhere = mutual_links(table)
    ordered = anywhere + monotone_links(table)
    return [span and linked_place(
        anywhere if len(clean[slice(*span)].split()) <= _PHRASE else ordered, words, places, span)
        for span in spans]


@dataclass(frozen=True)
class _Question:
    """A span to be found.

    Args:
        source: tokens of the sentence, the span marked.
        target: the translation, without marks.
        words: places of its words.
        brackets: the marks.
        longest: words of the longest place.
    """

    source: list[str]
    target: str
    words: list[Span]
    brackets: str
    longest: int


class ScoreProjector:
    """Projector by forced decoding of the translation with marks in every place.

    The model reads the sentence with the span in brackets. First each place of the opening bracket
    is scored, with what is before it; for the best ones each place of the closing bracket, with the
    whole sentence. Without its training on marks, the model must have met brackets in its own.

    Source: Le et al. 2024 (CODEC, arXiv 2402.03131), section 3: constrained decoding there, by a
    depth-first search with a bound; here a beam of openings and a limit to the length, so that all
    places are scored in two batches.

    Args:
        translator: neural engine for the languages of the pairs.

    Raises:
        CheckpointError: the model's vocabulary has no brackets.
    """

    name = "score"

    def __init__(self, translator: NeuralTranslator) -> None:
        self._translator = translator
        subwords = translator.subwords
        unknown = subwords.tokenizer.unk_token
        self._brackets = tuple(pair for pair in BRACKETS if unknown not in subwords.encode(pair))
        if not self._brackets:
            raise CheckpointError(f"{translator.settings.model}: its vocabulary has none of the "
                                  f"brackets {' '.join(BRACKETS)}, with which spans are marked")

    def project(self, pairs: Sequence[SentencePair]) -> list[list[Projection | None]]:
        """Find each span of each pair; None where the sentence is too long for the model."""
        found: list[list[Projection | None]] = [[None] * len(pair.spans) for pair in pairs]
        places = [(at, number) for at, pair in enumerate(pairs)
                  for number in range(len(pair.spans))]
        for start in range(0, len(places), _SPANS_AT_ONCE):
            batch = places[start:start + _SPANS_AT_ONCE]
            questions = [self._question(pairs[at], pairs[at].spans[number]) for at, number in batch]
            for (at, number), place in zip(batch, self._answers(questions), strict=True):
                found[at][number] = place
        return found

    def _question(self, pair: SentencePair, span: Span) -> _Question:
        brackets = brackets_for(pair.source + pair.target, self._brackets)
        source = self._translator.subwords.encode(mark_spans(pair.source, [span], brackets))
        return _Question(source, pair.target, word_spans(pair.target), brackets,
                         _LONGER * len(word_spans(pair.source[slice(*span)])) + _LONGER)

    def _answers(self, questions: Sequence[_Question]) -> list[Projection | None]:
        """Find the likeliest place of each span."""
        openings = self._scores(
            [(question, question.target[:start] + question.brackets[0])
             for question in questions for start, _ in question.words], whole=False)
        candidates: list[list[Span]] = []
        for question, scores in zip(questions, _parts(openings, [
                len(question.words) for question in questions]), strict=True):
            best = np.argsort(-scores, kind="stable")[:_OPENINGS]
            candidates.append([
                (question.words[low][0], end) for low in best.tolist() if np.isfinite(scores[low])
                for _, end in question.words[low:low + question.longest]])
        scores = self._scores([(question, mark_spans(question.target, [span], question.brackets))
                               for question, spans in zip(questions, candidates, strict=True)
                               for span in spans], whole=True)
        return [_likeliest(*both) for both in zip(
            candidates, _parts(scores, list(map(len, candidates))), strict=True)]

    def _scores(self, candidates: Sequence[tuple[_Question, str]], whole: bool) -> np.ndarray:
        """Return the log-probability of each text, with its end or without; -inf if too long."""
        subwords = self._translator.subwords
        sources = [question.source for question, _ in candidates]
        targets = [subwords.encode_target(text) for _, text in candidates]
        fitting = [number for number, both in enumerate(zip(sources, targets, strict=True))
                   if max(map(len, both)) <= subwords.max_length]
        scores = np.full(len(candidates), -np.inf)
        found = self._translator.score([sources[number] for number in fitting],
                                       [targets[number] for number in fitting])
        for number, tokens in zip(fitting, found, strict=True):
            scores[number] = sum(tokens if whole else tokens[:-1])
        return scores


def _parts(values: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
    """Cut an array into parts of these lengths."""
    return np.split(values, np.cumsum(lengths)[:-1])


def _likeliest(spans: Sequence[Span], scores: np.ndarray) -> Projection | None:
    """Choose the likeliest place; its score is its share of the probability of all."""
    from scipy.special import softmax

    if not np.isfinite(scores).any():
        return None
    best = int(scores.argmax())
    return Projection(*spans[best], float(softmax(scores)[best]))
