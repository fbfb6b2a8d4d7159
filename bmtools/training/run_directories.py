"""Directories beside the checkpoint of a run: states and encoded text, and kept checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bmtools.errors import BmtoolsError, setting
from bmtools.io.directories import RUN, beside, place_of
from bmtools.io.unfinished import real_path, remove_abandoned

STATES = "step-*"
"""Pattern of the names of states, which sort by step."""


def runs_directory(output: Path) -> Path:
    """Return the directory of an unfinished run's states and encoded text."""
    return beside(output, RUN)


def kept_directory(output: Path) -> Path:
    """Return the directory of kept checkpoints: those of each phase and of `keep_steps`."""
    return beside(output, ".kept")


def last_kept(output: Path, number: int) -> list[Path]:
    """List the last checkpoints that `keep_steps` kept of a run, in order.

    Raises:
        BmtoolsError: there are fewer.
    """
    found = sorted(kept_directory(output).glob(STATES))
    if len(found) < number:
        raise BmtoolsError(f"{kept_directory(output)}: found {len(found)} checkpoints of steps, "
                           f"expected {number} or more; {setting('keep_steps')} keeps them")
    return found[-number:]


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
    _clear_abandoned(output)
    try:
        yield
    except BaseException:
        _clear_abandoned(output)
        directory = runs_directory(output)
        # Encoded text beyond a first shard took minutes.
        useful = (STATES, "text-*/shard-00001*", "text-*.run/shard-00000*")
        if not any(next(directory.glob(pattern), None) for pattern in useful):
            shutil.rmtree(directory, ignore_errors=True)
        raise


def _clear_abandoned(output: Path) -> None:
    """Remove files and directories that a kill left unfinished."""
    target = real_path(output)
    remove_abandoned(place_of(target), target)
    for directory in (runs_directory(output), kept_directory(output)):
        remove_abandoned(directory)
