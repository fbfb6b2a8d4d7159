"""Unfinished output: hidden names, locks, and the removal of what ended processes left.

A file or directory is written under a hidden name beside its own, which holds the machine and the
process, and is locked by its writer. The kernel releases the lock however the process ends, so what
nobody locks is nobody's.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from bmtools.errors import BmtoolsError
from bmtools.io.system import read_system, signals_deferred

_MOST_NAME_BYTES = 150  # of 255; the rest is for the machine and the process
_HIDDEN = re.compile(r"\.(?P<name>.+)\.(?P<host>[^.]+)-(?P<boot>\w+)-\d+-\w{4}\."
                     r"(?P<kind>partial|replaced|replacing)", re.DOTALL)
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL, errno.EBADF)


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return the path that is written: symbolic links are followed, also to what is not there."""
    return Path(os.path.realpath(path))


def hidden_path(target: Path, kind: str, place: Path | None = None) -> Path:
    """Name an unfinished file or directory for a target.

    Args:
        target: the final path.
        kind: `partial` while it is written, `replaced` for an older one that has given way,
            `replacing` for one whose files are on their way out of a directory that stays.
        place: directory of the hidden one; the target's own if not given.
    """
    process = f"{'-'.join(_machine())}-{os.getpid()}-{os.urandom(2).hex()}"
    return (place or target.parent) / f".{_short(target)}.{process}.{kind}"


def is_hidden(path: Path, target: Path) -> bool:
    """Tell whether a path is that of a target's unfinished output or of its lock."""
    found = _HIDDEN.fullmatch(path.name)
    return found["name"] == _short(target) if found else path.name == _lock_name(target)


@contextmanager
def locked(descriptor: int) -> Iterator[bool]:
    """Lock an open file or directory for this process; tells whether another has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
        return
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # the file system knows none
            raise
    yield True


@contextmanager
def locked_directory(path: Path) -> Iterator[None]:
    """Lock a directory while it is filled."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with locked(descriptor):
            yield
    finally:
        os.close(descriptor)


@contextmanager
def reserved(target: Path, place: Path) -> Iterator[None]:
    """Keep an output to this process, make its directory, and remove what was left of it.

    Args:
        target: a file or directory to write.
        place: existing or missing directory of its unfinished files.

    Raises:
        BmtoolsError: another process writes it.
        OSError: nothing can be written there.
    """
    missing = [parent for parent in (place, *place.parents) if not parent.exists()]
    place.mkdir(parents=True, exist_ok=True)
    path = place / _lock_name(target)
    descriptor = None
    try:
        try:
            with signals_deferred():
                descriptor = _open_lock(path, target)
            remove_abandoned(place, target)
            yield
        finally:
            if descriptor is not None:
                with signals_deferred():
                    with suppress(OSError):
                        path.unlink()
                    os.close(descriptor)
    finally:
        with suppress(OSError):
            for parent in missing:
                parent.rmdir()


def remove_abandoned(directory: Path, target: Path | None = None) -> None:
    """Remove unfinished files and directories whose processes have ended.

    What a kill interrupted while an older output gave way goes back, or on to the end.

    Args:
        directory: where they are.
        target: whose they are; all of the directory if not given.
    """
    found = [(match["kind"], match["name"], path)
             for path in (directory.iterdir() if directory.is_dir() else ())
             if (match := _HIDDEN.fullmatch(path.name))
             and (target is None or match["name"] == _short(target)) and _is_abandoned(path)]
    for kind, name, path in sorted(found, reverse=True):
        owner = target or path.with_name(name)
        if kind == "replacing":
            move_files(path, directory)
        elif kind == "replaced" and owner == directory:
            move_files(path.with_suffix(".partial"), directory)
        elif kind == "replaced" and not owner.exists():
            path.rename(owner)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def move_files(source: Path, destination: Path) -> None:
    """Move what is in a directory, if there is one; `bmtools.json`, which tells that all is there,
    comes last."""
    files = source.iterdir() if source.is_dir() else ()
    for path in sorted(files, key=lambda path: path.name == "bmtools.json"):
        path.rename(destination / path.name)


def _short(target: Path) -> str:
    return os.fsdecode(os.fsencode(target.name)[:_MOST_NAME_BYTES])


def _lock_name(target: Path) -> str:
    return f".{_short(target)}.lock"


@cache
def _machine() -> tuple[str, str]:
    """Return the machine's name, and what tells this start of it from others."""
    boot = read_system("proc/sys/kernel/random/boot_id").partition("-")[0]
    return re.sub(r"[./]", "_", os.uname().nodename), boot or "0"


def _is_abandoned(path: Path) -> bool:
    """Tell whether unfinished output has no writer; of other machines' nobody here can know."""
    found = _HIDDEN.fullmatch(path.name)
    assert found
    host, boot = _machine()
    if found["boot"] != boot:
        return found["host"] == host
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        with locked(descriptor) as is_free:
            return is_free
    finally:
        os.close(descriptor)


def _open_lock(path: Path, target: Path) -> int:
    """Create and lock a file; another process may remove it between these two steps."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with locked(descriptor) as is_free:
                if not is_free:
                    owner = os.read(descriptor, 200).decode(errors="replace").strip()
                    raise BmtoolsError(f"{target}: {owner or 'another process'} is writing it; "
                                       "wait for it, or give another name")
                with suppress(FileNotFoundError):
                    if path.stat().st_ino == os.fstat(descriptor).st_ino:
                        os.ftruncate(descriptor, 0)
                        os.write(descriptor, f"process {os.getpid()} on {_machine()[0]}".encode())
                        return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
