"""Parts: the sketches of many records as arrays in files, mapped into memory when they are read."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from bmtools.corpus.dedup.signatures import DIGEST, Sketches
from bmtools.io.output import temporary_file

ROWS = 1 << 14
"""Records that are read at once."""
TYPES = {"digests": DIGEST, "lengths": np.dtype("<u4"),
         "signatures": np.dtype("<u4"), "ids": np.dtype("u1"), "id_ends": np.dtype("<i8")}
"""The arrays of a part; the ids stand one after the other, as UTF-8."""


@dataclass(frozen=True, eq=False)
class Part:
    """Sketches of the records of some sources.

    Args:
        arrays: by the names in `TYPES`.
        sources: number of the first record of each source, and its name.
    """

    arrays: dict[str, np.ndarray]
    sources: Sequence[tuple[int, str]]

    def __len__(self) -> int:
        return len(self.arrays["digests"])

    def chunks(self) -> Iterator[slice]:
        """Yield runs of records, and forget the pages that were read for them."""
        for first in range(0, len(self), ROWS):
            yield slice(first, first + ROWS)
            self.forget_pages()

    def forget_pages(self) -> None:
        """Have the system take back what was read of files; it counts as memory until then."""
        for array in self.arrays.values():
            base = array
            while isinstance(base, np.ndarray) and base.base is not None:
                base = base.base
            if isinstance(base, mmap.mmap):
                base.madvise(mmap.MADV_DONTNEED)

    def id(self, number: int) -> str:
        """Return the id of a record."""
        ends = self.arrays["id_ends"]
        first = int(ends[number - 1]) if number else 0
        return self.arrays["ids"][first:int(ends[number])].tobytes().decode("utf-8", "replace")

    def source(self, number: int) -> str:
        """Return the name of the source of a record."""
        return [name for first, name in self.sources if first <= number][-1]


class PartWriter:
    """Writer of a part into files without names, which are gone when the stack is closed.

    Args:
        stack: closes the files.
        permutations: of the signatures; 0 for none.
    """

    def __init__(self, stack: ExitStack, permutations: int) -> None:
        self._files: dict[str, BinaryIO] = {
            name: stack.enter_context(temporary_file()) for name in TYPES}
        self._permutations = permutations
        self._sources: list[tuple[int, str]] = []
        self._id_bytes = self.records = 0

    def add(self, sketches: Sketches) -> None:
        """Add the sketches of a block."""
        if not self._sources or self._sources[-1][1] != sketches.source:
            self._sources.append((self.records, sketches.source))
        ids = [one.encode() for one in sketches.ids]
        ends = self._id_bytes + np.cumsum([*map(len, ids)], dtype=TYPES["id_ends"])
        for name, content in (("digests", sketches.digests), ("lengths", sketches.lengths),
                              ("signatures", sketches.signatures), ("id_ends", ends)):
            self._files[name].write(content.tobytes())
        self._id_bytes += self._files["ids"].write(b"".join(ids))
        self.records += len(ids)

    def finish(self) -> Part:
        """Map what was written."""
        shapes = {"ids": (self._id_bytes,), "signatures": (self.records, self._permutations)}
        arrays = {}
        for name, file in self._files.items():
            file.flush()
            shape = shapes.get(name, (self.records,))
            arrays[name] = np.memmap(file, TYPES[name], "r", shape=shape) if all(shape) \
                else np.empty(shape, TYPES[name])
        return Part(arrays, self._sources)
