"""Masked words under all models, collected for reports and for a list of words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bmtools.scoring.mrr import MaskScore

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class MrrItem:
    """One masked word under all models.

    Args:
        name: id of the record.
        text: the sentence with [MASK].
        target: the word behind the mask.
        domain: subject of the sentence, if known.
        ranks: of the word among the proposals, from 1, one per model; None where it has none.
        reciprocal_ranks: as they count for the score, one per model.
        proposals: best tokens with their probabilities, best first, one list per model.
    """

    name: str
    text: str
    target: str
    domain: str | None
    ranks: tuple[int | None, ...]
    reciprocal_ranks: tuple[float, ...]
    proposals: tuple[tuple[tuple[str, float], ...], ...]

    @property
    def spread(self) -> float:
        """Difference between the best and the worst reciprocal rank."""
        return max(self.reciprocal_ranks) - min(self.reciprocal_ranks)


class MrrCollector:
    """Collector of scores, word by word; keeps all of them in memory.

    Args:
        models: number of predictors to collect, from the first; 0 collects nothing.
    """

    def __init__(self, models: int) -> None:
        self.items: list[MrrItem] = []
        self._models = models
        self._scores: list[MaskScore] = []

    def add(self, score: MaskScore) -> None:
        """Add a score; those of one masked word follow each other, in order of models."""
        if score.predictor >= self._models:
            return
        self._scores.append(score)
        if len(self._scores) == self._models:
            record = score.record
            columns = ((one.rank, one.reciprocal_rank, one.proposals) for one in self._scores)
            self.items.append(MrrItem(str(record.get("id")), record["text"], record["target"],
                                      record.get("domain"), *zip(*columns, strict=True)))
            self._scores = []

    def word_lines(self, models: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Summarize the maskings of each word, in order of appearance.

        Yields:
            lines: `word`; number of `maskings`; `mrr` by model; `found`: never, always (first
            under all models, in each masking) or sometimes.
        """
        by_word: defaultdict[str, list[MrrItem]] = defaultdict(list)
        for item in self.items:
            by_word[item.target].append(item)
        for word, items in by_word.items():
            columns = list(zip(*(item.reciprocal_ranks for item in items), strict=True))
            values = [value for column in columns for value in column]
            found = "never" if not any(values) else "always" if min(values) == 1 else "sometimes"
            yield {"word": word, "maskings": len(items), "found": found,
                   "mrr": {model: round(sum(column) / len(items), _DIGITS)
                           for model, column in zip(models, columns, strict=True)}}
