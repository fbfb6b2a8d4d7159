"""Sources that are read twice: what is no file is copied into a temporary one first."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from bmtools.io.output import temporary_file
from bmtools.io.sources import STDIN, MemberName, note_of


@contextmanager
def rereadable(names: Sequence[str]) -> Iterator[list[str]]:
    """Return names that can be opened again and again, until the block ends.

    Args:
        names: of files; `-` and pipes are copied as they are, compressed or not, to the directory
            of temporary files (TMPDIR).
    """
    with ExitStack() as stack:
        yield [name if name != STDIN and Path(name).is_file() else _copy(name, stack)
               for name in names]


def _copy(name: str, stack: ExitStack) -> MemberName:
    copy = stack.enter_context(temporary_file())
    with nullcontext(sys.stdin.buffer) if name == STDIN else Path(name).open("rb") as source:
        shutil.copyfileobj(source, copy)
    copy.flush()
    return MemberName(name, _opener(copy), note_of(name))


def _opener(copy: BinaryIO) -> Callable[[], BinaryIO]:
    def open_again() -> BinaryIO:
        copy.seek(0)
        return io.BufferedReader(io.FileIO(os.dup(copy.fileno())))

    return open_again
