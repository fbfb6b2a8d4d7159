"""Outputs of a command: checked against each other and the inputs, and kept to it until it ends.

All of it happens before the command does anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISCHR
from typing import Any

import click

from bmtools.cli.help import long_name
from bmtools.cli.streams import keep_going_without_stdout
from bmtools.distributed import SUPERVISED, is_main_process
from bmtools.errors import BmtoolsError, setting
from bmtools.io.directories import BESIDE, beside, place_of, refuse_existing
from bmtools.io.failures import cannot_write, not_utf8_name
from bmtools.io.output import STDOUT, descriptor_of, is_special
from bmtools.io.unfinished import real_path, reserved, status_path

OVERWRITE = "overwrite"
_DATA = ("--output", "--rejects")
"""Options of files without which a command's work would be in vain."""


class OutputFile(click.Path):
    """The name of a file to write, or `-`."""

    def __init__(self, path_type: type = str) -> None:
        super().__init__(readable=False, allow_dash=True, path_type=path_type)


class OutputDirectory(click.Path):
    """The name of a directory to write."""

    def __init__(self) -> None:
        super().__init__(readable=False, path_type=Path)


def writes_output(command: click.Command) -> bool:
    """Tell whether a command has an option that names an output."""
    return any(isinstance(param.type, OutputFile | OutputDirectory) for param in command.params)


def prepare_outputs(context: click.Context, overwrite: bool) -> None:
    """Check all outputs of a command, and keep them to it until it ends.

    Args:
        context: of the command, with the values of its parameters.
        overwrite: whether what exists may be replaced.

    Raises:
        UsageError: two outputs, or an input and an output, are the same.
        BmtoolsError: one exists, is written by another process, or cannot be written.
    """
    places = list(places_of(context))
    outputs = [place for place in places if place.is_output]
    if any(output.is_directory or output.flag not in _DATA for output in outputs):
        keep_going_without_stdout()
    if os.environ.get(SUPERVISED) == "1" or not is_main_process():
        return  # the launcher, or the first process, does the rest for all
    _refuse_collisions([place for place in places if not place.is_output], outputs)
    may_exist = overwrite or context.params.get("resume", False)
    written = [output for output in outputs if output.is_directory or output.is_file]
    for output in written:
        if output.is_directory:
            refuse_existing(Path(output.name), may_exist)
        elif Path(output.name).exists() and not may_exist:
            raise BmtoolsError(f"{output.name} exists; give another name, or "
                               f"{setting(OVERWRITE)} to replace it")
    for output in written:
        target = real_path(output.name)
        place = place_of(target) if output.is_directory else target.parent
        if output.is_directory and (fault := not_utf8_name(target)):
            raise BmtoolsError(f"{output.name}: {fault}; libraries write no weights and tokenizers "
                               "there, so write elsewhere")
        try:
            context.with_resource(reserved(target, place))
        except OSError as error:
            raise cannot_write(output.name, error) from error


def status_file(context: click.Context) -> Path | None:
    """Name the file of a command's status beside its output; None where that is a stream."""
    for output in places_of(context):
        if output.flag == "--output" and output.is_output and (
                output.is_directory or output.is_file):
            target = real_path(output.name)
            place = place_of(target) if output.is_directory else target.parent
            return status_path(target, place)
    return None


@dataclass(frozen=True)
class Place:
    """File or directory that an argument names, as an input or as an output.

    Args:
        flag: the option, or FILES.
        name: as it was given.
        is_output: whether it is written.
        is_directory: whether it is a directory to write.
    """

    flag: str
    name: str
    is_output: bool = False
    is_directory: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it names a file that is open, such as stdin."""
        return self._descriptor is not None

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file to write, or a free name."""
        return not self.is_open and not is_special(self.name)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What all names of one file have in common; a device takes any number of writers."""
        number = self._descriptor
        try:
            found = os.stat(self.name if number is None else number)  # noqa: PTH116
        except OSError:
            return (real_path(self.name),)
        if S_ISCHR(found.st_mode) and not (self.name == STDOUT and self.is_output):
            return (self,)
        return found.st_dev, found.st_ino

    def removed(self) -> list[Path]:
        """List the directories that writing this one removes."""
        names = [Path(self.name), *(beside(Path(self.name), ending) for ending in BESIDE)]
        return [real_path(name) for name in names] if self.is_directory else []

    @property
    def _descriptor(self) -> int | None:
        """Number of the open file that it names."""
        return int(self.is_output) if self.name == STDOUT else descriptor_of(self.name)


def places_of(context: click.Context) -> Iterator[Place]:
    """List the inputs and outputs of a command, in the order of its parameters."""
    for param in context.command.params:
        values = context.params.get(param.name or "")
        flag = f"--{long_name(param)}" if isinstance(param, click.Option) else "FILES"
        if values == () and flag == "FILES":
            yield Place("stdin", STDOUT)
        for value in values if isinstance(values, tuple) else (values,):
            if value is None:
                continue
            if isinstance(param.type, OutputFile | OutputDirectory):
                yield Place(flag, str(value), True, isinstance(param.type, OutputDirectory))
            elif isinstance(param.type, click.Path):
                named = not Path(str(value)).exists() and "=" in (param.metavar or "")
                yield Place(flag, str(value).partition("=")[2] if named else str(value))
            elif "PATH" in (param.metavar or ""):  # NAME=PATH
                yield Place(flag, str(value).rpartition("=")[2])


def _refuse_collisions(inputs: Sequence[Place], outputs: Sequence[Place]) -> None:
    """Refuse outputs that are another output, or an input, or would remove one.

    Raises:
        UsageError: names the options.
    """
    found = {place.identity: place for place in inputs}
    for output in outputs:
        other = found.setdefault(output.identity, output)
        # A directory is read whole before one of its name replaces it: a model may replace itself.
        if other is not output and (other.is_output or not output.is_directory):
            names = "" if other.name == output.name else f", {other.name} and {output.name}"
            raise click.UsageError(f"{other.flag} and {output.flag} are the same{names}; name "
                                   "another for one of them")
    for output in outputs:
        removed = [directory for directory in output.removed() if directory.exists()
                   or len(outputs) > 1]
        for other in found.values() if removed else ():
            path = real_path(other.name)
            if other is not output and not other.is_open and any(
                    path.is_relative_to(directory) for directory in removed) \
                    and (path != removed[0] or other.is_output):
                raise click.UsageError(f"{other.flag}: found {other.name}, which writing "
                                       f"{output.name} would remove; name another")
