"""Options of passes over records: workers, parts of the input, and resuming a killed run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from bmtools.cli.options import Decorator, Values, add_options
from bmtools.cli.results import finish
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import is_regular
from bmtools.io.parts import InputFile, RecordShard, Shard
from bmtools.io.passes import PassRun, opened_pass, run_directory
from bmtools.io.sources import STDIN
from bmtools.io.workers import Workers
from bmtools.records import JsonMapping


class ShardParam(click.ParamType):
    """The number of a part and the number of parts, such as 2/8."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> Shard:
        """Parse the value."""
        try:
            return value if isinstance(value, Shard) else Shard.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


takes_resume = click.option("--resume", is_flag=True,
                            help="Continue an unfinished run, if there is one.")


def takes_part(verb: str) -> Decorator:
    """Add `--part I/N`.

    Args:
        verb: verb for processing a part, such as Translate.
    """
    return click.option("--part", type=ShardParam(), metavar="I/N",
                        help=f"{verb} only this part of the files, of N contiguous parts: 2/8.")


@dataclass(frozen=True)
class Passes:
    """Passes over the input of a command.

    Args:
        workers: processes that do the work.
        part: the part of the input; None for the complete input.
        resume: whether to continue an unfinished run.
        overwrite: whether output may be replaced.
        step: the running command.
    """

    workers: Workers
    part: Shard | None
    resume: bool
    overwrite: bool
    step: CommandStep

    @contextmanager
    def opened(self, output: str, settings: JsonMapping) -> Iterator[PassRun]:
        """Open the run of a command; if it is already finished, end the command here.

        Args:
            output: file, or `-` for stdout.
            settings: all settings that the output depends on, except for the input, by name.
        """
        end_if_finished(self.step, output, self.resume, self.overwrite)
        with opened_pass(output if is_regular(output) else None,
                         {**settings, "part": str(self.part)},
                         self.workers, self.resume, self.overwrite, self.step) as run:
            yield run

    def of_files(self, files: Sequence[InputFile]) -> Iterator[InputFile]:
        """Yield the files of the part, or all files."""
        return iter(self.part.files(files) if self.part else files)


def end_if_finished(step: CommandStep, output: str, resume: bool, overwrite: bool) -> None:
    """End a command with `--resume` if its run has already written the file.

    Raises:
        UsageError: the output is a stream, which cannot be resumed.
    """
    if resume and not is_regular(output):
        raise click.UsageError("--resume: found no file to continue, expected --output FILE")
    if resume and not overwrite and Path(output).exists() and not run_directory(output).exists():
        finish(step, f"{output} exists already and is left unchanged")
        step.context.exit()


def _make_passes(step: CommandStep, values: Values) -> None:
    workers, part = values.pop("workers"), values.pop("part")
    values["passes"] = Passes(workers, part, values.pop("resume"), values.pop("overwrite"), step)
    records = values.get("records")
    names = records.names if isinstance(records, RecordReader) else values["files"] or (STDIN,)
    require_files(workers, names)
    if part and records is not None:
        values["records"] = RecordShard(records, part)


def require_files(workers: Workers, names: Iterable[str]) -> None:
    """Raise an error for inputs that other machines cannot read."""
    for name in names if workers.ray else ():
        if name == STDIN or not Path(name).is_file():
            raise ValueError(f"--ray: found {name!r}, expected files that the nodes can read")


def _check_workers(_step: CommandStep, values: Values) -> None:
    require_files(values["workers"], values["files"] or (STDIN,))


takes_workers = partial(add_options, [takes_settings(Workers, "workers")], _check_workers)
"""Add `--workers` and `--ray`, for commands that count over all input; passes `workers`."""
takes_passes = partial(add_options, [
    takes_settings(Workers, "workers"), takes_part("Work on"), takes_resume],
    _make_passes)
"""Add `--workers`, `--ray`, `--part` and `--resume` below FILES; passes `passes`.

`records` then contain only the part.
"""
