"""Atomic writes: files and directories that appear only when they are complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from bmtools.errors import BmtoolsError, setting


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Write a temporary file and rename it when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.chmod(0o666 & ~_umask())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def new_directory(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Fill a temporary directory and rename it when the block ends without an error.

    Raises:
        BmtoolsError: the target is not empty and `overwrite` is off.
    """
    refuse_existing(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial"))
    try:
        yield partial
        _open_to_others(partial)
        replaced = None
        if path.exists():
            replaced = partial.with_suffix(".replaced")
            path.rename(replaced)
        partial.rename(path)
        if replaced is not None:
            shutil.rmtree(replaced)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Refuse a target that writing would replace; cheap, so that commands call it first."""
    if path.is_file():
        raise BmtoolsError(f"{path}: found a file, expected a directory to write or a free name")
    if path.is_dir() and any(path.iterdir()) and not overwrite:
        raise BmtoolsError(f"{path} is not empty; give another name, or {setting('overwrite')} to "
                           "replace it")


def _open_to_others(partial: Path) -> None:
    """Set the permissions that a new directory and new files have."""
    mask = _umask()
    partial.chmod(0o777 & ~mask)
    for path in partial.rglob("*"):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
