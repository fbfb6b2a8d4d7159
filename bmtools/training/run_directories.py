"""Where a run keeps its things: beside the checkpoint that it will become.

Importing this costs nothing.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STATES = "step-*"
"""States of a run, as a pattern of names; names sort by step."""


def runs_directory(output: Path) -> Path:
    """Where the states and the encoded text of an unfinished run lie."""
    return output.with_name(output.name + ".run")


def kept_directory(output: Path) -> Path:
    """Where checkpoints kept for good lie: those of each phase, and of every so many steps."""
    return output.with_name(output.name + ".kept")


def logs_directory(output: Path) -> Path:
    """Where trackers that write files write them."""
    return output.with_name(output.name + ".logs")


@contextmanager
def tidied(output: Path, acts: bool) -> Iterator[None]:
    """Clear what a killed sitting left half-written, and leave nothing useless behind an error.

    A run's directory stays if it holds a state, or text that took long to encode.

    Args:
        output: checkpoint of the run.
        acts: whether to do it; one of several processes does.
    """
    if not acts:
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
    """Remove what a kill left in the making; what was finished has been renamed."""
    mine = re.compile(rf"\.{re.escape(output.name)}\.\w{{8}}\.partial")
    for path in output.parent.glob(".*.partial"):
        if mine.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)
    for place in (runs_directory(output), kept_directory(output)):
        for path in (*place.glob(".*.partial"), *place.glob(".*.replaced")):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_useful(directory: Path) -> bool:
    """Whether there is a state, or encoded text beyond a first shard; a shard takes minutes."""
    useful = (STATES, "text-*/shard-00001*", "text-*.run/shard-00000*")
    return any(next(directory.glob(pattern), None) for pattern in useful)
