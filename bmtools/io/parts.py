"""Parts of the input: blocks of lines and whole files, independent of the workers.

A job of an array processes one of several contiguous parts of the files. Sources that are read
twice are copied first if they cannot be reopened.
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
_GROUP = 8  # blocks that a node of a cluster reads at a time


@dataclass(frozen=True)
class InputFile:
    """File that is processed as a unit.

    number: number of files before it.
    name: name of the file.
    after: hash that identifies this file and all files before it.
    options: settings for its processing.
    """

    number: int
    name: str
    after: str
    options: JsonMapping = field(default_factory=dict)


Part = Block | InputFile


def read_blocks(records: RecordReader) -> Iterator[Block]:
    """Split files into blocks, which are the same every time; `records.hashes` is filled.

    Args:
        records: contains the file names; no line is parsed here.

    Raises:
        DataError: a file is not text, or all files are blank.
    """
    is_blank = True
    for block in records.blocks(_BLOCK_BYTES):
        is_blank = is_blank and block.lines.isspace()
        yield block
    if is_blank:
        refuse_empty(records.names, records.allow_empty)


def groups_of(parts: Iterator[Part]) -> Iterator[list[Part]]:
    """Group parts for one process of a cluster: blocks of one file, without their lines.

    All blocks of a compressed file form one group, because it can only be read from its start.
    """
    light = (part.without_lines() if isinstance(part, Block) else part for part in parts)
    for name, own in groupby(light, attrgetter("name")):
        size = sys.maxsize if is_compressed(name) else _GROUP
        while group := list(islice(own, size)):
            yield group


def read_group(group: Sequence[Part]) -> Iterator[Part]:
    """Read the lines of blocks that were sent without them; yield files unchanged."""
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
    """One of several contiguous parts of the input.

    Args:
        number: number of the part, from 1.
        parts: number of parts.
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
        """Parse the number of a part and the number of parts: `2/8`.

        Raises:
            ValueError: the text has another form.
        """
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if found is None:
            raise ValueError(f"found {text!r}, expected a part and the number of parts: 2/8")
        return cls(int(found[1]), int(found[2]))

    def bounds(self, size: int) -> tuple[int, int]:
        """Return the start and end of this part in an input of this many bytes."""
        return size * (self.number - 1) // self.parts, size * self.number // self.parts

    def files(self, files: Sequence[InputFile]) -> list[InputFile]:
        """Return the files of this part; all parts contain nearly the same number of bytes."""
        starts = list(accumulate((Path(one.name).stat().st_size for one in files), initial=0))
        first, end = self.bounds(starts[-1])
        return [one for one, start in zip(files, starts, strict=False) if first <= start < end]


class RecordShard(RecordReader):
    """Reader of one contiguous part of files; all parts have nearly the same number of bytes.

    A line belongs to the part that contains its first byte. So every record is in exactly one part,
    and the joined outputs are complete. A part may be empty. Compressed files are decompressed an
    extra time to measure them.

    Args:
        records: reader of all parts.
        shard: the part to read.

    Raises:
        ValueError: a source is not a file.
    """

    def __init__(self, records: RecordReader, shard: Shard) -> None:
        if any(not (is_url(name) or Path(name).is_file()) for name in records.names):
            raise ValueError(f"{setting('part')} {shard}: found a pipe, expected files, whose "
                             "sizes are known")
        super().__init__(records.names, records.reject, allow_empty=True)
        self._shard = shard
        self._starts: list[int] = []  # bytes before each file, and the total

    def own_part(self, content: bytes, number: int, start: int) -> tuple[int, int]:
        """Return the start and end of the lines in this part; see `RecordReader`."""
        if not self._starts:
            self._starts = list(accumulate(map(_content_bytes, self.names), initial=0))
        first, end = (_next_line(content, bound - self._starts[number] - start)
                      for bound in self._shard.bounds(self._starts[-1]))
        return first, end


def _next_line(content: bytes, at: int) -> int:
    """Return the start of the first line that begins at a byte or after it, or the end."""
    return 0 if at <= 0 else content.find(b"\n", at - 1) + 1 or len(content)


def _content_bytes(name: str) -> int:
    """Return the uncompressed size of a file."""
    if not is_compressed(name):
        return size_of(name) if is_url(name) else Path(name).stat().st_size
    with open_bytes(name) as stream:
        return sum(map(len, iter(lambda: stream.read(_BLOCK_BYTES), b"")))


def count_lines(records: RecordReader) -> int | None:
    """Count the lines of plain files that are not blank; None if a source is not a plain file."""
    if any(not Path(name).is_file() or is_compressed(name) for name in records.names):
        return None
    return sum(bool(line.strip()) for block in records.blocks()
               for line in block.lines.splitlines())


@contextmanager
def rereadable(names: Sequence[str]) -> Iterator[list[str]]:
    """Return names that can be opened repeatedly until the block ends.

    Args:
        names: names of sources; `-`, pipes and URLs are copied byte for byte to the directory for
            temporary files (TMPDIR).
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
