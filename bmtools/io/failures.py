"""Failures of files, which name the file, the reason and the way out."""

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
    """A file that cannot be written; the message names it, the reason and the way out."""


class NamedFile(io.FileIO):
    """A file that is named where writing it fails.

    Args:
        file: path or descriptor.
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
    """A stream whose faults are named where it is opened and read.

    Args:
        opener: opens it.
        naming: makes a context that names the errors of its block.
    """

    def __init__(self, opener: Callable[[], BinaryIO],
                 naming: Callable[[], AbstractContextManager[object]]) -> None:
        self._naming = naming
        with naming():
            self._stream = opener()

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        with self._naming():
            content = self._stream.read(len(buffer))
        buffer[:len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close it."""
        self._stream.close()
        super().close()


def cannot_write(path: str | Path, error: OSError) -> WriteError:
    """Return an error that names what cannot be written, the reason and the way out."""
    hint = _HINTS.get(error.errno or 0, "")
    return WriteError(f"{path}: cannot be written ({reason(error)}){hint}")


def system_fault(error: OSError) -> str:
    """Name the file that the system does not open, the reason and the way out."""
    if not isinstance(error.filename, str | bytes) or error.filename2 is not None:
        return str(error)
    path = Path(os.fsdecode(error.filename))
    if error.errno == errno.ELOOP:
        return (f"{path}: found a symbolic link that leads back to itself, expected a file; remove "
                "it, or name another file")
    if not isinstance(error, PermissionError):
        return f"{path}: {reason(error)}{_HINTS.get(error.errno or 0, '')}"
    if not os.path.lexists(path):  # or what leads to it may not be looked at
        return f"{path}: {reason(error)}; ask the owner of {path.parent}, or name another place"
    kind = "directory" if os.path.isdir(path) else "file"  # noqa: PTH112, which may raise
    return f"{path}: found a {kind} that this user may not open; ask its owner, or leave it out"


def reason(error: OSError) -> str:
    """Return the system's words for an error."""
    words = error.strerror or str(error)
    return words[:1].lower() + words[1:]


def write_error(error: BaseException) -> OSError | None:
    """Return the system's error behind one of writing, as libraries of other languages raise it."""
    if isinstance(error, OSError):
        return error
    found = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else None


def brief(error: BaseException) -> str:
    """Return an error of a library on one line, cut short, or its kind if it has no words."""
    return " ".join(str(error).split())[:_MOST_CHARACTERS] or type(error).__name__


@contextmanager
def reading(path: str | Path, fault: str, way_out: str,
            kind: type[BmtoolsError] = CheckpointError) -> Iterator[None]:
    """Name a path in the errors of a library that reads it.

    At damaged files libraries raise anything: KeyError, TypeError, a plain Exception.

    Raises:
        BmtoolsError: the kind, with the path, the fault, the beginning of the library's error and
            the way out.
    """
    try:
        yield
    except BmtoolsError:
        raise
    except Exception as error:
        raise kind(f"{path}: {fault} ({brief(error)}); {way_out}") from error


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Name a path in the errors of a block that writes it."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def readable_name(name: str | Path) -> str:
    """Return the name of a file; bytes that are not UTF-8 become `\\xe9`."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_url(name: object) -> bool:
    """Tell whether a name is a URL rather than a path."""
    return _URL.match(str(name)) is not None


def with_urls(text: str) -> str:
    """Replace paths of local copies in a text by URLs, all without passwords and signatures."""
    return _URL.sub(r"\1://\2", _COPY.sub(r"\1://", text))


def not_utf8_name(name: str | Path) -> str:
    """Say that a name is not UTF-8; empty where it is."""
    shown = readable_name(name)
    return "" if shown == str(name) else f"found '{shown}', which is not UTF-8, expected UTF-8"


def require_room(path: Path, needed_bytes: int) -> None:
    """Refuse to begin a file that its disk has no room for.

    Raises:
        OSError: names the file, and how much is needed and free.
    """
    disk = os.statvfs(next(parent for parent in path.absolute().parents if parent.exists()))
    free = disk.f_bavail * disk.f_frsize
    if free < needed_bytes:
        raise OSError(errno.ENOSPC, f"no space left on device: {needed_bytes / 1e6:,.1f} MB "
                      f"needed, {free / 1e6:,.1f} MB free", str(path))
