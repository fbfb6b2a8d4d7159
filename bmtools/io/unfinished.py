"""Unfinished output: hidden names, locks, and the removal of files that ended processes left.

A file or directory is written under a hidden name next to its final name. The hidden name contains
the machine and the process. The writer locks the output, and the kernel releases the lock however
the process ends. So unfinished files found by the next process with the lock are abandoned.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

from bmtools.errors import BmtoolsError, setting
from bmtools.io.system import read_system, signals_deferred

_MOST_NAME_BYTES = 150  # of 255; the rest is for the machine and the process
_HIDDEN = re.compile(r"\.(?P<name>.+)\.(?P<host>[^.]+)-(?P<boot>\w+)-\d+-\w{4}\."
                     r"(?P<kind>partial|replaced|finished|moving)", re.DOTALL)
FINISHED, _REPLACED, MOVING = "finished", "replaced", "moving"
RUN = ".run"
"""Ending of the directory next to an output that contains its unfinished run."""
KEPT = ".kept"
"""Ending of the directory next to an output that contains checkpoints of its phases and steps."""
BESIDE = (RUN, KEPT)
"""Endings of the directories next to an output that exist until it is complete."""


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return the path that is written; symbolic links are followed, even to a missing target."""
    return Path(os.path.realpath(path))


def hidden_path(target: Path, kind: str, place: Path | None = None) -> Path:
    """Return a hidden path for an unfinished file or directory.

    Args:
        target: the final path.
        kind: `partial` while it is written, `replaced` for an older directory that was renamed,
            `finished` for a directory whose files belong in a directory that is kept, and `moving`
            while these files are moved.
        place: directory of the hidden path; by default the target's directory.
    """
    process = f"{'-'.join(_machine())}-{os.getpid()}-{os.urandom(2).hex()}"
    return (place or target.parent) / f".{_short(target)}.{process}.{kind}"


def is_hidden(path: Path, target: Path) -> bool:
    """Return whether a path is a target's unfinished output or its lock."""
    found = _HIDDEN.fullmatch(path.name)
    return found["name"] == _short(target) if found else path.name == _lock_name(target)


@contextmanager
def reserved(target: Path, place: Path) -> Iterator[None]:
    """Lock an output for this process, create its directory, and remove abandoned files.

    Args:
        target: a file or directory to write.
        place: directory of its unfinished files, existing or missing.

    Raises:
        BmtoolsError: another process is writing the output.
        OSError: the directory cannot be written.
    """
    missing = [parent for parent in (place, *place.parents) if not parent.exists()]
    place.mkdir(parents=True, exist_ok=True)
    lock = FileLock(place / _lock_name(target), timeout=0)
    try:
        try:
            with signals_deferred():
                lock.acquire()
        except Timeout as error:
            raise BmtoolsError(f"{target}: another process is writing it; wait for it, or give "
                               "another name") from error
        try:
            remove_abandoned(place, target)
            yield
        finally:
            with signals_deferred():
                with suppress(OSError):
                    Path(lock.lock_file).unlink()
                lock.release()
    finally:
        with suppress(OSError):
            for parent in missing:
                parent.rmdir()


def refuse_unfinished(run: Path, resume: bool, overwrite: bool) -> None:
    """Raise an error for an unfinished run, unless it is resumed or replaced; fast."""
    if run.exists() and not resume and not overwrite:
        raise BmtoolsError(f"{run} contains an unfinished run; use {setting('resume')} to continue "
                           f"it, or {setting('overwrite')} to start again")


def remove_abandoned(directory: Path, target: Path | None = None) -> None:
    """Remove unfinished files and directories whose processes have ended.

    If a kill interrupted the replacement of an older output, the older output is restored. If the
    files of a finished directory were being moved, the move is completed. The caller has locked the
    output, so only other machines can be writing it. Their files are left, because nothing here
    shows whether their processes still run.

    Args:
        directory: directory of the unfinished files.
        target: the output that they belong to; by default any output in the directory.
    """
    host, boot = _machine()
    for path in directory.iterdir() if directory.is_dir() else ():
        found = _HIDDEN.fullmatch(path.name)
        if not found or (target is not None and found["name"] != _short(target)) \
                or (found["boot"] != boot and found["host"] != host):
            continue
        owner = target or path.with_name(found["name"])
        if found["kind"] in (FINISHED, MOVING):
            move_in(path, directory)
        elif found["kind"] == _REPLACED and not owner.exists():
            path.rename(owner)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def keep_owner(source: Path, *targets: Path) -> None:
    """Give files the owner of another file, if this user is allowed to."""
    owner = source.stat()
    with suppress(PermissionError):
        for path in targets:
            os.chown(path, owner.st_uid, owner.st_gid)


def content_of(target: Path) -> list[Path]:
    """List the files in a directory that writing it would replace."""
    names = {"lost+found", *(target.name + ending for ending in (*BESIDE, ".logs"))}
    return [path for path in target.iterdir()
            if path.name not in names and not is_hidden(path, target)]


def exchange(partial: Path, target: Path) -> None:
    """Replace a directory in two steps; `remove_abandoned` repairs a kill between them."""
    replaced = target.rename(partial.with_suffix(f".{_REPLACED}"))
    try:
        partial.rename(target)
    except BaseException:
        replaced.rename(target)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def move_in(finished: Path, target: Path) -> None:
    """Move the files of a finished hidden directory into an existing directory.

    `bmtools.json`, which marks a directory as complete, is moved last. If a kill interrupts this,
    `remove_abandoned` calls it again.
    """
    if finished.suffix != f".{MOVING}":
        for path in content_of(target):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        finished = finished.rename(finished.with_suffix(f".{MOVING}"))
    for path in sorted(finished.iterdir(), key=lambda path: path.name == "bmtools.json"):
        path.rename(target / path.name)
    finished.rmdir()


def _short(target: Path) -> str:
    return os.fsdecode(os.fsencode(target.name)[:_MOST_NAME_BYTES])


def _lock_name(target: Path) -> str:
    return f".{_short(target)}.lock"


@cache
def _machine() -> tuple[str, str]:
    """Return the machine's name and an identifier of its current boot."""
    boot = read_system("proc/sys/kernel/random/boot_id").partition("-")[0]
    return re.sub(r"[./]", "_", os.uname().nodename), boot or "0"

