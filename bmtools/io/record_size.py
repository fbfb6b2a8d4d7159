"""Limit on the size of a record: a few compressed kilobytes can decompress to gigabytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, BinaryIO

from bmtools.errors import DataError, count_of, setting

MEGABYTES = 32
"""Default limit."""
MEGABYTE = 1_000_000
_CHUNK_BYTES = 1 << 17


@contextmanager
def limiting_records(max_record_megabytes: int = MEGABYTES) -> Iterator[None]:
    """Limit the size of a record, and the size of its source, for all readers."""
    global _most_bytes
    before, _most_bytes = _most_bytes, max_record_megabytes * MEGABYTE
    try:
        yield
    finally:
        _most_bytes = before


_most_bytes = MEGABYTES * MEGABYTE


def most_bytes() -> int:
    """Return the maximum size of a record in bytes."""
    return _most_bytes


def limited_lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a stream with their line ends.

    Args:
        stream: read to its end.
        name: name of the source in messages.

    Raises:
        DataError: a line is larger than a record may be; reading stops there.
    """
    most = _most_bytes
    for number, line in enumerate(iter(partial(stream.readline, most + 1), b""), 1):
        if len(line) > most:
            check_record_size(len(line), f"{name}:{number}")
        yield line


def to_end_of_line(content: bytes, stream: BinaryIO, name: str, line: int) -> bytes:
    """Return content with the rest of its last line; see `limited_lines`.

    Args:
        content: content read from the stream.
        stream: the stream, positioned after the content.
        name: name of the source in messages.
        line: number of the content's first line.
    """
    size = len(content) - 1 - content.rfind(b"\n")
    rest = stream.readline(max(1, _most_bytes + 1 - size))
    if size + len(rest) > _most_bytes:
        line += content.count(b"\n")
        check_record_size(size + len(rest), f"{name}:{line}")
    return content + rest


def limited_bytes(stream: BinaryIO | IO[bytes], place: str, before: int = 0,
                  records: int = 1) -> bytes:
    """Read a complete stream.

    Args:
        stream: read to its end.
        place: its name in messages.
        before: number of bytes to count in addition to the stream's bytes.
        records: allows the size of this many records of maximum size.

    Raises:
        DataError: the stream is larger; reading stops there.
    """
    content = bytearray()
    while chunk := stream.read(_CHUNK_BYTES):
        content += chunk
        check_record_size((before + len(content)) // records, place)
    return bytes(content)


def check_record_size(size: int, place: str) -> None:
    """Raise an error if the source of a record is larger than the limit.

    Args:
        size: number of bytes, or number of characters.
        place: start of the record, in messages.

    Raises:
        DataError: it is larger.
    """
    if size > _most_bytes:
        most = _most_bytes // MEGABYTE
        raise DataError(f"{place}: found a record of more than {count_of(most, 'megabytes')}, "
                        "expected a smaller one; raise the limit with "
                        f"{setting('max_record_megabytes')}")
