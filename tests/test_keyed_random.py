"""Random numbers from keys, counters and purposes."""

from __future__ import annotations

import numpy as np

from bmtools.keyed_random import (
    Purpose,
    bits,
    bits_per_key,
    derive,
    uniforms,
)


def plain(key: int, counter: int, purpose: int) -> int:
    """Compute the same numbers by brute force with Python's integers."""
    value = (key + purpose * 0xD1342543DE82EF95 + (counter + 1) * 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def test_the_numbers_of_the_published_generator() -> None:
    # The first outputs of SplitMix64 seeded with 1234567, as published with it.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423,
                4593380528125082431, 16408922859458223821]
    assert bits(1234567, np.arange(5), purpose=0).tolist() == expected


def test_arrays_and_single_numbers_agree_with_plain_arithmetic() -> None:
    keys = [0, 1, 2**63, 2**64 - 1, 987654321]
    for purpose in Purpose:
        expected = [[plain(key, counter, purpose) for counter in range(4)] for key in keys]
        table = bits(np.array(keys, dtype=np.uint64)[:, None], np.arange(4), purpose)
        assert table.tolist() == expected
        assert [[int(bits(key, counter, purpose)) for counter in range(4)]
                for key in keys] == expected


def test_a_series_equals_single_calls() -> None:
    keys, counts = derive(3, np.arange(6)), np.array([4, 0, 1, 1000, 0, 3])
    borders = np.append(0, np.cumsum(counts))
    counters = np.concatenate([np.arange(count) for count in counts])
    assert (bits_per_key(keys, borders, Purpose.REPLACEMENT)
            == bits(np.repeat(keys, counts), counters, Purpose.REPLACEMENT)).all()
    assert len(bits_per_key(keys[:0], borders[:1], Purpose.REPLACEMENT)) == 0


def test_keys_differ_by_every_number_and_by_their_order() -> None:
    grid = derive(0, np.arange(64)[:, None, None], np.arange(64)[:, None], np.arange(64))
    assert len(np.unique(grid)) == grid.size
    assert int(derive(0, 1, 2)) != int(derive(0, 2, 1))
    assert int(derive(derive(0, 1), 2)) == int(derive(0, 1, 2))
    seeds = derive(np.arange(512)[:, None], np.arange(512))
    assert len(np.unique(seeds)) == seeds.size


def test_keys_are_the_same_everywhere() -> None:
    # A change here changes every mask of every run.
    assert derive(7, 3, np.arange(2)).tolist() == [12594722297300939132, 4270312243260898756]
    assert int(derive(7, 3, 1)) == plain(plain(7, 3, 0), 1, 0)
    assert float(uniforms(7, 3, Purpose.ORDER)) == 0.14699469703423584
