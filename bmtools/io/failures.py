"""Errors of file access, which name the file, the reason and the fix."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from bmtools.errors import BmtoolsError, CheckpointError

_HINTS = {errno.EPIPE: "; its reader has gone away",
          **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "; make room, or write elsewhere"),
          **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "; write elsewhere")}
_MOST_CHARACTERS = 200
_URL = re.compile(r"([a-z][a-z0-9]+)://(?:[^/@\s]*@)?([^?\s]*)\S*")
_COPY = re.compile(r"[^\s=:'\"]*/bmtools/remote/\w{16}/([a-z0-9]+)/")


class WriteError(BmtoolsError):
    """A file that cannot be written; the message names the file, the reason and the fix."""


class NamedFile(io.FileIO):
    """A file whose write errors contain its name.

    Args:
        file: path or file descriptor.
        mode: as for `io.FileIO`.
        label: name for messages.
        closefd: whether closing it closes the descriptor.
    """

    def __init__(self, file: str | Path | int, mode: str, label: str, closefd: bool = True) -> None:
        super().__init__(file, mode, closefd)
        self.label = label

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            raise cannot_write(self.label, error) from error


class NamedStream(io.RawIOBase):
    """A stream whose errors on opening and reading contain its name.

    Args:
        opener: opens the stream.
        naming: returns a context manager that adds the name to errors of its block.
    """

    def __init__(self, opener: Callable[[], BinaryIO],
                 naming: Callable[[], AbstractContextManager[object]]) -> None:
        self._naming = naming
        with naming():
            self._stream = opener()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        with self._naming():
            content = self._stream.read(len(buffer))
        buffer[:len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


def cannot_write(path: str | Path, error: OSError) -> WriteError:
    """Return an error that names the file, the reason and the fix."""
    hint = _HINTS.get(error.errno or 0, "")
    return WriteError(f"{path}: cannot be written ({reason(error)}){hint}")


def system_fault(error: OSError) -> str:
    """Describe a system error on opening a file: the file, the reason and the fix."""
    if not isinstance(error.filename, str | bytes) or error.filename2 is not None:
        return str(error)
    path = Path(os.fsdecode(error.filename))
    if error.errno == errno.ELOOP:
        return (f"{path}: found a symbolic link that leads back to itself, expected a file; remove "
                "it, or name another file")
    if not isinstance(error, PermissionError):
        return f"{path}: {reason(error)}{_HINTS.get(error.errno or 0, '')}"
    if not os.path.lexists(path):  # or a parent directory may not be read
        return f"{path}: {reason(error)}; ask the owner of {path.parent}, or name another place"
    kind = "directory" if os.path.isdir(path) else "file"  # noqa: PTH112, which may raise
    return f"{path}: found a {kind} that this user may not open; ask its owner, or leave it out"


def reason(error: OSError) -> str:
    """Return the system's message for an error."""
    words = error.strerror or str(error)
    return words[:1].lower() + words[1:]


def write_error(error: BaseException) -> OSError | None:
    """Return the system error that caused a write error; Rust libraries quote its number."""
    if isinstance(error, OSError):
        return error
    found = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else None


def brief(error: BaseException) -> str:
    """Return a library's error on one shortened line, or its type if it has no message."""
    return " ".join(str(error).split())[:_MOST_CHARACTERS] or type(error).__name__


@contextmanager
def reading(path: str | Path, fault: str, way_out: str,
            kind: type[BmtoolsError] = CheckpointError) -> Iterator[None]:
    """Add a path to the errors of a library that reads it.

    For damaged files libraries raise any error: KeyError, TypeError, even a plain Exception.

    Raises:
        BmtoolsError: of type `kind`, with the path, the fault, the start of the library's message
            and the fix.
    """
    try:
        yield
    except BmtoolsError:
        raise
    except Exception as error:
        raise kind(f"{path}: {fault} ({brief(error)}); {way_out}") from error


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Add a path to the errors of a block that writes it."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def readable_name(name: str | Path) -> str:
    """Return the name of a file, with `\\xe9` for bytes that are not UTF-8."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_url(name: object) -> bool:
    """Return whether a name is a URL rather than a path."""
    return _URL.match(str(name)) is not None


def with_urls(text: str) -> str:
    """Replace paths of local copies by their URLs; remove passwords and signatures from URLs."""
    return _URL.sub(r"\1://\2", _COPY.sub(r"\1://", text))


def not_utf8_name(name: str | Path) -> str:
    """Return a message that a name is not UTF-8; empty if it is UTF-8."""
    shown = readable_name(name)
    return "" if shown == str(name) else f"found '{shown}', which is not UTF-8, expected UTF-8"


def require_room(path: Path, needed_bytes: int) -> None:
    """Raise an error if the disk has too little free space for a file.

    Raises:
        OSError: names the file, the space needed and the free space.
    """
    disk = os.statvfs(next(parent for parent in path.absolute().parents if parent.exists()))
    free = disk.f_bavail * disk.f_frsize
    if free < needed_bytes:
        raise OSError(errno.ENOSPC, f"no space left on device: {needed_bytes / 1e6:,.1f} MB "
                      f"needed, {free / 1e6:,.1f} MB free", str(path))
