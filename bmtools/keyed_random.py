"""Keyed random numbers: each is a function of a key, a counter and a purpose, without state.

A generator with state returns different numbers for a sample if other samples come before it.
Here a number depends only on its key, counter and purpose. A sample gets the same numbers with or
without others, in any order and on any number of processes. Only whole-number arithmetic modulo
2^64 is used, which is the same on every platform.

Source: SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators",
with the multipliers of the published code). The n-th number is a mixing function of the seed plus
n steps. Each purpose has separate seeds.
"""

from __future__ import annotations

import operator
from enum import IntEnum
from functools import cache

import numpy as np

Numbers = int | np.ndarray

_MODULUS = 1 << 64
_PURPOSE_STEP = 0xD1342543DE82EF95
_STEP = np.uint64(0x9E3779B97F4A7C15)
_ROUNDS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
           (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = np.uint64(31)
_HALF = np.uint64(32)
_LOWER_HALF = np.uint64((1 << 32) - 1)


class Purpose(IntEnum):
    """Purpose of a random number; numbers for different purposes are independent."""

    ORDER = 1
    CROSSING = 2
    SPAN_LENGTH = 3
    REPLACEMENT = 4


def derive(key: Numbers, *numbers: Numbers) -> np.ndarray:
    """Mix whole numbers into a key: `derive(seed, epoch, samples)`, one key for each sample.

    Args:
        key: a seed, or keys from an earlier call.
        numbers: whole numbers or arrays that broadcast with the key; their order matters.

    Returns:
        uint64, of the shape that key and numbers broadcast to.
    """
    mixed = _to_uint64(key)
    for number in numbers:
        mixed = _mix(np.add(mixed, np.multiply(np.add(_to_uint64(number), np.uint64(1)), _STEP)))
    return mixed


def bits(keys: Numbers, counters: Numbers, purpose: int) -> np.ndarray:
    """Return 64 random bits for each pair of key and counter, as uint64; the two broadcast."""
    return derive(np.add(_to_uint64(keys), _to_uint64(purpose * _PURPOSE_STEP)), counters)


def uniforms(keys: Numbers, counters: Numbers, purpose: int) -> np.ndarray:
    """Return a number from 0 to below 1 for each pair of key and counter, as float64."""
    return to_uniform(bits(keys, counters, purpose))


def bits_per_key(keys: np.ndarray, borders: np.ndarray, purpose: int) -> np.ndarray:
    """Return the first random bits of each key, one key after the other.

    The result equals `bits` with counters that start at 0 for each key.

    Args:
        keys: (keys,) uint64.
        borders: (keys + 1,) start of each key's numbers in the result, from 0, and the last end.

    Returns:
        (last border,) uint64.
    """
    # A counter is the index in the result minus the index of the key's first number.
    begins = keys + _to_uint64(purpose * _PURPOSE_STEP) - _to_uint64(borders[:-1]) * _STEP
    drawn = begins.repeat(borders[1:] - borders[:-1])
    drawn += _first_steps(len(drawn).bit_length())[:len(drawn)]
    return _mix(drawn)


def to_uniform(drawn: np.ndarray, size: int = 53) -> np.ndarray:
    """Convert 64 bits to a number from 0 to below 1, using the highest `size` bits.

    `choices` leaves the highest 32 unused.
    """
    return np.multiply(np.right_shift(drawn, np.uint64(64 - size)), 2.0 ** -size)


def choices(drawn: np.ndarray, counts: Numbers) -> np.ndarray:
    """Convert 64 bits to a number from 0 to count - 1, using the lowest 32 bits."""
    chosen = np.bitwise_and(drawn, _LOWER_HALF)
    chosen *= _to_uint64(counts)
    chosen >>= _HALF
    return chosen


@cache
def _first_steps(bits: int) -> np.ndarray:
    """Return the steps of counters below 2^bits."""
    return np.multiply(np.arange(1, (1 << bits) + 1, dtype=np.uint64), _STEP)


def _to_uint64(numbers: Numbers) -> np.ndarray:
    """Convert whole numbers to uint64, modulo 2^64."""
    if isinstance(numbers, np.ndarray):
        return numbers.astype(np.uint64, copy=False)
    return np.array(operator.index(numbers) % _MODULUS, dtype=np.uint64)


def _mix(values: np.ndarray) -> np.ndarray:
    """Spread every bit over all 64 bits, in place.

    numpy would turn an array without axes into a scalar and warn when it overflows.
    """
    values = np.asarray(values)
    shifted = np.empty_like(values)
    for shift, factor in _ROUNDS:
        values ^= np.right_shift(values, shift, out=shifted)
        np.multiply(values, factor, out=values)
    values ^= np.right_shift(values, _LAST_SHIFT, out=shifted)
    return values
