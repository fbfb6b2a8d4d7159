"""Damaged copies of files."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence


def damaged(content: bytes, most: Sequence[int]) -> Iterator[bytes]:
    """Yield 300 copies that each have some bytes removed or replaced by one byte.

    Args:
        content: the undamaged file.
        most: maximum numbers of bytes to remove or replace; one of them is chosen for each copy.
    """
    rng = random.Random(0)
    for _ in range(300):
        copy = bytearray(content)
        at = rng.randrange(len(copy))
        copy[at:at + rng.choice(most)] = rng.randbytes(rng.choice((0, 1)))
        yield bytes(copy)
