"""Shards of records: contiguous parts of files, for jobs that share the work; and their number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from bmtools.errors import setting
from bmtools.io.jsonl import RecordReader
from bmtools.io.sources import STDIN, is_compressed, open_bytes

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Shard:
    """One of several parts.

    Args:
        number: of the part, from 1.
        parts: in all.
    """

    number: int
    parts: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.parts:
            raise ValueError(f"found {self}, expected 1/{self.parts} to {self.parts}/{self.parts}")

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read a part and how many there are: `2/8`.

        Raises:
            ValueError: it is nothing of this kind.
        """
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if found is None:
            raise ValueError(f"found {text!r}, expected a part and how many there are, as 2/8")
        return cls(int(found[1]), int(found[2]))


class RecordShard(RecordReader):
    """Reader of one of several contiguous parts of files, which have nearly as many bytes.

    A line belongs to the part that has its first byte, so every record is in one part, the outputs
    one after the other are the whole, and a part may be empty. Compressed files are unpacked to
    their end once more, for their size.

    Args:
        records: of all parts.
        shard: the part.

    Raises:
        ValueError: a source is no file.
    """

    def __init__(self, records: RecordReader, shard: Shard) -> None:
        if any(not Path(name).is_file() for name in records.names):
            raise ValueError(f"{setting('part')} {shard}: found a pipe, expected files, which can "
                             "be measured first")
        super().__init__(records.names, records.reject, allow_empty=True)
        self._shard = shard
        self._starts: list[int] = []  # bytes before each file, and in all

    def own_part(self, content: bytes, number: int, start: int) -> tuple[int, int]:
        """Return where the lines of this part begin and end; see `RecordReader`."""
        first, end = (_next_line(content, bound - start) for bound in self._bounds(number))
        return first, end

    def _bounds(self, number: int) -> tuple[int, int]:
        """Return the bytes of a source between which the lines of this part begin."""
        if not self._starts:
            self._starts = list(accumulate(map(_content_bytes, self.names), initial=0))
        first, end = (self._starts[-1] * part // self._shard.parts - self._starts[number]
                      for part in (self._shard.number - 1, self._shard.number))
        return first, end


def _next_line(content: bytes, at: int) -> int:
    """Return where the first line begins that does not begin before a byte, or the end."""
    return 0 if at <= 0 else content.find(b"\n", at - 1) + 1 or len(content)


def count_lines(records: RecordReader) -> int | None:
    """Count the lines of plain files that are not blank; None where there are other sources."""
    if any(name == STDIN or not Path(name).is_file() or is_compressed(name)
           for name in records.names):
        return None
    return sum(bool(line.strip()) for block in records.blocks()
               for line in block.lines.splitlines())


def _content_bytes(name: str) -> int:
    """Return the size of a file, unpacked."""
    if not is_compressed(name):
        return Path(name).stat().st_size
    with open_bytes(name) as stream:
        return sum(map(len, iter(lambda: stream.read(_BLOCK_BYTES), b"")))
