"""Files with faults."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence


def damaged(content: bytes, most: Sequence[int]) -> Iterator[bytes]:
    """Yield 300 copies, each without some bytes in one place, or with another one for them.

    Args:
        content: whole.
        most: numbers of bytes, one of which is replaced.
    """
    rng = random.Random(0)
    for _ in range(300):
        copy = bytearray(content)
        at = rng.randrange(len(copy))
        copy[at:at + rng.choice(most)] = rng.randbytes(rng.choice((0, 1)))
        yield bytes(copy)
