"""Bytes and lines from files, members of archives or stdin, compressed or not."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Self

from bmtools.errors import DataError
from bmtools.io.failures import is_url, readable_name
from bmtools.io.foreign import HEAD_BYTES, UNPACK, foreign_bytes, not_utf8
from bmtools.io.record_size import limited_lines

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STDIN = "-"
_GZIP = b"\x1f\x8b"
# A frame of content, or a skippable one, as pzstd puts first.
_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
_BOM = b"\xef\xbb\xbf"
_BUFFER_BYTES = 1 << 17
_CARRIAGE_RETURNS = re.compile(rb"\r+\n|\r")


Note = Callable[[str, str], None]


class SourceName(str):
    """Name of a command's input that reports the SHA-256 of the content read from it.

    Args:
        name: name of a file; `-` for stdin.
        note: receives the name and the digest of the uncompressed content when it was read
            completely; None for files in archives, because the archive is the input.
    """

    __slots__ = ("note",)
    note: Note | None

    def __new__(cls, name: str, note: Note | None) -> Self:
        self = super().__new__(cls, name)
        self.note = note
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Become a plain string in another process, which reports no digest."""
        return str, (str(self),)


class MemberName(SourceName):
    """Name of an archived file or a copy of stdin, with a function that opens it.

    Args:
        name: path through the archive.
        opener: opens the file.
        note: as for `SourceName`.
    """

    __slots__ = ("opener",)
    opener: Callable[[], BinaryIO]

    def __new__(cls, name: str, opener: Callable[[], BinaryIO], note: Note | None = None) -> Self:
        self = super().__new__(cls, name, note)
        self.opener = opener
        return self


def note_of(name: str) -> Note | None:
    """Return the function that receives the digest of an input, or None."""
    return name.note if isinstance(name, SourceName) else None


def open_raw(name: str) -> AbstractContextManager[Any]:
    """Open a file, a URL or stdin, without decompression."""
    if isinstance(name, MemberName):
        return name.opener()
    if is_url(name):
        from bmtools.io.remote import open_url

        return open_url(name)
    return nullcontext(sys.stdin.buffer) if name == STDIN else Path(name).open("rb")


@contextmanager
def open_bytes(name: str, takes_digest: bool = True) -> Iterator[BinaryIO]:
    """Open a file, or stdin for `-`; decompress gzip and zstd, and drop a UTF-8 BOM.

    Args:
        name: name of the file.
        takes_digest: whether to compute the digest here, if the name has a function for it.

    Raises:
        DataError: the file is missing, unreadable or damaged.
    """
    try:
        with open_raw(name) as raw:
            stream, head = raw, raw.peek(4)[:4]
            if head[:2] == _GZIP:
                stream = io.BufferedReader(_gzip_file(raw))
            elif _ZSTD.match(head):
                stream = io.BufferedReader(zstd.ZstdFile(raw))
            if stream.peek(3)[:3] == _BOM:
                stream.read(3)
            note = note_of(name) if takes_digest else None
            yield io.BufferedReader(_HashedSource(stream, name, note), _BUFFER_BYTES) \
                if note else stream
    except _damage() as error:
        raise DataError(f"{source_name(name)}: damaged compressed data ({error}); "
                        "copy or download the file again") from error
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        if error.filename is None or str(error.filename) != name:
            raise
        raise DataError(f"{name}: {(error.strerror or 'cannot be read').lower()}; "
                        "expected a readable file") from error


class _HashedSource(io.RawIOBase):
    """Source whose digest is computed while it is read."""

    def __init__(self, stream: Any, name: str, note: Note) -> None:
        self._stream, self._digest = stream, hashlib.sha256()
        self._note = partial(note, name)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # readinto1 would wait for more if the stream's buffer contains less than requested.
        content: bytes = self._stream.read1(len(buffer))
        buffer[:len(content)] = content
        self._digest.update(content)
        if not content:
            self._note(self._digest.hexdigest())
        return len(content)


def _gzip_file(raw: BinaryIO) -> Any:
    """Open a gzip file; with Intel's library, if installed, this needs a third of the time."""
    try:
        from isal.igzip import IGzipFile
    except ImportError:
        return gzip.GzipFile(fileobj=raw)
    return IGzipFile(fileobj=raw)


def _damage() -> tuple[type[Exception], ...]:
    """Return the error types of damaged compressed data, including isal's if it is loaded."""
    isal = sys.modules.get("isal.isal_zlib")
    known = (EOFError, zlib.error, zstd.ZstdError, gzip.BadGzipFile)
    return (*known, isal.error) if isal else known


def is_compressed(name: str) -> bool:
    """Return whether a file is compressed with gzip or zstd, according to its content."""
    with open_raw(name) as stream:
        head = stream.read(4)
    return head.startswith(_GZIP) or _ZSTD.match(head) is not None


@contextmanager
def open_text(name: str,
              find_fault: Callable[[bytes, str], str | None] = foreign_bytes,
              takes_digest: bool = True) -> Iterator[BinaryIO]:
    """Open a source as `open_bytes` does; raise an error if its first bytes are not UTF-8 text.

    Args:
        name: name of the file; `-` for stdin.
        find_fault: describes the fault of a source, from its first bytes and name.
        takes_digest: as for `open_bytes`.

    Raises:
        DataError: names the content found, such as UTF-16 or a PDF, and the command to convert it.
    """
    with open_bytes(name, takes_digest) as stream:
        head: bytes = stream.peek(HEAD_BYTES)[:HEAD_BYTES]  # type: ignore[attr-defined]
        fault = find_fault(head, source_name(name))
        if fault:
            raise DataError(f"{source_name(name)}: {fault}")
        yield stream


def source_name(name: str) -> str:
    """Return the name of a source for messages."""
    return "<stdin>" if name == STDIN else readable_name(name)


def source_stem(name: str) -> str:
    """Return a source's name without directory and endings: `test` for `ner/test.tsv.gz`."""
    if name == STDIN:
        return "stdin"
    path = Path(readable_name(name))
    return Path(path.stem if path.suffix in UNPACK else path.name).stem


def split_name(given: str) -> tuple[str, str]:
    """Split NAME=FILE; the name is empty for an existing file, a URL or stdin."""
    name, equals, path = given.partition("=")
    return (name, path) if equals and "://" not in name and not Path(given).exists() \
        else ("", given)


def with_newlines(content: bytes) -> bytes:
    """Convert the line ends CR (old Macs) and CRLF (Windows) to LF."""
    return _CARRIAGE_RETURNS.sub(b"\n", content) if b"\r" in content else content


def split_line(line: bytes) -> Sequence[bytes]:
    """Split a line at its CRs, and drop its line end: LF, CR or CRLF."""
    return line.rstrip(b"\r\n").split(b"\r") if b"\r" in line else (line.removesuffix(b"\n"),)


def read_lines(name: str, find_fault: Callable[[bytes, str], str | None] = foreign_bytes,
               ) -> Iterator[tuple[int, str]]:
    """Yield numbered lines of UTF-8 text without line ends; only LF, CR and CRLF end a line.

    A file with only CR is kept in memory. For the arguments see `open_text`.

    Raises:
        DataError: the text is not UTF-8, or a line is larger than a record may be.
    """
    with open_text(name, find_fault) as stream:
        lines = limited_lines(stream, source_name(name))
        for number, line in enumerate(chain.from_iterable(map(split_line, lines)), 1):
            try:
                yield number, line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(f"{source_name(name)}:{number}: "
                                f"{not_utf8(line, error.start, source_name(name))}") from error


def placed_lines(name: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a file that are not blank, each with its `file:line`."""
    for number, line in read_lines(name):
        if line.strip():
            yield f"{source_name(name)}:{number}", line


def read_list(name: str, kind: str = "terms") -> list[tuple[int, str]]:
    """Read a list with one item per line, and the line numbers; skip blank lines.

    Raises:
        DataError: the list is empty, or not UTF-8.
    """
    found = [(number, line.strip()) for number, line in read_lines(name) if line.strip()]
    if not found:
        raise DataError(f"{source_name(name)}: found no {kind}, expected one per line")
    return found
