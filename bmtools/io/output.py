"""Output: streams and files, which appear only when they are complete."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import msgspec
import zstandard

from bmtools.errors import BmtoolsError

STDOUT = "-"
encode_lines = msgspec.json.Encoder().encode_lines
"""Encode JSON Lines; keys keep their order, text stays UTF-8."""



@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Write a temporary file and rename it when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.urandom(4).hex()}.partial")
    try:
        with partial.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def open_output(name: str) -> Iterator[IO[bytes]]:
    """Open stdout for `-`, or a file that appears when whole; `.gz` and `.zst` compress."""
    if name == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if Path(name).is_dir():
        raise BmtoolsError(f"{name}: found a directory, expected the name of a file to write")
    with new_file(Path(name)) as stream:
        if name.endswith(".gz"):
            with gzip.GzipFile(fileobj=stream, mode="wb", filename="", mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif name.endswith((".zst", ".zstd")):
            with zstandard.ZstdCompressor().stream_writer(stream, closefd=False) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield stream


def write_records(records: Iterable[Any], output: str = STDOUT, flush: bool = False) -> int:
    """Write JSON Lines and return how many; `flush` sends each line at once."""
    count = 0
    with open_output(output) as stream:
        for record in records:
            stream.write(encode_lines([record]))
            if flush:
                stream.flush()
            count += 1
    return count
