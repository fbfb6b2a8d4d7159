"""An index of hashes, compared with plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from bmtools.text.hashing import HashIndex


@pytest.mark.parametrize("size", [0, 1, 100, 50_000])
def test_all_values_in_the_index_are_found(size: int) -> None:
    rng = np.random.default_rng(size)
    hashes = rng.integers(0, 1 << 64, size, dtype=np.uint64)
    hashes[size // 2:] = hashes[:size - size // 2]  # each twice
    values = np.append(hashes[::7], rng.integers(0, 1 << 64, 20_000, dtype=np.uint64))
    rng.shuffle(values)
    expected: dict[int, list[int]] = {}
    for number, value in enumerate(hashes.tolist()):
        expected.setdefault(value, []).append(number)
    index = HashIndex(hashes)
    places, firsts = index.find(values)
    ends = np.searchsorted(index.hashes, values[places], side="right")
    assert {place: sorted(index.order[first:end].tolist()) for place, first, end in zip(
        places.tolist(), firsts.tolist(), ends.tolist(), strict=True)} == {
            place: expected[value] for place, value in enumerate(values.tolist())
            if value in expected}
