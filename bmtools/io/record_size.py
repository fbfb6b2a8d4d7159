"""Limit on the size of a record: a few kilobytes of compressed input can unpack to gigabytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, BinaryIO

from bmtools.errors import DataError, count_of, setting

MEGABYTES = 32
"""The default."""
MEGABYTE = 1_000_000
_CHUNK_BYTES = 1 << 17


@contextmanager
def limiting_records(max_record_megabytes: int = MEGABYTES) -> Iterator[None]:
    """Have all readers refuse a record, or what one is made from, of more bytes than this."""
    global _most_bytes
    before, _most_bytes = _most_bytes, max_record_megabytes * MEGABYTE
    try:
        yield
    finally:
        _most_bytes = before


_most_bytes = MEGABYTES * MEGABYTE


def most_bytes() -> int:
    """Return the size that no record may exceed."""
    return _most_bytes


def limited_lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a stream with their ends.

    Args:
        stream: to its end.
        name: of the source in messages.

    Raises:
        DataError: a line is larger than a record may be; it is not read further.
    """
    most = _most_bytes
    for number, line in enumerate(iter(partial(stream.readline, most + 1), b""), 1):
        if len(line) > most:
            check_record_size(len(line), f"{name}:{number}")
        yield line


def to_end_of_line(content: bytes, stream: BinaryIO, name: str, line: int) -> bytes:
    """Return content with the rest of its last line; see `limited_lines`.

    Args:
        content: read from the stream.
        stream: behind it.
        name: of the source in messages.
        line: number of the first line of the content.
    """
    size = len(content) - 1 - content.rfind(b"\n")
    rest = stream.readline(max(1, _most_bytes + 1 - size))
    if size + len(rest) > _most_bytes:
        line += content.count(b"\n")
        check_record_size(size + len(rest), f"{name}:{line}")
    return content + rest


def limited_bytes(stream: BinaryIO | IO[bytes], place: str, before: int = 0,
                  records: int = 1) -> bytes:
    """Read a stream whole.

    Args:
        stream: to its end.
        place: of it in messages.
        before: bytes that count beside its own.
        records: largest records whose size all that may have.

    Raises:
        DataError: it is larger; it is not read further.
    """
    content = bytearray()
    while chunk := stream.read(_CHUNK_BYTES):
        content += chunk
        check_record_size((before + len(content)) // records, place)
    return bytes(content)


def check_record_size(size: int, place: str) -> None:
    """Refuse what would be a record of more bytes than the limit.

    Args:
        size: bytes, or characters of text.
        place: where it begins, in messages.

    Raises:
        DataError: see above.
    """
    if size > _most_bytes:
        most = _most_bytes // MEGABYTE
        raise DataError(f"{place}: found a record of more than {count_of(most, 'megabytes')}, "
                        "expected a smaller one; "
                        f"{setting('max_record_megabytes')} raises the limit")
