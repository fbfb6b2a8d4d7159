"""Index of 64-bit hashes, in which many are looked up at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_LEAST_BITS, _MOST_BITS = 14, 23  # of the number of a place: up to 8 MB a table
_SHIFTS = np.uint64(0), np.uint64(40)


class HashIndex:
    """Index of hashes, of which some may be equal.

    Two tables of bits answer for all but a fiftieth of those that are not there, so that few are
    searched for.

    Args:
        hashes: uint64, well mixed.
    """

    def __init__(self, hashes: np.ndarray) -> None:
        bits = int(np.clip(np.ceil(np.log2(8 * len(hashes) + 1)), _LEAST_BITS, _MOST_BITS))
        self._mask = np.uint64((1 << bits) - 1)
        self._tables = [np.zeros(1 << bits, dtype=bool) for _ in _SHIFTS]
        for table, shift in zip(self._tables, _SHIFTS, strict=True):
            table[hashes >> shift & self._mask] = True
        self._order = np.argsort(hashes)
        self._sorted = hashes[self._order]

    def find(self, values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the places of the values that are there, each with the numbers of its hashes."""
        first_table, second_table = self._tables
        places = np.flatnonzero(first_table[values & self._mask])
        places = places[second_table[values[places] >> _SHIFTS[1] & self._mask]]
        first, last = (np.searchsorted(self._sorted, values[places], side)
                       for side in ("left", "right"))
        for number in np.flatnonzero(first < last).tolist():
            yield int(places[number]), self._order[first[number]:last[number]]
