"""Mean reciprocal ranks of many masked words: of all, by groups, and as models compare."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from bmtools.errors import DataError
from bmtools.scoring.comparison import RatioMetric
from bmtools.scoring.groups import NO_VALUE, Groups
from bmtools.scoring.mrr import MaskScore
from bmtools.scoring.predictor import Predictor
from bmtools.scoring.settings import MrrConfig, StatisticsConfig
from bmtools.scoring.signature import short, signature
from bmtools.scoring.statistics import interval

_DIGITS = 6
_HITS = (1, 5, 10)
DEFAULT_BY = ("domain",)
"""What maskings are told apart by where records have it."""
SENTENCE = "sentence"
"""Key under which each masking's whole text stands, unless records have one of that name."""


class MrrTotals:
    """The figures behind a mean reciprocal rank of one predictor.

    Intervals are drawn over sentences: maskings of one sentence share its text. About forty bytes
    are kept for each masking.

    Args:
        predictor: whose scores are counted.
        settings: they were made with.
        by: keys to tell maskings apart by; `domain` where records have one, if left out.
        statistics: of intervals.
    """

    def __init__(self, predictor: Predictor, settings: MrrConfig, by: Sequence[str] = (),
                 statistics: StatisticsConfig | None = None) -> None:
        self.predictor = predictor
        self.settings = settings
        self._statistics = statistics or StatisticsConfig()
        self._asked_by = by
        self._groups = Groups(by or DEFAULT_BY)
        self._rows = array("d")
        # Whole texts, by hash: maskings of one sentence are told from those of another.
        self._sentences: dict[int, int] = {}
        self._sentence_of = array("i")
        self._multi_token = self._unknown = 0

    def add(self, score: MaskScore) -> None:
        """Count a masked word; one of several tokens as the settings say."""
        target, whole = score.target, score.sentence
        self._multi_token += target.multi_token
        self._unknown += target.unknown
        counts = not (target.multi_token and self.settings.multi_token == "skip")
        rank = np.nan if score.rank is None else score.rank
        self._rows.extend((score.reciprocal_rank, rank, score.probability, counts))
        self._groups.add({SENTENCE: whole, **score.record})
        self._sentence_of.append(self._sentences.setdefault(hash(whole), len(self._sentences)))

    @property
    def reciprocal_ranks(self) -> np.ndarray:
        """What each masking counts, (maskings,); not a number for those skipped."""
        table = self._table()
        return np.where(table[:, 3] > 0, table[:, 0], np.nan)

    def measures(self) -> dict[str, RatioMetric]:
        """Give what models are compared by, each as sums over sentences; see `comparisons`."""
        table = self._table()
        return {"mrr": RatioMetric(*self._by_sentence(table, np.arange(len(table))))}

    def line(self) -> dict[str, Any]:
        """Say the score and what it rests on.

        Returns:
            `mrr`: equation 2, with an interval over sentences; `hits_at_1`, `hits_at_5` and
            `hits_at_10`: shares of maskings whose word stands first, or among the first five or
            ten; `mean_rank`: of the `ranked` maskings whose word has a rank; `probability`: mean
            of what the model gives the word; `sentences`: distinct texts behind the maskings;
            `multi_token` and `unknown`: words that are no single token, or none at all, of the
            vocabulary; `by`: the same for each value of a key.

        Raises:
            DataError: nothing was counted, or no record has a key asked for.
        """
        table = self._table()
        if not table[:, 3].any():
            raise DataError(self._nothing())
        by: dict[str, dict[str, Any]] = {}
        for key, value, members in self._groups.members():
            figures = self._figures(table, members)
            if figures:
                by.setdefault(key, {})[value] = figures
        for key in [key for key, values in by.items() if set(values) == {NO_VALUE}]:
            if self._asked_by:
                raise DataError(f"--by: found {key!r}, which no record has, expected a key of "
                                "the records")
            del by[key]
        return {
            "model": self.predictor.name,
            **self._figures(table, np.arange(len(table))),
            "multi_token": self._multi_token,
            "unknown": self._unknown,
            **({"by": by} if by else {}),
            **self.predictor.notes,
            "vocabulary": short(self.predictor.vocabulary),
            "signature": self._signature(),
        }

    def _table(self) -> np.ndarray:
        return np.frombuffer(self._rows).reshape(-1, 4)

    def _by_sentence(self, table: np.ndarray,
                     members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sum up what maskings count, and how many there are, for each sentence."""
        sentences = np.frombuffer(self._sentence_of, dtype=np.int32)[members]
        counts = table[members, 3]
        return tuple(np.bincount(sentences, weights=weights, minlength=len(self._sentences))
                     for weights in (table[members, 0] * counts,
                                     counts))  # type: ignore[return-value]

    def _figures(self, table: np.ndarray, members: np.ndarray) -> dict[str, Any]:
        """Score some of the maskings; nothing where none of them counts."""
        found = table[members][table[members, 3] > 0]
        if not len(found):
            return {}
        reciprocals, counts = self._by_sentence(table, members)
        bounds = interval(reciprocals[counts > 0], counts[counts > 0], self._statistics)
        ranks = found[:, 1]
        ranked = ranks[~np.isnan(ranks)]
        return {
            "mrr": _rounded(found[:, 0].mean()),
            **({"interval": [_rounded(bound) for bound in bounds]} if bounds else {}),
            **{f"hits_at_{most}": _rounded((ranks <= most).mean()) for most in _HITS},
            "mean_rank": _rounded(ranked.mean()) if len(ranked) else None,
            "ranked": len(ranked),
            "probability": _rounded(found[:, 2].mean()),
            "maskings": len(found),
            "sentences": int((counts > 0).sum()),
        }

    def _signature(self) -> str:
        settings = self.settings
        more: dict[str, object] = {"beam": max(settings.beam, settings.top)} \
            if settings.multi_token == "joint" else {}
        if settings.like:
            more |= {"like": settings.like, "punctuation": "dropped"}
        return signature(
            "mrr", f"top{settings.top}", self.predictor.tokenizer,
            multi_token=settings.multi_token, proposals="all", ties="lower-id",
            match="caseless" if settings.caseless else "exact", **more, **self.predictor.kind)

    def _nothing(self) -> str:
        if self._multi_token:
            return (f"all {self._multi_token} masked words are of several tokens in "
                    f"{self.predictor.name}; --multi-token miss counts them")
        return "no masked words in the input; expected records with text and target"


def agreement(tallies: Sequence[MrrTotals]) -> list[dict[str, Any]]:
    """Count the maskings whose word no model finds, all place first, or models differ in.

    Returns:
        one line, of all models; none for a single model.
    """
    if len(tallies) < 2:
        return []
    found = np.stack([tally.reciprocal_ranks for tally in tallies])
    found = found[:, ~np.isnan(found).any(0)]
    never, always = int((found == 0).all(0).sum()), int((found == 1).all(0).sum())
    return [{"compared": [tally.predictor.name for tally in tallies], "metric": "found",
             "never": never, "always": always, "changing": found.shape[1] - never - always,
             "maskings": found.shape[1]}]


def _rounded(value: float) -> float:
    return round(float(value), _DIGITS)
