"""Runs into a file that can be resumed: what is done stands beside the file, in `FILE.run`."""

from __future__ import annotations

import io
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bmtools.errors import (
    BmtoolsError,
    BmtoolsWarning,
    CheckpointError,
    RecordError,
    Reject,
    refuse,
    setting,
)
from bmtools.io.directories import RUN, beside, discard_run
from bmtools.io.failures import NamedFile, naming, reading
from bmtools.io.json_files import parse_json
from bmtools.io.output import encode_lines
from bmtools.io.step import Step
from bmtools.records import JsonMapping, JsonObject

RECORDS, REJECTS = "records.jsonl", "rejects.jsonl"
_SETTINGS, _PROGRESS = "settings.json", "progress.json"
COMMIT_SECONDS = 1.0
_WORTH_KEEPING_SECONDS = 10.0
_CONTEXT = 30  # characters
_CHUNK_BYTES = 1 << 20


@contextmanager
def opened_run(run: Run, resume: bool = False, overwrite: bool = False) -> Iterator[Run]:
    """Open a run, and close it; a short new one that fails leaves nothing.

    Args:
        run: into a regular file, or a free name.
        resume: go on with an unfinished run, if there is one.
        overwrite: replace the file, and discard an unfinished run without `resume`.

    Raises:
        BmtoolsError: there is an unfinished run, and neither is on.
    """
    if run.directory.exists() and not resume:
        if not overwrite:
            raise BmtoolsError(f"{run.directory} holds an unfinished run; {setting('resume')} "
                               f"continues it, {setting('overwrite')} starts again")
        discard_run(run.directory)
        run.existed = False
    try:
        yield run
    except BaseException:
        if not run.is_worth_keeping:
            discard_run(run.directory)
        elif run.directory.exists():
            warnings.warn(BmtoolsWarning(f"what is done is in {run.directory}; "
                                         f"{setting('resume')} goes on from there"), stacklevel=2)
        raise
    finally:
        run.close()


def run_directory(output: str) -> Path:
    """Name the directory of an unfinished run that writes a file."""
    return beside(Path(output), RUN)


class ResumableRun:
    """Run that writes a file, by way of a directory of that name with `.run`.

    Args:
        output: a regular file, or a free name.
        step: command that the run belongs to; the energy of earlier sessions is added to its own.

    Attributes:
        directory: the one beside the file.
        existed: whether it is an earlier run's.
    """

    def __init__(self, output: str, step: Step | None = None) -> None:
        self.output, self.step = output, step or Step()
        self.directory = run_directory(output)
        self.existed = self.directory.exists()
        self._files = ExitStack()
        self._began = time.monotonic()

    def begin(self, settings: JsonMapping) -> str:
        """Make the directory, or see that it is of such a run.

        Args:
            settings: by name, all that the output depends on beside the input.

        Returns:
            the name of the run.

        Raises:
            CheckpointError: the unfinished run has other settings, or is damaged.
        """
        self._began = time.monotonic()
        path = self.directory / _SETTINGS
        if not path.exists():
            settings = {**settings, "run": os.urandom(8).hex()}
            with naming(self.output):
                self.directory.mkdir(parents=True, exist_ok=True)
                replace_whole(path, settings, self.output)
        found = read_whole(path, JsonObject)
        for name, value in msgspec.to_builtins(settings).items():
            if name != "run" and found.get(name) != value:
                old, new = _differing(str(found.get(name)), str(value))
                raise CheckpointError(
                    f"{self.directory}: the unfinished run has {setting(name)} {old}, found {new}; "
                    "resume with what it was started with, or start again with "
                    f"{setting('overwrite')}")
        noted = sorted(self.directory.glob(f"*{_PROGRESS}"), key=lambda one: one.stat().st_mtime_ns)
        if noted:
            self.step.resume_energy(read_whole(noted[-1], Progress).notes.get("energy", {}))
        return str(found["run"])

    def stage(self, name: str = "") -> Stage:
        """Open a stage of the run, where it is; its files are closed with the run."""
        return Stage(self, self._files, f"{name}-" if name else "")

    def close(self) -> None:
        """Close its files."""
        self._files.close()

    @property
    def is_worth_keeping(self) -> bool:
        """Whether going on saves more than starting again."""
        return self.existed or time.monotonic() - self._began > _WORTH_KEEPING_SECONDS


Run = TypeVar("Run", bound=ResumableRun)
Item = TypeVar("Item")


@dataclass(frozen=True)
class Progress:
    """Progress of a stage.

    Args:
        inputs: done.
        input_hash: of them.
        sizes: bytes of its files, by name.
        counts: for people.
        notes: `energy` of the work so far.
    """

    inputs: int
    input_hash: str
    sizes: dict[str, int]
    counts: JsonObject = field(default_factory=dict)
    notes: JsonObject = field(default_factory=dict)


class Stage:
    """Stage of a run: files that grow, and how far they are.

    Args:
        run: that it belongs to.
        files: closes those that are opened.
        prefix: of the names of its files.

    Attributes:
        progress: as last noted.
    """

    def __init__(self, run: ResumableRun, files: ExitStack, prefix: str) -> None:
        self._directory, self._output, self._step = run.directory, run.output, run.step
        self._opened, self._prefix = files, prefix
        self._files: dict[str, io.BufferedRandom] = {}
        path = self.path(_PROGRESS)
        self.progress = read_whole(path, Progress) if path.exists() else Progress(0, "", {})

    def file(self, name: str) -> io.BufferedRandom:
        """Open a file at its end, without what was written after the last note of progress."""
        if name not in self._files:
            path, size = self.path(name), self.progress.sizes.get(name, 0)
            with naming(self._output):
                path.touch()
                raw = self._opened.enter_context(NamedFile(path, "r+", self._output))
                if path.stat().st_size < size:
                    raise CheckpointError(f"{path}: found fewer than {size:,} bytes; {_damaged()}")
                raw.truncate(size)
                raw.seek(size)
            self._files[name] = self._opened.enter_context(io.BufferedRandom(raw))
        return self._files[name]

    def content(self, name: str) -> Iterator[bytes]:
        """Yield what is in a file, which stands at its end again afterwards."""
        file = self.file(name)
        file.seek(0)
        yield from iter(partial(file.read, _CHUNK_BYTES), b"")

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a file that stood there when it was opened."""
        self.file(name).flush()
        with self.path(name).open("rb") as stream:
            yield from stream

    def commit(self, inputs: int, input_hash: str, counts: object) -> None:
        """Note what is done; all of it is on the disk then."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        sizes = {name: file.tell() for name, file in self._files.items()}
        self.progress = Progress(inputs, input_hash, sizes, msgspec.to_builtins(counts),
                                 {"energy": self._step.energy()})
        replace_whole(self.path(_PROGRESS), self.progress, self._output)

    def rejecting(self, reject: Reject) -> Reject:
        """Reject again what was rejected; return a function that remembers what is."""
        file = self.file(REJECTS)
        file.seek(0)
        for line in file:
            reject(RecordError(*msgspec.json.decode(line)))
        if reject is refuse:  # which ends the run, and is known by its name
            return reject

        def remember(error: RecordError) -> None:
            file.write(encode_lines([(error.place, error.reason, error.content)]))
            reject(error)

        return remember

    def rest(self, items: Iterable[tuple[Item, str]]) -> Iterator[Item]:
        """Skip what is done of the input.

        Args:
            items: each with the hash of all up to it.

        Raises:
            CheckpointError: it is not the input that the run was started with.
        """
        number, progress = 0, self.progress
        for number, (item, after) in enumerate(items, 1):
            if number > progress.inputs:
                yield item
            elif number == progress.inputs and after != progress.input_hash:
                raise self._other_input()
        if number < progress.inputs:
            raise self._other_input()

    def _other_input(self) -> CheckpointError:
        return CheckpointError(
            f"{self._directory}: the unfinished run read other input than this; resume with the "
            f"files it was started with, or start again with {setting('overwrite')}")

    def path(self, name: str) -> Path:
        """Return the path of a file of this stage."""
        return self._directory / (self._prefix + name)


def replace_whole(path: Path, content: object, label: str) -> None:
    """Replace a small JSON file in one step.

    Args:
        path: of the file.
        content: what it gets.
        label: name for messages where that fails.
    """
    partial = path.with_suffix(".new")
    with naming(label):
        with partial.open("wb") as stream:
            stream.write(encode_lines([content]))
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)


def read_whole(path: Path, shape: type[Any]) -> Any:
    """Read a small JSON file of a run.

    Raises:
        CheckpointError: it is damaged.
    """
    with reading(path, "cannot be read", _damaged()):
        return msgspec.convert(parse_json(path.read_text("utf-8")), shape)


def _differing(one: str, other: str) -> Iterator[str]:
    """Yield each of two texts, of long ones what is around the first difference."""
    pairs = enumerate(zip(one, other, strict=False))
    at = next((number for number, (left, right) in pairs if left != right),
              min(len(one), len(other)))
    is_long = max(len(one), len(other)) > 2 * _CONTEXT
    for text in (one, other):
        yield f"...{text[max(0, at - _CONTEXT):at + _CONTEXT]}..." if is_long else text


def _damaged() -> str:
    return f"the unfinished run is damaged, start again with {setting('overwrite')}"
