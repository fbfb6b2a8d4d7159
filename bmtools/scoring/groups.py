"""Groups of scored items that share a value of a key."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bmtools.scoring.table import get_nested

NO_VALUE = "-"
"""Group of records without the key."""


class Groups:
    """Item numbers by the values of keys; four bytes for each item and key.

    Args:
        keys: of records; dots reach into objects, as in `meta.year`.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._values: dict[str, dict[str, int]] = {key: {} for key in keys}
        self._codes = {key: array("i") for key in keys}

    def add(self, record: Mapping[str, Any]) -> None:
        """Count the next item, of a record."""
        for key, values in self._values.items():
            name = _group_name(get_nested(record, key))
            self._codes[key].append(values.setdefault(name, len(values)))

    def members(self) -> Iterator[tuple[str, str, np.ndarray]]:
        """Yield each key, each of its values in order of appearance, and their item numbers."""
        for key, values in self._values.items():
            codes = np.frombuffer(self._codes[key], dtype=np.int32)
            order = np.argsort(codes, kind="stable")
            borders = np.searchsorted(codes[order], np.arange(len(values) + 1))
            for value, number in values.items():
                yield key, value, order[borders[number]:borders[number + 1]]


def _group_name(value: Any) -> str:
    if value is None:
        return NO_VALUE
    return ", ".join(map(_group_name, value)) if isinstance(value, list) else str(value)
