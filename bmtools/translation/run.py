"""Translation into a file: what is done stands beside it, so that an interrupted run can go on."""

from __future__ import annotations

import io
import os
import shutil
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from bmtools.errors import (
    BmtoolsError,
    BmtoolsWarning,
    CheckpointError,
    RecordError,
    Reject,
    setting,
)
from bmtools.io.directories import BESIDE, beside, discard_run
from bmtools.io.failures import NamedFile, naming, reading
from bmtools.io.jsonl import parse_json
from bmtools.io.output import encode_lines, open_output
from bmtools.records import Record
from bmtools.translation.cache import DATABASE
from bmtools.translation.counts import TranslationCounts

_SETTINGS, _PROGRESS = "settings.json", "progress.json"
_RECORDS, _REJECTS = "records.jsonl", "rejects.jsonl"
_COMMIT_SECONDS = 1.0
_WORTH_KEEPING_SECONDS = 10.0
_CONTEXT = 30  # characters


@dataclass(frozen=True)
class _Progress:
    """Progress of a run.

    Args:
        inputs: records read, those rejected included.
        input_hash: of them.
        records_bytes: of the records written.
        rejects_bytes: of those rejected.
        counts: of the records, for people.
    """

    inputs: int = 0
    input_hash: str = ""
    records_bytes: int = 0
    rejects_bytes: int = 0
    counts: dict[str, Any] = field(default_factory=dict)


@contextmanager
def opened_run(output: str, resume: bool = False,
               overwrite: bool = False) -> Iterator[TranslationRun]:
    """Open a run that writes a file, and close it; a short new one that fails leaves nothing.

    Args:
        output: a regular file, or a free name.
        resume: go on with an unfinished run, if there is one.
        overwrite: replace the file, and discard an unfinished run without `resume`.

    Raises:
        BmtoolsError: there is an unfinished run, and neither is on.
    """
    directory = run_directory(output)
    if directory.exists() and not resume:
        if not overwrite:
            raise BmtoolsError(f"{directory} holds an unfinished run; {setting('resume')} "
                               f"continues it, {setting('overwrite')} starts again")
        discard_run(directory)
    run = TranslationRun(output)
    try:
        yield run
    except BaseException:
        if not run.is_worth_keeping:
            discard_run(directory)
        elif directory.exists():
            warnings.warn(BmtoolsWarning(f"what is translated is in {directory}; "
                                         f"{setting('resume')} goes on from there"), stacklevel=2)
        raise
    finally:
        run.close()


def run_directory(output: str) -> Path:
    """Name the directory of an unfinished run that writes a file."""
    return beside(Path(output), BESIDE[0])


class TranslationRun:
    """Run that writes a file, by way of a directory of that name with `.run`.

    The directory has the records done, uncompressed, the rejected ones, how far the input is, and
    the translated sentences, unless another cache was named.

    Args:
        output: a regular file, or a free name.

    Attributes:
        directory: the one beside the file.
        counts: of the records done, those before an interruption included.
        finish: makes what the file gets of all records; None leaves them as they are.
    """

    def __init__(self, output: str) -> None:
        self.output = output
        self.directory = run_directory(output)
        self._progress = _Progress()
        self._hashes: deque[str] = deque()  # of the inputs so far, after each one that is not done
        self._files = ExitStack()
        self._existed = self.directory.exists()
        self._began = time.monotonic()
        self.counts = TranslationCounts()
        self.finish: Callable[[Iterable[Record]], Iterable[Record]] | None = None

    def begin(self, settings: Mapping[str, Any]) -> str:
        """Make the directory, or read how far it is.

        Args:
            settings: by name, all that the records depend on.

        Returns:
            the name of the run.

        Raises:
            CheckpointError: the unfinished run has other settings, or is damaged.
        """
        self._began = time.monotonic()
        if not (self.directory / _SETTINGS).exists():
            settings = {**settings, "run": os.urandom(8).hex()}
            with naming(self.output):
                self.directory.mkdir(parents=True, exist_ok=True)
                self._replace(_SETTINGS, settings)
        found = self._read(_SETTINGS)
        for name, value in settings.items():
            if name != "run" and found.get(name) != value:
                old, new = _differing(str(found.get(name)), str(value))
                raise CheckpointError(
                    f"{self.directory}: the unfinished run has {setting(name)} {old}, found {new}; "
                    "resume with what it was started with, or start again with "
                    f"{setting('overwrite')}")
        if (self.directory / _PROGRESS).exists():
            self._progress = msgspec.convert(self._read(_PROGRESS), _Progress)
            for name, count in self._progress.counts.items():
                setattr(self.counts, name, Counter(count) if isinstance(count, dict) else count)
        self._records = self._open(_RECORDS, self._progress.records_bytes)
        self._rejects = self._open(_REJECTS, self._progress.rejects_bytes)
        return str(found["run"])

    @property
    def cache(self) -> Path:
        """The database of its sentences."""
        return self.directory / DATABASE

    def rest(self, items: Iterable[Record | RecordError]) -> Iterator[Record | RecordError]:
        """Skip what is done of the input.

        Raises:
            CheckpointError: it is not the input that the run was started with.
        """
        digest = blake2b(digest_size=16)
        number = 0
        for number, item in enumerate(items, 1):
            digest.update(encode_lines([item.content if isinstance(item, RecordError) else item]))
            if number > self._progress.inputs:
                self._hashes.append(digest.hexdigest())
                yield item
            elif number == self._progress.inputs and digest.hexdigest() != \
                    self._progress.input_hash:
                raise self._other_input()
        if number < self._progress.inputs:
            raise self._other_input()

    def rejecting(self, reject: Reject) -> Reject:
        """Reject again what was rejected; return a function that remembers what is."""
        self._rejects.seek(0)
        for line in self._rejects:
            reject(RecordError(*msgspec.json.decode(line)))

        def remember(error: RecordError) -> None:
            self._rejects.write(encode_lines([(error.place, error.reason, error.content)]))
            reject(error)

        return remember

    def write(self, records: Iterable[Record]) -> None:
        """Write records, and the file when all are there."""
        committed = time.monotonic()
        for record in records:
            self._records.write(encode_lines([record]))
            if time.monotonic() - committed > _COMMIT_SECONDS:
                self._commit()
                committed = time.monotonic()
        if self.finish and self.counts.inputs > self._progress.inputs:
            self._commit()
        self._records.seek(0)
        with open_output(self.output) as stream:
            if self.finish is None:
                shutil.copyfileobj(self._records, stream)
            else:
                for record in self.finish(map(Record, map(msgspec.json.decode, self._records))):
                    stream.write(encode_lines([record]))
        discard_run(self.directory)

    def close(self) -> None:
        """Close its files."""
        self._files.close()

    @property
    def is_worth_keeping(self) -> bool:
        """Whether going on saves more than starting again."""
        return self._existed or time.monotonic() - self._began > _WORTH_KEEPING_SECONDS

    def _commit(self) -> None:
        """Note what is done; all of it is on the disk then."""
        for file in (self._records, self._rejects):
            file.flush()
            os.fsync(file.fileno())
        for _ in range(self.counts.inputs - self._progress.inputs):
            input_hash = self._hashes.popleft()
        self._progress = _Progress(self.counts.inputs, input_hash, self._records.tell(),
                                   self._rejects.tell(), msgspec.to_builtins(self.counts))
        self._replace(_PROGRESS, self._progress)

    def _open(self, name: str, size: int) -> io.BufferedRandom:
        """Open a file, without what was written after the last note of progress."""
        path = self.directory / name
        with naming(self.output):
            path.touch()
            raw = self._files.enter_context(NamedFile(path, "r+", self.output))
            if path.stat().st_size < size:
                raise CheckpointError(f"{path}: found fewer than {size:,} bytes; {_damaged()}")
            raw.truncate(size)
            raw.seek(size)
        return self._files.enter_context(io.BufferedRandom(raw))

    def _replace(self, name: str, content: object) -> None:
        path = self.directory / name
        partial = path.with_suffix(".new")
        with naming(self.output):
            with partial.open("wb") as stream:
                stream.write(encode_lines([content]))
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(path)

    def _read(self, name: str) -> dict[str, Any]:
        path = self.directory / name
        with reading(path, "cannot be read", _damaged()):
            content: dict[str, Any] = parse_json(path.read_text("utf-8"))
            return content

    def _other_input(self) -> CheckpointError:
        return CheckpointError(
            f"{self.directory}: the unfinished run read other records than these; resume with the "
            f"files it was started with, or start again with {setting('overwrite')}")


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
