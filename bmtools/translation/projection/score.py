"""Projection by the translating model: which place of the marks makes the translation likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bmtools.errors import CheckpointError
from bmtools.translation.engines.neural import NeuralTranslator
from bmtools.translation.projection.links import Span
from bmtools.translation.projection.markers import BRACKETS, brackets_for, mark_spans
from bmtools.translation.projection.pairs import Projection, Projector, SentencePair
from bmtools.translation.projection.words import word_spans

_OPENINGS = 4
"""Best openings whose closings are tried."""
_LONGER = 3
"""A place has at most so many times the words of its span, and so many more."""
_SPANS_AT_ONCE = 32


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


class ScoreProjector(Projector):
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
            questions = [self._question(pairs[at], pairs[at].spans[number])
                         for at, number in batch]
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
        at = 0
        for question in questions:
            scores = openings[at:at + len(question.words)]
            at += len(question.words)
            best = np.argsort(-scores, kind="stable")[:_OPENINGS]
            candidates.append([
                (question.words[low][0], end) for low in best.tolist() if np.isfinite(scores[low])
                for _, end in question.words[low:low + question.longest]])
        scores = self._scores([(question, mark_spans(question.target, [span], question.brackets))
                               for question, spans in zip(questions, candidates, strict=True)
                               for span in spans], whole=True)
        answers, at = [], 0
        for spans in candidates:
            answers.append(_likeliest(spans, scores[at:at + len(spans)]))
            at += len(spans)
        return answers

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


def _likeliest(spans: Sequence[Span], scores: np.ndarray) -> Projection | None:
    """Choose the likeliest place; its score is its share of the probability of all."""
    from scipy.special import softmax

    if not np.isfinite(scores).any():
        return None
    best = int(scores.argmax())
    return Projection(*spans[best], float(softmax(scores)[best]))
