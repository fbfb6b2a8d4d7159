"""Scores that are ratios of two sums: their intervals and comparisons.

The sums are nats over tokens or reciprocal ranks over maskings; a score may also be a product of
such ratios. Sums are drawn by unit: a document, since measurements within one depend on each other.
A unit whose denominators are 0 does not count.
"""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bmtools.errors import BmtoolsWarning, RecordError, Reject, setting
from bmtools.records import JsonMapping, Record, named_document
from bmtools.statistics.lines import content_key, value_name
from bmtools.statistics.resampling import FEWEST_UNITS, Interval, Values
from bmtools.statistics.samples import Estimate, Sample, compare_samples, estimate_metrics
from bmtools.statistics.settings import StatisticsConfig
from bmtools.statistics.table import get_nested

Sums = Sequence[np.ndarray] | np.ndarray
"""A model's numerators and denominators in turn, (2 * ratios, units); the latter are 0 or more."""
_SCORE = "score"


def interval(sums: Sums, settings: StatisticsConfig) -> Interval | None:
    """Bound a score by the expanded percentile bootstrap over units, as in `estimate_metrics`.

    Losses and reciprocal ranks of ten sentences are skewed: of samples of ten the intervals of 95 %
    hold the truth in 84 to 92 % (plain percentiles in 81 to 88 %), of twenty in 88 to 94 %, of
    fifty in 89 to 94 %. Monotonic functions preserve them: the exponential of both bounds of nats
    per token is the interval of pseudo-perplexity.

    Args:
        sums: of the model.
        settings: resamples and confidence.

    Returns:
        low and high; None without resamples, where fewer than `FEWEST_UNITS` count, or where a sum
        is infinite.
    """
    columns, counted = _counted([sums])
    if counted < FEWEST_UNITS or not np.isfinite(columns).all():
        return None
    return estimate_metrics([Sample(columns.T, _score)], settings)[_SCORE].interval


def paired_difference(first: Sums, second: Sums, settings: StatisticsConfig,
                      comparisons: int = 1) -> Estimate:
    """Compare two models on the same units, pair by pair, as in `compare_samples`.

    Returns:
        the difference; not a number where one has no denominators. No interval where `interval`
        gives none for one of them, and no p-value without resamples, where a model counts fewer
        than two units, or where a sum is infinite.
    """
    columns, counted = _counted([first, second])
    one, other = np.split(columns, 2)
    if not np.isfinite(columns).all():
        with np.errstate(invalid="ignore"):
            return Estimate(float(_score(one.sum(axis=1))[_SCORE]
                                  - _score(other.sum(axis=1))[_SCORE]))
    found = compare_samples([Sample(one.T, _score)], [Sample(other.T, _score)],
                            settings, comparisons)[_SCORE]
    return found._replace(interval=found.interval if counted >= FEWEST_UNITS else None,
                          p_value=found.p_value if counted > 1 else None)


@dataclass(frozen=True, eq=False)
class Metric:
    """A score over items: the one source of a line's score, its interval and comparisons.

    Args:
        sums: (2 * ratios, items) float64, numerators and denominators in turn; the score is the
            product of the ratios. An item whose denominators are all 0 does not count.
        units: (items,) key of the unit of each item; items of one are drawn together.
        basis: what else the score depends on, such as the fingerprint of a vocabulary; models of
            another one cannot be compared by it.
        items: what they are called in lines.
        unit: what a unit is called in lines.
    """

    sums: np.ndarray
    units: np.ndarray
    basis: str = ""
    items: str = "sentences"
    unit: str = "record"

    @property
    def counted(self) -> np.ndarray:
        """Tell which items count, (items,) bool."""
        return np.asarray((self.sums[1::2] > 0).any(axis=0))

    @property
    def value(self) -> float:
        """Score of all items; not a number where none counts."""
        return float(_score(self.sums.sum(axis=1))[_SCORE])

    def select(self, members: np.ndarray) -> Metric:
        """Keep some of the items, by their numbers or by whether they are kept."""
        return replace(self, sums=self.sums[:, members], units=self.units[members])

    def by_unit(self) -> np.ndarray:
        """Sum the items that count by unit, (2 * ratios, units), in an order that theirs does not
        change.
        """
        keys, numbers = np.unique(self.units[self.counted], return_inverse=True)
        return np.array([np.bincount(numbers, column, len(keys))
                         for column in self.sums[:, self.counted]])


class Units:
    """Units of items, which are drawn together; eight bytes for each item.

    A unit is a value of a key, or the document, or an item that has none.

    Args:
        key: of records; dots reach into objects, as in `meta.patient`. None for documents.
        kind: what an item without a document is called.
    """

    def __init__(self, key: str | None, kind: str = "record") -> None:
        self._key, self.kind = key, key or kind
        self._keys = array("Q")

    def add(self, record: JsonMapping, *own: str) -> None:
        """Count the next item, of a record; without a document it is told apart by `own`."""
        name = value_name(get_nested(record, self._key)) if self._key else named_document(record)
        if name is not None and not self._key:
            self.kind = "document"
        self._keys.append(content_key(*(own if name is None else [name])))

    @property
    def keys(self) -> np.ndarray:
        """Unit of each item, (items,) uint64."""
        return np.frombuffer(self._keys, np.uint64)

    def warn(self) -> None:
        """Warn if units are too few for an interval, though items are not."""
        found = len(set(self._keys))
        if found < FEWEST_UNITS <= len(self._keys) and self.kind in ("document", self._key):
            warnings.warn(f"found {found} units by {self.kind}, but an interval needs "
                          f"{FEWEST_UNITS}; if records do not depend on each other, "
                          f"{setting('unit')} id makes each a unit", BmtoolsWarning, stacklevel=3)


def with_unit(records: Iterable[Record], key: str | None, reject: Reject) -> Iterator[Record]:
    """Pass records on, and reject those without the key of their unit."""
    for record in records:
        if key and get_nested(record, key) is None:
            reject(RecordError(record.place, f"key {key!r} is missing, expected the unit of the "
                               f"record, because {setting('unit')} names this key", record))
        else:
            yield record


def _counted(models: Sequence[Sums]) -> tuple[np.ndarray, int]:
    """Stack the sums of models, (models * 2 * ratios, units), of units that any model counts.

    Returns:
        the sums, and the least number of units that a model counts.
    """
    columns = np.concatenate([np.asarray(sums, dtype=float) for sums in models])
    columns = columns[:, (columns[1::2] > 0).any(axis=0)]
    return columns, int(np.count_nonzero(columns[1::2], axis=1).min())


def _score(totals: np.ndarray) -> Values:
    """Compute a score from totals, (..., 2 * ratios); not a number without a denominator."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(totals[..., 1::2] > 0, totals[..., ::2] / totals[..., 1::2], np.nan)
    return {_SCORE: ratios.prod(axis=-1)}
