"""Directories that appear only when they are complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE

from bmtools.errors import BmtoolsError, setting


@contextmanager
def new_directory(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Fill a temporary directory and rename it when the block ends without an error.

    Files get the permissions of new ones, whatever the libraries that write them give.

    Raises:
        BmtoolsError: the target is not empty and `overwrite` is off.
    """
    refuse_existing(path, overwrite)
    partial = path.with_name(f".{path.name}.{os.urandom(4).hex()}.partial")
    partial.mkdir(parents=True)
    try:
        yield partial
        mode = S_IMODE(partial.stat().st_mode)
        for file in partial.rglob("*"):
            file.chmod(mode if file.is_dir() else mode & 0o666)
        replaced = partial.with_suffix(".replaced")
        if path.exists():
            path.rename(replaced)
        partial.rename(path)
        if replaced.exists():
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
