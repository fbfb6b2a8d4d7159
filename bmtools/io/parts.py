"""Parts of the input: blocks of lines and whole files, which do not depend on who works on them.

A job of an array takes one of several contiguous parts of the files. What is read twice is made
rereadable first.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, islice
from operator import attrgetter
from pathlib import Path

from bmtools.errors import setting
from bmtools.io.failures import is_url
from bmtools.io.jsonl import Block, RecordReader, refuse_empty
from bmtools.io.output import temporary_file
from bmtools.io.remote import size_of
from bmtools.io.sources import (
    STDIN,
    MemberName,
    is_compressed,
    note_of,
    open_bytes,
    open_raw,
    open_text,
    with_newlines,
)
from bmtools.records import JsonMapping

_BLOCK_BYTES = 1 << 20
_GROUP = 8  # blocks that a node of a cluster takes at a time


@dataclass(frozen=True)
class InputFile:
    """File that is worked on whole.

    Args:
        number: of files before it.
        name: of the file.
        after: hash of what tells this file and those before it from others.
        options: of what is done with it.
    """

    number: int
    name: str
    after: str
    options: JsonMapping = field(default_factory=dict)


Part = Block | InputFile


def read_blocks(records: RecordReader) -> Iterator[Block]:
    """Split files into blocks, the same ones every time; `records.hashes` is filled.

    Args:
        records: names the files; none of their lines is parsed here.

    Raises:
        DataError: a file is no text, or all are blank.
    """
    is_blank = True
    for block in records.blocks(_BLOCK_BYTES):
        is_blank = is_blank and block.lines.isspace()
        yield block
    if is_blank:
        refuse_empty(records.names, records.allow_empty)


def groups_of(parts: Iterator[Part]) -> Iterator[list[Part]]:
    """Group what one process of a cluster should read: blocks of a file, without their lines.

    A compressed file can only be read from its beginning.
    """
    light = (part.without_lines() if isinstance(part, Block) else part for part in parts)
    for name, own in groupby(light, attrgetter("name")):
        size = sys.maxsize if is_compressed(name) else _GROUP
        while group := list(islice(own, size)):
            yield group


def read_group(group: Sequence[Part]) -> Iterator[Part]:
    """Read the lines of blocks of one file, which came without them; files stay as they are."""
    if isinstance(group[0], InputFile):
        yield from group
        return
    with open_text(group[0].name, takes_digest=False) as stream:
        stream.seek(group[0].start, os.SEEK_CUR)
        for block in group:
            assert isinstance(block, Block)
            yield replace(block, lines=with_newlines(stream.read(block.size)))


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

    def bounds(self, size: int) -> tuple[int, int]:
        """Return where this part of some bytes begins and ends."""
        return size * (self.number - 1) // self.parts, size * self.number // self.parts

    def files(self, files: Sequence[InputFile]) -> list[InputFile]:
        """Return the files of this part; all parts have nearly as many bytes."""
        starts = list(accumulate((Path(one.name).stat().st_size for one in files), initial=0))
        first, end = self.bounds(starts[-1])
        return [one for one, start in zip(files, starts, strict=False) if first <= start < end]


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
        if any(not (is_url(name) or Path(name).is_file()) for name in records.names):
            raise ValueError(f"{setting('part')} {shard}: found a pipe, expected files, which can "
                             "be measured first")
        super().__init__(records.names, records.reject, allow_empty=True)
        self._shard = shard
        self._starts: list[int] = []  # bytes before each file, and in all

    def own_part(self, content: bytes, number: int, start: int) -> tuple[int, int]:
        """Return where the lines of this part begin and end; see `RecordReader`."""
        if not self._starts:
            self._starts = list(accumulate(map(_content_bytes, self.names), initial=0))
        first, end = (_next_line(content, bound - self._starts[number] - start)
                      for bound in self._shard.bounds(self._starts[-1]))
        return first, end


def _next_line(content: bytes, at: int) -> int:
    """Return where the first line begins that does not begin before a byte, or the end."""
    return 0 if at <= 0 else content.find(b"\n", at - 1) + 1 or len(content)


def _content_bytes(name: str) -> int:
    """Return the size of a file, unpacked."""
    if not is_compressed(name):
        return size_of(name) if is_url(name) else Path(name).stat().st_size
    with open_bytes(name) as stream:
        return sum(map(len, iter(lambda: stream.read(_BLOCK_BYTES), b"")))


def count_lines(records: RecordReader) -> int | None:
    """Count the lines of plain files that are not blank; None where there are other sources."""
    if any(not Path(name).is_file() or is_compressed(name) for name in records.names):
        return None
    return sum(bool(line.strip()) for block in records.blocks()
               for line in block.lines.splitlines())


@contextmanager
def rereadable(names: Sequence[str]) -> Iterator[list[str]]:
    """Return names that can be opened again and again, until the block ends.

    Args:
        names: of files; `-`, pipes and URLs are copied as they are, compressed or not, to the
            directory of temporary files (TMPDIR).
    """
    with ExitStack() as stack:
        yield [name if name != STDIN and Path(name).is_file() else _copy(name, stack)
               for name in names]


def _copy(name: str, stack: ExitStack) -> MemberName:
    copy = stack.enter_context(temporary_file())
    with open_raw(name) as source:
        shutil.copyfileobj(source, copy)
    copy.flush()

    def open_again() -> io.BufferedReader:
        copy.seek(0)
        return io.BufferedReader(io.FileIO(os.dup(copy.fileno())))

    return MemberName(name, open_again, note_of(name))
