"""Directories that appear only when they are complete."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE

from filelock import FileLock

from bmtools.errors import BmtoolsError, setting
from bmtools.io.failures import WriteError, cannot_write, naming, reason, write_error
from bmtools.io.json_files import NAME
from bmtools.io.system import interruption, read_system, signals_deferred
from bmtools.io.unfinished import (
    FINISHED,
    MOVING,
    RUN,
    content_of,
    exchange,
    hidden_path,
    keep_owner,
    move_in,
    real_path,
    remove_abandoned,
)

# Errors of mount points and of directories in a container's image.
_NOT_EXCHANGEABLE = (errno.EBUSY, errno.EXDEV)
_ESCAPED = str.maketrans({" ": r"\040", "\t": r"\011", "\n": r"\012", "\\": r"\134"})


@contextmanager
def new_directory(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Fill a hidden directory and rename it when the block ends without an error.

    An older directory is replaced in two steps; after a kill between them, the next run restores
    it. If the path is an existing empty directory, a mount point or the current directory, the
    files are moved into it, `bmtools.json` last. Files get the permissions of new files, whatever
    permissions the libraries that write them set. The directory keeps the permissions of the older
    one.

    Raises:
        BmtoolsError: the target is not empty and `overwrite` is off, or cannot be written.
    """
    refuse_existing(path, overwrite)
    target = real_path(path)
    partial = hidden_path(target, "partial", place_of(target))
    with naming(path):
        partial.mkdir(parents=True)
    try:
        yield partial
        _set_permissions(partial, target)
        interruption.check()
    except BaseException as error:
        explained = _explained(error, partial, path)
        with signals_deferred():
            shutil.rmtree(partial, ignore_errors=True)
        if explained is error:
            raise
        raise explained from error
    with signals_deferred():
        _put_in_place(partial, target, path)


def cache_directory() -> Path:
    """Return the directory of files that bmtools creates and reuses."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "bmtools")


def cached(name: str, make: Callable[[Path], object]) -> Path:
    """Return a directory of the user's cache, creating it if it is missing.

    One process creates it; other processes that need it wait.

    Args:
        name: path in the cache.
        make: fills a directory, which appears in the cache once it is complete.

    Raises:
        WriteError: the disk is full, or the user may not write.
    """
    target = cache_directory() / name
    lock = target.with_name(f".{target.name}.lock")
    if not target.exists():
        with naming(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            remove_abandoned(target.parent, target)
            if not target.exists():
                with new_directory(target) as partial:
                    make(partial)
            lock.unlink(missing_ok=True)
    return target


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Raise an error if writing would replace the target; fast, so that commands call it first."""
    target = real_path(path)
    if target.exists() and not target.is_dir():
        raise BmtoolsError(f"{path}: found a file, expected a directory to write or a free name")
    if target.is_dir() and content_of(target) and not overwrite:
        raise BmtoolsError(f"{path} is not empty; give another name, or {setting('overwrite')} to "
                           "replace it")


def place_of(target: Path) -> Path:
    """Return the directory in which the unfinished directory of a target is created.

    This is the target's parent. It is the target itself if the target cannot be exchanged, or if it
    is empty, because it may have special permissions.
    """
    return target if target.is_dir() and (_is_fixed(target) or not content_of(target)) \
        else target.parent


def beside(path: Path, ending: str) -> Path:
    """Return the path of `model.run` next to the output `model`, or inside a fixed directory."""
    if path.is_symlink() or path.name in ("", ".."):
        path = real_path(path)
    name = path.name + ending
    inside = path.is_dir() and ((path / name).exists() or _is_fixed(real_path(path)))
    return path / name if inside else path.with_name(name)


def discard_run(run: Path) -> None:
    """Remove the directory of a finished run; the name disappears in one step."""
    target = run.with_name(run.name.removesuffix(RUN))
    hidden = hidden_path(target, "partial", run.parent)
    with signals_deferred(), suppress(FileNotFoundError):
        run.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def directory_bytes(directory: Path) -> int:
    """Return the total size of all files in a directory and its subdirectories."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _is_fixed(target: Path) -> bool:
    """Return whether an existing directory cannot be replaced by renaming another one."""
    with suppress(FileNotFoundError):
        if Path.cwd().is_relative_to(target):
            return True
    mounts = {line.split()[4] for line in read_system("proc/self/mountinfo").splitlines()}
    return os.path.ismount(target) or str(target).translate(_ESCAPED) in mounts \
        or not os.access(target.parent, os.W_OK)


def _set_permissions(partial: Path, target: Path) -> None:
    if target.is_dir() and partial.parent != target:
        shutil.copystat(target, partial)
    mode = S_IMODE((target if target.is_dir() else partial).stat().st_mode)
    for file in partial.rglob("*"):
        file.chmod(mode if file.is_dir() else mode & 0o666)
    if target.is_dir():
        keep_owner(target, partial, *partial.rglob("*"))
    if (partial / NAME).is_file():
        (partial / NAME).touch()  # a file newer than its record is hashed again


def _put_in_place(partial: Path, target: Path, path: Path) -> None:
    """Rename a finished directory to its target, replacing an older directory."""
    finished = partial
    try:
        if partial.parent != target:
            try:
                exchange(partial, target) if target.exists() else partial.rename(target)
                return
            except OSError as error:
                if error.errno not in _NOT_EXCHANGEABLE:
                    raise
            shutil.move(partial, target)
            finished = target / partial.name
        finished = finished.rename(finished.with_suffix(f".{FINISHED}"))
        move_in(finished, target)
    except OSError as error:
        left = finished if finished.exists() else finished.with_suffix(f".{MOVING}")
        kept = left.rename(left.with_name(f"{target.name}.finished-{os.getpid()}"))
        raise WriteError(f"{path}: the last step failed ({reason(error)}); the finished files "
                         f"are in {kept}, move them") from error


def _explained(error: BaseException, partial: Path, path: Path) -> BaseException:
    """Name the final file in a write error; return other errors unchanged."""
    cause = write_error(error)
    if cause is None:
        return error
    files = [file for file in partial.rglob("*") if file.is_file()]
    file = Path(cause.filename) if cause.filename else \
        max(files, key=lambda file: file.stat().st_mtime_ns, default=partial)
    if file.is_relative_to(partial):
        file = path / file.relative_to(partial)
    return cannot_write(file, cause)
