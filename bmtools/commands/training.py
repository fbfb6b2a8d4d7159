"""What the training commands share: their options and the lines they print."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from bmtools.commands.progress import tracked
from bmtools.io.manifest import NAME
from bmtools.io.streams import STDIN, RecordReader, write_records

Function = TypeVar("Function", bound=Callable[..., Any])


def resumes(function: Function) -> Function:
    """Add `--resume`: a finished run is left alone, an unfinished one goes on."""

    @click.option("--resume", is_flag=True,
                  help="Go on from the newest state of an unfinished run, if there is one.")
    @functools.wraps(function)
    def wrapper(*args: Any, resume: bool, output: Path, records: RecordReader,
                **options: Any) -> Any:
        if resume and (output / NAME).is_file():
            click.echo(f"bmtools: {output} is finished already", err=True)
            return None
        if STDIN in records.names and _processes() > 1:
            raise click.UsageError("several processes cannot share stdin; name the files instead")
        return function(*args, resume=resume, output=output, records=records, **options)

    return wrapper  # type: ignore[return-value]


def print_metrics(lines: Iterable[dict[str, Any]], doing: str) -> None:
    """Print a JSON line per report on stdout, as it comes, and progress on stderr."""
    if sys.stdout.isatty():
        write_records(lines, flush=True)
    else:
        write_records(tracked(lines, doing), flush=True)


def _processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))
