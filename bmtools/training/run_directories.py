"""Directories of a run, beside the checkpoint that it will become.

Importing this costs nothing.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STATES = "step-*"
"""Pattern of the names of states, which sort by step."""


def runs_directory(output: Path) -> Path:
    """Return the directory of an unfinished run's states and encoded text."""
    return output.with_name(output.name + ".run")


def kept_directory(output: Path) -> Path:
    """Return the directory of kept checkpoints: those of each phase and of `keep_steps`."""
    return output.with_name(output.name + ".kept")


def logs_directory(output: Path) -> Path:
    """Return the directory of trackers that write files."""
    return output.with_name(output.name + ".logs")


@contextmanager
def tidied(output: Path, clears: bool) -> Iterator[None]:
    """Remove half-written files of a killed session, and a useless directory after an error.

    A run's directory stays if it has a state, or text that took long to encode.

    Args:
        output: checkpoint of the run.
        clears: whether this process removes anything; one of several does.
    """
    if not clears:
        yield
        return
    _clear_partials(output)
    try:
        yield
    except BaseException:
        directory = runs_directory(output)
        _clear_partials(output)
        if not _is_useful(directory):
            shutil.rmtree(directory, ignore_errors=True)
        raise


def _clear_partials(output: Path) -> None:
    """Remove files and directories that a kill left unfinished; finished ones were renamed."""
    mine = re.compile(rf"\.{re.escape(output.name)}\.\w{{8}}\.partial")
    partials = [path for path in output.parent.glob(".*.partial") if mine.fullmatch(path.name)]
    for directory in (runs_directory(output), kept_directory(output)):
        partials += [*directory.glob(".*.partial"), *directory.glob(".*.replaced")]
    for path in partials:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_useful(directory: Path) -> bool:
    """Tell whether there is a state, or encoded text beyond a first shard, which takes minutes."""
    useful = (STATES, "text-*/shard-00001*", "text-*.run/shard-00000*")
    return any(next(directory.glob(pattern), None) for pattern in useful)
