"""Maskings as all models see them, gathered for pictures and for a list of words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bmtools.scoring.mrr import MaskScore
from bmtools.scoring.mrr_items import MrrItem
from bmtools.scoring.mrr_plots import write_pictures

_DIGITS = 6


class MrrCollector:
    """Gathers scores of one masking after the other; holds all of them.

    Args:
        models: so many of the predictors, from the first; 0 gathers nothing.
    """

    def __init__(self, models: int) -> None:
        self.maskings: list[MrrItem] = []
        self._models = models
        self._row: list[MaskScore] = []

    def add(self, score: MaskScore) -> None:
        """Note a score; those of one masking come one after the other, in order of models."""
        if score.predictor >= self._models:
            return
        self._row.append(score)
        if len(self._row) == self._models:
            self.maskings.append(_placed(self._row))
            self._row = []

    def word_lines(self, models: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Say of each masked word how it fares, in order of appearance.

        Yields:
            lines: `word`; `maskings` of it; `mrr` under each model; `found`: never, always (first
            under all models, in each of its maskings) or sometimes.
        """
        alike: defaultdict[str, list[MrrItem]] = defaultdict(list)
        for masking in self.maskings:
            alike[masking.target].append(masking)
        for word, own in alike.items():
            counts = [[masking.reciprocal_ranks[number] for masking in own]
                      for number in range(len(models))]
            every = [count for column in counts for count in column]
            found = "never" if not any(every) else "always" if min(every) == 1 else "sometimes"
            yield {"word": word, "maskings": len(own), "found": found,
                   "mrr": {model: round(sum(column) / len(own), _DIGITS)
                           for model, column in zip(models, counts, strict=True)}}

    def draw(self, directory: Path, lines: Sequence[Mapping[str, Any]], kind: str, top: int,
             sentence: str | None, overwrite: bool) -> None:
        """Write pictures and a page; see `write_pictures`."""
        write_pictures(self.maskings, [line["model"] for line in lines], lines, directory, kind,
                       top, sentence, overwrite)


def _placed(row: Sequence[MaskScore]) -> MrrItem:
    record = row[0].record
    return MrrItem(str(record.get("id")), record["text"], record["target"], record.get("domain"),
                   tuple(score.rank for score in row),
                   tuple(score.reciprocal_rank for score in row),
                   tuple(score.proposals for score in row))
