"""Hashes of many spans at once, in arrays, and an index of them."""

from __future__ import annotations

import numpy as np

FACTOR = np.uint64(0xFF51AFD7ED558CCD)
CHUNK = 8
"""Bytes that are hashed at once; this number of bytes must follow the last span."""
_ODD, _HALF = np.uint64(0xD6E8FEB86659FD93), np.uint64(32)
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(CHUNK + 1)], np.uint64)
_LEAST_BITS, _MOST_BITS = 14, 23  # of a position in an index table; a table has up to 8 MB
_SHIFTS = np.uint64(0), np.uint64(40)


def mix(hashes: np.ndarray) -> np.ndarray:
    """Mix the bits of 64-bit numbers in place, so that each bit depends on the others."""
    hashes ^= hashes >> _HALF
    hashes *= _ODD
    hashes ^= hashes >> _HALF
    return hashes


def hash_spans(content: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Hash spans of bytes, (spans,) uint64.

    Args:
        content: (bytes,) uint8, with `CHUNK` bytes after the last span.
        starts: (spans,) first byte of each span.
        lengths: (spans,) length of each span in bytes.
    """
    chunks = np.ndarray(len(content) - CHUNK + 1, "<u8", content, strides=(1,))
    hashes = chunks[starts]
    hashes &= _MASKS.take(lengths, mode="clip")
    for place in range(CHUNK, int(lengths.max(initial=0)), CHUNK):
        longer = np.flatnonzero(lengths > place)
        chunk = chunks[starts[longer] + place]
        chunk &= _MASKS.take(lengths[longer] - place, mode="clip")
        hashes[longer] = hashes[longer] * _ODD + chunk
    hashes += lengths.astype(np.uint64) * FACTOR
    return mix(hashes)


class HashIndex:
    """Index of hashes, which may contain equal hashes.

    Two tables of bits filter out all but a fiftieth of the values that are not in the index, so
    few values need a search.

    Args:
        hashes: (hashes,) uint64, well mixed.

    Attributes:
        order: (hashes,) the hashes' numbers, sorted by hash.
        hashes: (hashes,) the sorted hashes.
    """

    def __init__(self, hashes: np.ndarray) -> None:
        bits = int(np.clip(np.ceil(np.log2(8 * len(hashes) + 1)), _LEAST_BITS, _MOST_BITS))
        self._mask = np.uint64((1 << bits) - 1)
        self._tables = [np.zeros(1 << bits, dtype=bool) for _ in _SHIFTS]
        for table, shift in zip(self._tables, _SHIFTS, strict=True):
            table[hashes >> shift & self._mask] = True
        self.order = np.argsort(hashes)
        self.hashes = hashes[self.order]

    def find(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of found values, and the first position of each in `order`."""
        first_table, second_table = self._tables
        places = np.flatnonzero(first_table[values & self._mask])
        places = places[second_table[values[places] >> _SHIFTS[1] & self._mask]]
        firsts = np.searchsorted(self.hashes, values[places])
        is_there = self.hashes.take(firsts, mode="clip") == values[places] if len(self.hashes) \
            else np.zeros(0, dtype=bool)
        return places[is_there], firsts[is_there]
