"""Outputs of a command: compared with each other and the inputs, and locked until it ends.

All of this happens before the command starts its work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISCHR

import click

from bmtools.cli.help import long_name
from bmtools.cli.parameters import NamedPath
from bmtools.cli.streams import keep_going_without_stdout
from bmtools.distributed import SUPERVISED, is_main_process
from bmtools.errors import BmtoolsError, setting
from bmtools.io.directories import beside, place_of, refuse_existing
from bmtools.io.failures import cannot_write, not_utf8_name
from bmtools.io.output import STDOUT, descriptor_of, file_version, is_special
from bmtools.io.unfinished import BESIDE, real_path, reserved

OVERWRITE = "overwrite"
UNNAMED = "stdin"
"""Flag of stdin for commands without files that may read it."""
_DATA = ("--output", "--rejects")
"""Options of outputs without which a command's work is useless."""


def writes_output(command: click.Command) -> bool:
    """Return whether a command has an option that names an output."""
    return any(isinstance(param.type, NamedPath) and param.type.is_output
               for param in command.params)


def check_outputs(paths: Sequence[DeclaredPath], may_exist: bool, context: click.Context) -> None:
    """Check all outputs of a command, and lock them until the command ends.

    Args:
        paths: inputs and outputs of the command.
        may_exist: whether existing outputs may be replaced or continued.
        context: context of the command; it releases the outputs at its end.

    Raises:
        UsageError: two outputs, or an input and an output, are the same.
        BmtoolsError: an output exists, is written by another process, or cannot be written.
    """
    outputs = [path for path in paths if path.kind.is_output]
    if any(output.kind.is_directory or output.flag not in _DATA for output in outputs):
        keep_going_without_stdout()
    if os.environ.get(SUPERVISED) == "1" or not is_main_process():
        return  # the launcher or the first process checks for all
    _refuse_collisions([path for path in paths if not path.kind.is_output], outputs)
    written = [output for output in outputs if output.kind.is_directory or output.is_file]
    for output in written:
        if output.kind.is_directory:
            refuse_existing(Path(output.name), may_exist)
        elif Path(output.name).exists() and not may_exist:
            raise BmtoolsError(f"{output.name} exists; give another name, or "
                               f"{setting(OVERWRITE)} to replace it")
    for output in written:
        if output.kind.is_directory and (fault := not_utf8_name(output.target)):
            raise BmtoolsError(f"{output.name}: {fault}; libraries cannot write weights and "
                               "tokenizers there, so write elsewhere")
        try:
            context.with_resource(reserved(output.target, output.folder))
        except OSError as error:
            raise cannot_write(output.name, error) from error


@dataclass(frozen=True)
class DeclaredPath:
    """File or directory that a parameter names, as an input or an output.

    Args:
        flag: the option, or FILES.
        name: the name as given.
        kind: type of the parameter.
        parameter: parameter of the command's function.
    """

    flag: str
    name: str
    kind: NamedPath
    parameter: str

    @property
    def target(self) -> Path:
        """The path of an output after following symbolic links."""
        return real_path(self.name)

    @property
    def folder(self) -> Path:
        """The directory of an output's unfinished files."""
        return place_of(self.target) if self.kind.is_directory else self.target.parent

    def state(self) -> tuple[int, int] | None:
        """Return a value that changes when the file is written; None if it does not exist."""
        return file_version(self.target)

    @property
    def is_open(self) -> bool:
        """Whether it names an open file, such as stdin."""
        return self._descriptor is not None

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file to write, or a free name."""
        return not self.is_open and not is_special(self.name)

    @property
    def identity(self) -> tuple[object, ...]:
        """A value shared by all names of a file; not by devices, which several may write."""
        number = self._descriptor
        try:
            found = os.stat(self.name if number is None else number)  # noqa: PTH116
        except OSError:
            return (real_path(self.name),)
        if S_ISCHR(found.st_mode) and not (self.name == STDOUT and self.kind.is_output):
            return (self,)
        return found.st_dev, found.st_ino

    def removed(self) -> list[Path]:
        """List the directories that writing this directory removes."""
        names = [Path(self.name), *(beside(Path(self.name), ending) for ending in BESIDE)]
        return [real_path(name) for name in names] if self.kind.is_directory else []

    @property
    def _descriptor(self) -> int | None:
        """Number of the open file that it names."""
        return int(self.kind.is_output) if self.name == STDOUT else descriptor_of(self.name)


def declared_paths(context: click.Context) -> Iterator[DeclaredPath]:
    """List the inputs and outputs of a command, in the order of its parameters."""
    for param in context.command.params:
        if not isinstance(param.type, NamedPath):
            continue
        name = param.name or ""
        values = context.params.get(name)
        flag = f"--{long_name(param)}" if isinstance(param, click.Option) else "FILES"
        if values == () and flag == "FILES":
            yield DeclaredPath(UNNAMED, STDOUT, param.type, name)
        for value in values if isinstance(values, tuple) else (values,):
            for path in param.type.paths(value) if value not in (None, "") else ():
                yield DeclaredPath(flag, path, param.type, name)


def _refuse_collisions(inputs: Sequence[DeclaredPath], outputs: Sequence[DeclaredPath]) -> None:
    """Raise an error for an output that is another output or an input, or would remove one.

    Raises:
        UsageError: names the options.
    """
    found = {path.identity: path for path in inputs}
    for output in outputs:
        other = found.setdefault(output.identity, output)
        # A directory is read completely before its replacement, so a model may replace itself.
        if other is not output and (other.kind.is_output or not output.kind.is_directory):
            names = "" if other.name == output.name else f", {other.name} and {output.name}"
            raise click.UsageError(f"{other.flag} and {output.flag} are the same{names}; give "
                                   "another name for one of them")
    for output in outputs:
        removed = [directory for directory in output.removed() if directory.exists()
                   or len(outputs) > 1]
        for other in found.values() if removed else ():
            path = real_path(other.name)
            if other is not output and not other.is_open and any(
                    path.is_relative_to(directory) for directory in removed) \
                    and (path != removed[0] or other.kind.is_output):
                raise click.UsageError(f"{other.flag}: found {other.name}, which writing "
                                       f"{output.name} would remove; give another name")
