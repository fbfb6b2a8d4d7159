"""Output: files that appear only when they are complete, and streams that are written directly."""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISBLK, S_ISDIR, S_ISREG
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import msgspec

from bmtools.errors import BmtoolsError
from bmtools.io.failures import NamedFile, WriteError, naming, reason
from bmtools.io.system import interruption, signals_deferred
from bmtools.io.unfinished import hidden_path, keep_owner, real_path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from sqlite3 import Connection

STDOUT = "-"
RECORD = ".bmtools.json"
encode_lines = msgspec.json.Encoder().encode_lines
"""Encode JSON Lines; keys keep their order, and text stays UTF-8."""
_BUFFER_BYTES = 1 << 16
_CACHE_KIB = 64 * 1024
_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


class _Stream(NamedFile):
    """A pipe or device; without this class, /dev/null and terminals report a position."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise io.UnsupportedOperation(f"{self.label} has no position")


def file_version(path: str | Path) -> tuple[int, int] | None:
    """Return a value that changes when a file is written; None if the file does not exist."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Write a hidden file and rename it when the block ends without an error.

    Symbolic links are followed, and the owner and permissions of an older file are kept. Pipes,
    terminals and /dev/null are written directly.

    Raises:
        BmtoolsError: the file cannot be written.
    """
    target = real_path(path)
    descriptor = descriptor_of(path)
    if descriptor is not None or is_special(path):
        with naming(path):
            device = _Stream(path if descriptor is None else os.dup(descriptor), "w", str(path))
        with io.BufferedWriter(device, _BUFFER_BYTES) as stream:
            yield stream
        return
    partial = hidden_path(target, "partial")
    try:
        with naming(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY,
                                 0o600 if target.exists() else 0o666)
        raw = NamedFile(descriptor, "w", str(path))
        with io.BufferedWriter(raw, _BUFFER_BYTES) as stream:
            _keep_permissions(target, partial)
            yield stream
            stream.flush()
            with naming(path):
                os.fsync(descriptor)
            interruption.check()
            with signals_deferred():
                with suppress(OSError):
                    record_of(target).unlink()  # it describes the older file
                _rename(partial, target, path)
    except BaseException:
        with signals_deferred():
            partial.unlink(missing_ok=True)
        raise


@contextmanager
def open_output(name: str) -> Iterator[IO[bytes]]:
    """Open stdout for `-`, or a file as `new_file` does; `.gz` and `.zst` are compressed."""
    if name == STDOUT or descriptor_of(name) == 1:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with new_file(Path(name)) as stream:
        if not (packer := _packer(name, stream)):
            yield stream
            return
        with packer, io.BufferedWriter(packer, _BUFFER_BYTES) as packed:
            yield packed


def _packer(name: str, stream: BinaryIO) -> Any:
    """Return a compressing stream chosen by the file's name; None for other names."""
    if name.endswith(".gz"):
        return gzip.GzipFile(fileobj=stream, mode="wb", filename="", mtime=0)
    if name.endswith((".zst", ".zstd")):
        return zstd.ZstdFile(stream, "w", options={int(zstd.CompressionParameter.checksum_flag): 1})
    return None


def record_of(path: Path) -> Path:
    """Return the path of the record next to a file that describes how the file was made."""
    return path.with_name(path.name + RECORD)


def write_records(records: Iterable[Any], output: str = STDOUT, flush: bool = False) -> int:
    """Write JSON Lines and return their number; `flush` writes each line immediately."""
    count = 0
    with open_output(output) as stream:
        for record in records:
            stream.write(encode_lines([record]))
            if flush:
                stream.flush()
            count += 1
    return count


def temporary_file() -> BinaryIO:
    """Open a file without a name that disappears when it is closed."""
    from tempfile import TemporaryFile, gettempdir

    with TemporaryFile(buffering=0) as file:
        raw = NamedFile(os.dup(file.fileno()), "r+", f"a temporary file in {gettempdir()}")
    return io.BufferedRandom(raw, _BUFFER_BYTES)


def temporary_database() -> Connection:
    """Open a temporary database that keeps 64 MiB in memory and the rest in a file."""
    import sqlite3

    database = sqlite3.connect("", isolation_level=None)
    database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("BEGIN")
    return database


def descriptor_of(path: str | Path) -> int | None:
    """Return the number of an open file that a path such as /dev/stdout or /dev/fd/63 names."""
    found = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", str(path))
    return int(found[1]) if found else _STANDARD.get(str(path))


def is_special(path: str | Path) -> bool:
    """Return whether a path is a pipe, a terminal or another device to write to.

    Raises:
        BmtoolsError: the path is a directory or a disk.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116, a name as well
    except FileNotFoundError:
        return False
    if S_ISDIR(mode) or S_ISBLK(mode):
        raise BmtoolsError(f"{path}: found a {'directory' if S_ISDIR(mode) else 'disk'}, expected "
                           "the name of a file to write")
    return not S_ISREG(mode)


def is_regular(output: str) -> bool:
    """Return whether an output is a regular file or a free name, not a stream."""
    return output != STDOUT and descriptor_of(output) is None and not is_special(output)


def _keep_permissions(target: Path, partial: Path) -> None:
    """Give a file the owner and the permissions of the file that it will replace."""
    if not target.exists():
        return
    keep_owner(target, partial)
    shutil.copystat(target, partial)
    os.utime(partial)


def _rename(partial: Path, target: Path, path: Path) -> None:
    """Rename a finished file to its target."""
    try:
        partial.replace(target)
    except OSError as error:
        kept = partial.rename(partial.with_name(f"{target.name}.finished-{os.getpid()}"))
        raise WriteError(f"{path}: the last step failed ({reason(error)}); the finished file is "
                           f"{kept}, move it") from error
