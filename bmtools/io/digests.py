"""Digests: SHA-256 of what a command reads and writes, taken on the way."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from bmtools.io.failures import NamedFile

_BUFFER_BYTES = 1 << 17


@dataclass(frozen=True)
class Digests:
    """Digests of the uncompressed content of sources and outputs, as hexadecimal digits.

    Args:
        names: of the sources whose digests are taken; `-` for stdin.
        when_read: called with the name and digest of a source that was read to its end.
        read: of sources that were read to their end, by name.
        written: of files that are in place, by real path: of their content, and of their bytes;
            empty where they were written in jumps.
    """

    names: Collection[str] = ()
    when_read: Callable[[str, str], None] = lambda name, digest: None
    read: dict[str, str] = field(default_factory=dict)
    written: dict[Path, tuple[str, str]] = field(default_factory=dict)

    def note_read(self, name: str, digest: str) -> None:
        """Note the digest of a source that was read to its end."""
        self.read[name] = digest
        self.when_read(name, digest)


_taken: Digests | None = None


@contextmanager
def taking_digests(digests: Digests) -> Iterator[None]:
    """Take the digests of sources, and of all that is written, until the block ends."""
    global _taken
    outer, _taken = _taken, digests
    try:
        yield
    finally:
        _taken = outer


def note_source(name: str, digest: str) -> None:
    """Note the digest of a source that was read to its end, where digests are taken."""
    if _taken is not None and name in _taken.names:
        _taken.note_read(name, digest)


def hashed_source(stream: BinaryIO, name: str) -> BinaryIO:
    """Wrap a source, so that its digest is taken where digests are."""
    if _taken is None or name not in _taken.names:
        return stream
    return io.BufferedReader(_HashedSource(stream, name, _taken), _BUFFER_BYTES)


class _HashedSource(io.RawIOBase):
    def __init__(self, stream: BinaryIO, name: str, digests: Digests) -> None:
        self._stream, self._name, self._digests = stream, name, digests
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # readinto1 would wait for more where the stream's own buffer holds less than is asked for.
        content: bytes = self._stream.read1(len(buffer))  # type: ignore[attr-defined]
        buffer[:len(content)] = content
        self._digest.update(content)
        if not content:
            self._digests.note_read(self._name, self._digest.hexdigest())
        return len(content)


class HashedFile(NamedFile):
    """A new file whose digest is taken while it is written, unless that is done in jumps.

    Attributes:
        content: digest of what is compressed in it; empty where it is that of its bytes.
    """

    def __init__(self, file: str | Path | int, mode: str, label: str) -> None:
        super().__init__(file, mode, label)
        self._digest = hashlib.sha256() if _taken is not None else None
        self.content = ""

    def write(self, content: Any) -> int:
        size = super().write(content)
        if self._digest:
            self._digest.update(memoryview(content)[:size])
        return size

    def seek(self, position: int, whence: int = 0) -> int:
        self._digest = None
        return super().seek(position, whence)

    def note(self, path: Path) -> None:
        """Note the digests of the file, which is in place."""
        if _taken is not None:
            of_bytes = self._digest.hexdigest() if self._digest else ""
            _taken.written[path] = self.content or of_bytes, of_bytes


class HashedPacker(io.RawIOBase):
    """Stream on the way to one that compresses into a file; takes the digest of what is written.

    Args:
        packed: the stream.
        file: buffered `HashedFile`, which gets the digest in the end.
    """

    def __init__(self, packed: Any, file: Any) -> None:
        self._packed, self._file, self._digest = packed, file.raw, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return int(self._packed.write(content))

    def close(self) -> None:
        self._file.content = self._digest.hexdigest()
        super().close()
