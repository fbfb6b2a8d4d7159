"""Step records of what a command writes into files and pipes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

import click

from bmtools.cli.outputs import OVERWRITE, OutputDirectory, OutputFile, Place, places_of
from bmtools.cli.streams import StdoutDigest, hash_stdout
from bmtools.distributed import is_main_process
from bmtools.errors import BmtoolsError, BmtoolsWarning
from bmtools.io.folders import archive_of
from bmtools.io.output import record_of
from bmtools.io.provenance.manifest import CARD, NAME, add_input, hash_input, without_places
from bmtools.io.provenance.pipes import leave_record, pipe_number
from bmtools.io.provenance.record import (
    add_step,
    hash_content,
    hash_folder,
    make_record,
    recorded_outputs,
    write_record,
)
from bmtools.io.provenance.step import Step, running
from bmtools.io.sources import STDIN, source_name
from bmtools.io.unfinished import real_path

SWITCH = "BMTOOLS_PROVENANCE"
"""Environment variable that turns the records of files and pipes off, by 0."""
_NO_INPUTS = ("--cache", "--search")
"""Options of directories whose hash does not tell what was read: of one that is written as well,
and of one in which inputs are looked for."""


@contextmanager
def recorded(context: click.Context) -> Iterator[None]:
    """Write the records of a command's files, and leave that of its pipe, once it has ended well.

    Args:
        context: of the command, with the values of its parameters.
    """
    if os.environ.get(SWITCH) == "0" or not is_main_process():
        yield
        return
    places = list(places_of(context))
    sources = {place.name: place for place in places if not place.is_output}
    pipes = {name: number for name in sources
             if (number := pipe_number(0 if name == STDIN else name))}
    step = Step(context.command_path.partition(" ")[2], _settings(context), sources, pipes)
    # A card lies in its checkpoint, which a record beside it would change.
    outputs = [real_path(place.name) for place in places if place.is_output
               and not place.is_directory and place.is_file and Path(place.name).name != CARD]
    redirected = _Redirected.find()
    with running(step), hash_stdout() as stdout:
        try:
            yield
        except click.exceptions.Exit:
            _write_records(step, sources, outputs, stdout, redirected)
            raise
        except BaseException:
            if redirected and stdout.size:
                record_of(redirected.path).unlink(missing_ok=True)
            raise
        _write_records(step, sources, outputs, stdout, redirected)


def _settings(context: click.Context) -> dict[str, Any]:
    """Return the values of a command's parameters that name neither outputs nor FILES."""
    left_out = {param.name for param in context.command.params
                if isinstance(param.type, OutputFile | OutputDirectory)} | {"files", OVERWRITE}
    return {name: value for name, value in context.params.items()
            if name not in left_out and value not in (None, ())}


@dataclass(frozen=True)
class _Redirected:
    """Regular file to which the shell has redirected stdout.

    Args:
        path: of it.
        size: its bytes before the command.
    """

    path: Path
    size: int

    @classmethod
    def find(cls) -> _Redirected | None:
        """Find it; a file of messages as well is a log, which no record describes."""
        try:
            found, path = os.fstat(1), Path("/proc/self/fd/1").readlink()
            if not S_ISREG(found.st_mode) or os.path.samestat(found, os.fstat(2)) \
                    or not os.path.samestat(found, path.stat()):
                return None
            if not found.st_size:
                record_of(path).unlink(missing_ok=True)  # it is of what the shell has emptied
            return cls(path, found.st_size)
        except OSError:
            return None


def _write_records(step: Step, sources: Mapping[str, Place], outputs: list[Path],
                   stdout: StdoutDigest, redirected: _Redirected | None) -> None:
    """Write the records; what cannot be recorded is said, and changes nothing else."""
    try:
        sys.stdout.flush()
    except (BmtoolsError, OSError, ValueError):
        return  # the main program meets it again, and says so
    number = pipe_number(1) if stdout.size else ""
    files = [path for path in outputs if path in step.digests.written]
    if not (files or number or (redirected and stdout.size)):
        return
    try:
        inputs, parents = _inputs(
            step, sources, [*files, *([redirected.path] if redirected else [])])
        for path in files:
            content, of_bytes = step.digests.written[path]
            content = content or hash_content(str(path))
            write_record(path, make_record(step, inputs, parents, content), of_bytes or content)
        record = make_record(step, inputs, parents, stdout.sha256.hexdigest())
        if number:
            leave_record(number, record)
        elif redirected and stdout.size:
            _write_redirected(redirected, stdout.size, record)
    except (BmtoolsError, OSError) as error:
        warnings.warn(BmtoolsWarning(f"no record of how the output was made ({error}); "
                                     f"{SWITCH}=0 asks for none"), stacklevel=2)


def _write_redirected(redirected: _Redirected, size: int, record: dict[str, Any]) -> None:
    """Write the record of the file behind stdout, unless others have written to it as well."""
    path = redirected.path
    if redirected.size:
        record = add_step(path, redirected.size, record)
    if record and path.stat().st_size == redirected.size + size:
        write_record(path, record, record["sha256"])
    else:
        record_of(path).unlink(missing_ok=True)


def _inputs(step: Step, sources: Mapping[str, Place], written: Sequence[Path],
            ) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hashes of files by name, and those of models and other directories by role.

    What was not read to its end by this process is read again, models once. A folder into which
    the command has written is another one now; of it, the other outputs count.
    """
    inputs: dict[str, str] = {}
    parents: dict[str, str] = {}
    for name, place in sources.items():
        path = Path(name)
        if digest := step.digests.read.get(name):
            add_input(inputs, without_places(source_name(name)), digest)
        elif place.is_open or place.flag in _NO_INPUTS:
            continue
        elif path.is_dir() and (place.flag != "FILES" or _is_described(path)):
            role = "model" if place.flag == "FILES" else place.flag.removeprefix("--")
            add_input(parents, role, hash_input(path))
        elif path.is_dir() and any(file.is_relative_to(path.resolve()) for file in written):
            for one in recorded_outputs(path):
                if one.exists() and one.resolve() not in written:
                    digest = hash_input(one) if one.is_dir() else hash_content(str(one))
                    add_input(inputs, without_places(str(one)), digest)
        elif path.is_dir():
            add_input(inputs, without_places(name if path.name else str(path.resolve())),
                      hash_folder(path))
        elif file := path if path.is_file() else archive_of(name):
            add_input(inputs, without_places(str(file)), hash_content(str(file)))
    return inputs, parents


def _is_described(directory: Path) -> bool:
    return any((directory / name).is_file() for name in (NAME, "config.json"))
