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
"""Number of decimals of scores."""
FINGERPRINT_DIGITS = 12
"""Number of digits of a fingerprint shown in lines."""
NO_VALUE = "-"
"""Group of records without the key."""
_SIGNIFICANT = 0.05


def rounded(value: float) -> float | None:
    """Round for output; None for NaN."""
    return None if math.isnan(value) else round(float(value), DIGITS)


def adjust_p_values(lines: Iterable[Line], key: str = "p", shared: str = "metric") -> None:
    """Round the p-values of comparisons, and add adjusted ones under the key with `_holm`.

    They are adjusted for the number of comparisons with the same metric (Holm 1979), or with the
    same value of the key `shared`. Warn if lines have too few `units` for a significant difference
    of the models: with all exchanges of N units, p is at least 2/2^N.
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
    """Compute the minimum p-value that the units allow in comparisons corrected together."""
    return min(1.0, min(len(family) * 2.0 ** (1 - line.get("units", math.inf))
                        for line in family))


def _warn_of_few_units(family: Sequence[Line]) -> None:
    """Warn if the units are too few for any of the comparisons to be significant."""
    if _least_p(family) > _SIGNIFICANT:
        units, unit = max((line["units"], line["unit"]) for line in family)
        out = (f"; if records do not depend on each other, use {setting('unit')} id"
               if unit == "document" else "")
        warnings.warn(f"p_holm of {count_of(len(family), 'comparisons')} cannot fall below "
                      f"{_least_p(family):.3f} with {units} units by {unit}, however much the "
                      f"models differ; score more of them or make fewer comparisons{out}",
                      BmtoolsWarning, stacklevel=4)


def content_key(*parts: str) -> int:
    """Hash texts to 64 bits, the same in every run; the sum of these keys is a hash of data."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def data_fields(keys: int) -> Line:
    """Return the keys of a line that identify its data in any order.

    Args:
        keys: sum of the `content_key` of each item that counts.
    """
    return {"data": f"{keys % (1 << 64):016x}"[:FINGERPRINT_DIGITS]}


def safe_exp(nats: float) -> float:
    """Exponentiate a loss; return infinity if the result exceeds the range of floats."""
    return math.exp(nats) if nats < 700 else math.inf


class Groups:
    """Item numbers by the values of keys; uses four bytes for each item and key.

    Args:
        keys: keys of records; dots reach into objects, such as `meta.year`.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._values: dict[str, dict[str, int]] = {key: {} for key in keys}
        self._codes = {key: array("i") for key in keys}

    def add(self, record: Mapping[str, object]) -> None:
        """Count the next item, which is from this record."""
        for key, values in self._values.items():
            name = value_name(get_nested(record, key))
            self._codes[key].append(values.setdefault(name, len(values)))

    def scores(self, score: Callable[[np.ndarray], Line]) -> dict[str, dict[str, Line]]:
        """Score the items for each value of a key, given by their numbers, in order of the items.

        Groups for which `score` returns an empty result are left out.
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
    """Return the name of a value used to group records."""
    if value is None:
        return NO_VALUE
    return ", ".join(map(value_name, value)) if isinstance(value, list) else str(value)
