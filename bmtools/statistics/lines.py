"""Lines of scores: rounded numbers, hashes of data, and groups by a key of records."""

from __future__ import annotations

import hashlib
import math
import warnings
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from bmtools.errors import BmtoolsWarning, count_of, setting
from bmtools.records import JsonObject
from bmtools.statistics.resampling import holm
from bmtools.statistics.table import get_nested

Line = JsonObject
DIGITS = 6
"""Digits after the point that scores are rounded to."""
FINGERPRINT_DIGITS = 12
"""Digits of a fingerprint that lines show."""
NO_VALUE = "-"
"""Group of records without the key."""
_SIGNIFICANT = 0.05


def rounded(value: float) -> float | None:
    """Round for output; None for what is not a number."""
    return None if math.isnan(value) else round(float(value), DIGITS)


def adjust_p_values(lines: Iterable[Line], key: str = "p", shared: str = "metric") -> None:
    """Round the p-values of comparisons, and add adjusted ones under the key and `_holm`.

    They are adjusted for as many comparisons as there are by one metric (Holm 1979), or with
    another value that is `shared`. Warns if the `units` of lines are so few that no difference of
    the models could be significant: all exchanges of N units give a p of 2/2^N at least.
    """
    families: dict[str, list[Line]] = {}
    for line in lines:
        if line.get(key) is not None:
            families.setdefault(str(line[shared]), []).append(line)
    for family in families.values():
        for line, adjusted in zip(family, holm([line[key] for line in family]), strict=True):
            line[key], line[f"{key}_holm"] = rounded(line[key]), rounded(adjusted)
    if key == "p" and families:
        _warn_of_few_units(max(families.values(), key=_least_p))


def _least_p(family: Sequence[Line]) -> float:
    """Compute the least p-value that units allow in comparisons that are corrected together."""
    return min(1.0, min(len(family) * 2.0 ** (1 - line.get("units", math.inf))
                        for line in family))


def _warn_of_few_units(family: Sequence[Line]) -> None:
    """Warn if units are too few for any of some comparisons to be significant."""
    if _least_p(family) > _SIGNIFICANT:
        units, unit = max((line["units"], line["unit"]) for line in family)
        out = (f"; if records do not depend on each other, {setting('unit')} id makes each a unit"
               if unit == "document" else "")
        warnings.warn(f"p_holm of {count_of(len(family), 'comparisons')} cannot fall below "
                      f"{_least_p(family):.3f} with {units} units by {unit}, however much the "
                      f"models differ; score more of them or make fewer comparisons{out}",
                      BmtoolsWarning, stacklevel=4)


def content_key(*parts: str) -> int:
    """Hash texts to 64 bits, the same in every run; the sum of such keys is a hash of data."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def data_fields(keys: int) -> Line:
    """Make the keys of a line that name its data, whatever their order.

    Args:
        keys: sum of the `content_key` of each item that counts.
    """
    return {"data": f"{keys % (1 << 64):016x}"[:FINGERPRINT_DIGITS]}


def safe_exp(nats: float) -> float:
    """Exponentiate a loss; beyond the range of floats it is infinite, not an error."""
    return math.exp(nats) if nats < 700 else math.inf


class Groups:
    """Item numbers by the values of keys; four bytes for each item and key.

    Args:
        keys: of records; dots reach into objects, as in `meta.year`.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._values: dict[str, dict[str, int]] = {key: {} for key in keys}
        self._codes = {key: array("i") for key in keys}

    def add(self, record: Mapping[str, object]) -> None:
        """Count the next item, of a record."""
        for key, values in self._values.items():
            name = value_name(get_nested(record, key))
            self._codes[key].append(values.setdefault(name, len(values)))

    def scores(self, score: Callable[[np.ndarray], Line]) -> dict[str, dict[str, Line]]:
        """Score the items of each value of each key, by their numbers; values in order of items.

        Groups for which `score` returns nothing are left out.
        """
        found: dict[str, dict[str, Line]] = {}
        for key, values in self._values.items():
            codes = np.frombuffer(self._codes[key], dtype=np.int32)
            order = np.argsort(codes, kind="stable")
            borders = np.searchsorted(codes[order], np.arange(len(values) + 1))
            for value, number in values.items():
                if line := score(order[borders[number]:borders[number + 1]]):
                    found.setdefault(key, {})[value] = line
        return found


def value_name(value: object) -> str:
    """Name a value of a key, by which records are grouped."""
    if value is None:
        return NO_VALUE
    return ", ".join(map(value_name, value)) if isinstance(value, list) else str(value)
