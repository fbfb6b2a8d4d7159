"""Unfinished output: hidden names, locks, and the removal of what ended processes left.

A file or directory is written under a hidden name beside its own, which contains the machine and
the process. Its writer has locked the output. The kernel releases the lock however the process
ends, so what the next one to lock it finds is abandoned.
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
"""Ending of the directory beside an output that holds its unfinished run."""
KEPT = ".kept"
"""Ending of the directory beside an output that holds checkpoints of its phases and steps."""
BESIDE = (RUN, KEPT)
"""Endings of the directories beside an output that hold what leads to it, until it is there."""


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return the path that is written: symbolic links are followed, also to what is not there."""
    return Path(os.path.realpath(path))


def hidden_path(target: Path, kind: str, place: Path | None = None) -> Path:
    """Name an unfinished file or directory for a target.

    Args:
        target: the final path.
        kind: `partial` while it is written, `replaced` for an older one that has given way,
            `finished` for one whose files belong into a directory that stays, and `moving` while
            they are on their way.
        place: directory of the hidden one; the target's own if not given.
    """
    process = f"{'-'.join(_machine())}-{os.getpid()}-{os.urandom(2).hex()}"
    return (place or target.parent) / f".{_short(target)}.{process}.{kind}"


def is_hidden(path: Path, target: Path) -> bool:
    """Tell whether a path is that of a target's unfinished output or of its lock."""
    found = _HIDDEN.fullmatch(path.name)
    return found["name"] == _short(target) if found else path.name == _lock_name(target)


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
    """Refuse to start where an unfinished run is, unless it is resumed or replaced; cheap."""
    if run.exists() and not resume and not overwrite:
        raise BmtoolsError(f"{run} holds an unfinished run; {setting('resume')} continues it, "
                           f"{setting('overwrite')} starts again")


def remove_abandoned(directory: Path, target: Path | None = None) -> None:
    """Remove unfinished files and directories whose processes have ended.

    An exchange of an older output that a kill interrupted is reversed, or completed if the files
    of a finished directory were on their way. The caller has reserved the outputs, so only other
    machines can be writing: of those nobody here can know.

    Args:
        directory: where they are.
        target: whose they are; all of the directory if not given.
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
    """Give files the owner of another one, as far as this user may."""
    owner = source.stat()
    with suppress(PermissionError):
        for path in targets:
            os.chown(path, owner.st_uid, owner.st_gid)


def content_of(target: Path) -> list[Path]:
    """List what writing a directory would replace."""
    names = {"lost+found", *(target.name + ending for ending in (*BESIDE, ".logs"))}
    return [path for path in target.iterdir()
            if path.name not in names and not is_hidden(path, target)]


def exchange(partial: Path, target: Path) -> None:
    """Replace a directory in two steps; after a kill between them `remove_abandoned` goes back."""
    replaced = target.rename(partial.with_suffix(f".{_REPLACED}"))
    try:
        partial.rename(target)
    except BaseException:
        replaced.rename(target)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def move_in(finished: Path, target: Path) -> None:
    """Move the files of a finished hidden directory into a directory in place of its own.

    `bmtools.json`, which shows that a directory is complete, is moved last. After a kill on the way
    `remove_abandoned` calls this again.
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
    """Return the machine's name, and what tells this start of it from others."""
    boot = read_system("proc/sys/kernel/random/boot_id").partition("-")[0]
    return re.sub(r"[./]", "_", os.uname().nodename), boot or "0"

