"""Step records of the files and pipes that a command writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from bmtools.cli.outputs import DeclaredPath
from bmtools.cli.streams import StdoutDigest
from bmtools.io.failures import is_url
from bmtools.io.folders import archive_of
from bmtools.io.json_files import NAME
from bmtools.io.output import record_of
from bmtools.io.provenance.manifest import (
    CARD,
    add_input,
    hash_directory,
    hash_file,
    without_places,
)
from bmtools.io.provenance.pipes import leave_record, pipe_number
from bmtools.io.provenance.record import (
    add_step,
    hash_content,
    hash_folder,
    make_record,
    recorded_outputs,
    write_record,
)
from bmtools.io.sources import is_compressed, source_name
from bmtools.io.step import Step
from bmtools.records import JsonObject

SWITCH = "BMTOOLS_PROVENANCE"
"""Environment variable that turns off the records of files and pipes if it is 0."""


@dataclass(frozen=True)
class Redirected:
    """Regular file to which the shell redirected stdout.

    Args:
        path: path of the file.
        size: size in bytes before the command started.
    """

    path: Path
    size: int

    @classmethod
    def find(cls) -> Redirected | None:
        """Find the file; return None if stderr also goes there, because a log gets no record."""
        try:
            found, path = os.fstat(1), Path("/proc/self/fd/1").readlink()
            if not S_ISREG(found.st_mode) or os.path.samestat(found, os.fstat(2)) \
                    or not os.path.samestat(found, path.stat()):
                return None
            if not found.st_size:
                record_of(path).unlink(missing_ok=True)  # the shell emptied the file
            return cls(path, found.st_size)
        except OSError:
            return None

    def forget(self) -> None:
        """Remove the record of the file, which the command left incomplete."""
        record_of(self.path).unlink(missing_ok=True)


def record_outputs(step: Step, inputs: Sequence[DeclaredPath], written: Sequence[DeclaredPath],
                   stdout: StdoutDigest, redirected: Redirected | None) -> None:
    """Write the records of a command's files, and store the record of its pipe.

    Args:
        step: the command, which has succeeded.
        inputs: files and directories that it may have read.
        written: outputs that it has written.
        stdout: digest of its stdout.
        redirected: file to which its stdout is redirected.

    Raises:
        OSError: a record cannot be written.
    """
    number = pipe_number(1) if stdout.size else ""
    # A card is inside its checkpoint; a record file next to it would change the checkpoint.
    files = [path.target for path in written if not path.kind.is_directory and path.is_file
             and Path(path.name).name != CARD]
    if not (files or number or (redirected and stdout.size)):
        return
    hashes, parents = _inputs(step, inputs, [*files, *([redirected.path] if redirected else [])])
    for path in files:
        content = hash_content(str(path))
        of_bytes = hash_file(path) if is_compressed(str(path)) else content
        write_record(path, make_record(step, hashes, parents, content), of_bytes)
    record = make_record(step, hashes, parents, stdout.sha256.hexdigest())
    if number:
        leave_record(number, record)
    elif redirected and stdout.size:
        _write_redirected(redirected, stdout.size, record)


def _write_redirected(redirected: Redirected, size: int, record: JsonObject) -> None:
    """Write the record of the redirected stdout, unless other programs also wrote to it."""
    path = redirected.path
    if redirected.size:
        record = add_step(path, redirected.size, record)
    if record and path.stat().st_size == redirected.size + size:
        write_record(path, record, record["sha256"])
    else:
        record_of(path).unlink(missing_ok=True)


def _inputs(step: Step, paths: Sequence[DeclaredPath], written: Sequence[Path],
            ) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hashes of files by name, and the hashes of models and directories by role.

    A file that this process did not read completely is read again. A folder that the command has
    written to has changed; for such a folder, its other outputs are hashed instead.
    """
    inputs: dict[str, str] = {}
    parents: dict[str, str] = {}
    for name, place in {path.name: path for path in paths}.items():
        path = Path(name)
        if digest := step.read.get(name):
            add_input(inputs, without_places(source_name(name)), digest)
        elif place.is_open or not place.kind.is_hashed:
            continue
        elif path.is_dir() and (place.flag != "FILES" or _is_described(path)):
            role = "model" if place.flag == "FILES" else place.flag.removeprefix("--")
            add_input(parents, role, step.directories.get(path.resolve()) or hash_directory(path))
        elif path.is_dir() and any(file.is_relative_to(path.resolve()) for file in written):
            for one in recorded_outputs(path):
                if one.exists() and one.resolve() not in written:
                    digest = hash_directory(one) if one.is_dir() else hash_content(str(one))
                    add_input(inputs, without_places(str(one)), digest)
        elif path.is_dir():
            add_input(inputs, without_places(name if path.name else str(path.resolve())),
                      hash_folder(path))
        elif file := name if is_url(name) or path.is_file() else archive_of(name):
            add_input(inputs, without_places(str(file)), hash_content(str(file)))
    return inputs, parents


def _is_described(directory: Path) -> bool:
    return any((directory / name).is_file() for name in (NAME, "config.json"))
