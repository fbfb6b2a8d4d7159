"""Projection by word alignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log

import numpy as np

from bmtools.translation.projection.alignment import align_words
from bmtools.translation.projection.hmm import Array
from bmtools.translation.projection.links import best_run, words_within
from bmtools.translation.projection.pairs import Projection, Projector, SentencePair
from bmtools.translation.projection.words import plain_words, word_spans

_LEAST_GAIN = 1e-6
_MOST_CELLS = 1_000_000  # of a pair: a thousand words on both sides, as a sentence never has


class AlignProjector(Projector):
    """Projector by word alignment, learned from the corpus at hand.

    A span goes to the run of words that gains most: those that link into it count for it, those
    that link elsewhere against it, each by its information, so that a preposition of elsewhere
    between two words of a term does not part them.

    Attributes:
        name: `align`.
    """

    name = "align"

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], Array | None] = {}
        self._information: dict[str, float] = {}

    def fit(self, pairs: Sequence[SentencePair]) -> None:
        """Align the words of all pairs but those too long to be sentences."""
        words = {(pair.source, pair.target): (plain_words(pair.source), plain_words(pair.target))
                 for pair in pairs}
        short = {key: (source, target) for key, (source, target) in words.items()
                 if len(source) * len(target) <= _MOST_CELLS}
        self._links = {**dict.fromkeys(words),
                       **dict(zip(short, align_words(list(short.values())), strict=True))}
        counts = Counter(word for _, target in words.values() for word in target)
        self._information = {word: log(1 + counts.total() / count)
                             for word, count in counts.items()}

    def project(self, pairs: Sequence[SentencePair]) -> list[list[Projection | None]]:
        """Find each span of each pair; None where no word links into it.

        Pairs that were not among those of `fit` are learned from now.
        """
        if not all((pair.source, pair.target) in self._links for pair in pairs):
            self.fit(pairs)
        return [self._project(pair) if pair.spans else [] for pair in pairs]

    def _project(self, pair: SentencePair) -> list[Projection | None]:
        both = self._links[pair.source, pair.target]
        if both is None:
            return [None] * len(pair.spans)
        # Only one direction links a rare word to whatever else nothing explains.
        links = np.sqrt(both[0] * both[1])
        sources, targets = word_spans(pair.source), word_spans(pair.target)
        weights = np.array([self._information[word] for word in plain_words(pair.target)])
        return [best_span(links, words_within(sources, span), weights, targets)
                for span in pair.spans]


def best_span(links: Array, inside: Array, weights: Array,
              targets: Sequence[tuple[int, int]]) -> Projection | None:
    """Find the run of target words that gains most; None where none does.

    The score is the share of its links that lead into the span, times the share of the span's links
    that lead to it, both by weight.

    Args:
        links: (source words, target words), how likely they are linked.
        inside: (source words,) whether the span contains them.
        weights: (target words,) how much each counts.
        targets: start and end of each target word.
    """
    into = links[inside].sum(axis=0) * weights
    elsewhere = links[~inside].sum(axis=0) * weights
    first, stop = best_run(into - elsewhere, _LEAST_GAIN)
    if first == stop:
        return None
    linked = into[first:stop].sum()
    purity = linked / (linked + elsewhere[first:stop].sum())
    return Projection(targets[first][0], targets[stop - 1][1], float(purity * linked / into.sum()))
