"""Passes over records that can be resumed: by processes, job-array parts or Ray, to the same bytes.

The input is taken in parts, blocks of lines or whole files, which do not depend on the workers.
Each is worked on alone, and what becomes of it is written in the order of the parts. A command that
passes over records has a step, a function from records to records:

    class Cleaner:
        def __init__(self, config: CleanConfig) -> None: ...
        def __call__(self, records: Iterator[Record], outcome: Outcome) -> Iterator[Record]:
            for record in records:
                if reason := self._fault(record):
                    outcome.counts[reason] += 1
                    outcome.set_aside(record.replace(dropped=reason))
                else:
                    yield record

and, in `commands/clean.py`, `@takes_passes` of `bmtools.cli.pass_options`:

    with passes.opened(output, asdict(config)) as run:
        lines = run.lines(read_blocks(records), partial(RecordWorker, partial(Cleaner, config)),
                          reject)
        write_lines(lines, output)
    finish(*after_clean(run.counts, output))

A command that passes twice collects what the first pass yields, of any kind, in a file that stands
as long as the run is open: `path = run.collect("signatures", read_blocks(records), make_worker)`.

The finished work of a run into a file stands beside that file, in `FILE.run`.
"""

from __future__ import annotations

import io
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from bmtools.errors import (
    BmtoolsWarning,
    CheckpointError,
    RecordError,
    Reject,
    refuse,
    setting,
)
from bmtools.io.directories import beside, discard_run
from bmtools.io.failures import NamedFile, naming, reading
from bmtools.io.json_files import parse_json
from bmtools.io.output import encode_lines, file_version, new_file
from bmtools.io.parts import Part
from bmtools.io.record_size import MEGABYTE
from bmtools.io.step import Step
from bmtools.io.unfinished import RUN, refuse_unfinished
from bmtools.io.workers import Outcome, Worker, Workers, results_of
from bmtools.records import JsonMapping, JsonObject
from bmtools.status import set_status

RECORDS, REJECTS, ASIDE = "records.jsonl", "rejects.jsonl", "aside.jsonl"
_SETTINGS, _PROGRESS = "settings.json", "progress.json"
COMMIT_SECONDS = 1.0
_WORTH_KEEPING_SECONDS = 10.0
_CHUNK_BYTES = 1 << 20


@contextmanager
def opened_run(run: Run, resume: bool = False, overwrite: bool = False) -> Iterator[Run]:
    """Open a run, and close it; a short new one that fails before its file is there leaves nothing.

    After that it stays, since `resume` would take the file alone for a finished run and leave out
    what else belongs to it, such as rejected records.

    Args:
        run: into a regular file, or a free name.
        resume: go on with an unfinished run, if there is one.
        overwrite: replace the file, and discard an unfinished run without `resume`.

    Raises:
        BmtoolsError: there is an unfinished run, and neither is on.
    """
    refuse_unfinished(run.directory, resume, overwrite)
    if run.directory.exists() and not resume:
        discard_run(run.directory)
        run.existed = False
    before = file_version(run.output)
    try:
        yield run
    except BaseException:
        if not run.existed and time.monotonic() - run.began < _WORTH_KEEPING_SECONDS \
                and file_version(run.output) == before:
            discard_run(run.directory)
        elif run.directory.exists():
            warnings.warn(BmtoolsWarning(f"what is done is in {run.directory}; "
                                         f"{setting('resume')} goes on from there"), stacklevel=2)
        raise
    finally:
        run.files.close()


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
        began: when, on the monotonic clock.
        files: closes those of its stages.
    """

    def __init__(self, output: str, step: Step | None = None,
                 files: ExitStack | None = None) -> None:
        self.output, self.step, self.files = output, step or Step(), files or ExitStack()
        self.directory = run_directory(output)
        self.existed = self.directory.exists()
        self.began = time.monotonic()

    def begin(self, settings: JsonMapping) -> str:
        """Make the directory, or see that it is of such a run.

        Args:
            settings: by name, all that the output depends on beside the input.

        Returns:
            the name of the run.

        Raises:
            CheckpointError: the unfinished run has other settings, or is damaged.
        """
        self.began = time.monotonic()
        path = self.directory / _SETTINGS
        if not path.exists():
            settings = {**settings, "run": os.urandom(8).hex()}
            write_whole(path, settings)
        found = read_whole(path, JsonObject)
        for name, value in msgspec.to_builtins(settings).items():
            if name != "run" and found.get(name) != value:
                raise CheckpointError(
                    f"{self.directory}: the unfinished run has {setting(name)} {found.get(name)}, "
                    f"found {value}; resume with what it was started with, or start again with "
                    f"{setting('overwrite')}")
        noted = sorted(self.directory.glob(f"*{_PROGRESS}"), key=lambda one: one.stat().st_mtime_ns)
        if noted:
            self.step.resume_energy(read_whole(noted[-1], Progress).notes.get("energy", {}))
        return str(found["run"])

    def stage(self, name: str = "") -> Stage:
        """Open a stage of the run, where it is; its files are closed with the run."""
        return Stage(self, f"{name}-" if name else "")


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
        run: that it belongs to, which closes its files.
        prefix: of their names.

    Attributes:
        progress: as last noted.
    """

    def __init__(self, run: ResumableRun, prefix: str) -> None:
        self._run, self._prefix = run, prefix
        self._files: dict[str, io.BufferedRandom] = {}
        path = self.path(_PROGRESS)
        self.progress = read_whole(path, Progress) if path.exists() else Progress(0, "", {})

    def file(self, name: str) -> io.BufferedRandom:
        """Open a file at its end, without what was written after the last note of progress."""
        if name not in self._files:
            path, size = self.path(name), self.progress.sizes.get(name, 0)
            with naming(self._run.output):
                path.touch()
                raw = self._run.files.enter_context(NamedFile(path, "r+", self._run.output))
                if path.stat().st_size < size:
                    raise CheckpointError(f"{path}: found fewer than {size:,} bytes; {_damaged()}")
                raw.truncate(size)
                raw.seek(size)
            self._files[name] = self._run.files.enter_context(io.BufferedRandom(raw))
        return self._files[name]

    def content(self, name: str) -> Iterator[bytes]:
        """Yield what is in a file, which stands at its end again afterwards."""
        file = self.file(name)
        file.seek(0)
        yield from iter(partial(file.read, _CHUNK_BYTES), b"")

    def commit(self, inputs: int, input_hash: str, counts: object) -> None:
        """Note what is done; all of it is on the disk then."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        sizes = {name: file.tell() for name, file in self._files.items()}
        self.progress = Progress(inputs, input_hash, sizes, msgspec.to_builtins(counts),
                                 {"energy": self._run.step.energy()})
        write_whole(self.path(_PROGRESS), self.progress)

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
        items = iter(items)
        done = self.progress.inputs
        if done and next((after for _, after in islice(items, done - 1, None)),
                         None) != self.progress.input_hash:
            raise CheckpointError(
                f"{self._run.directory}: the unfinished run read other input than this; resume "
                f"with the files it was started with, or start again with {setting('overwrite')}")
        yield from (item for item, _ in items)

    def path(self, name: str) -> Path:
        """Return the path of a file of this stage."""
        return self._run.directory / (self._prefix + name)


def write_whole(path: Path, content: object) -> None:
    """Write a small JSON file, which replaces an older one in one step."""
    with new_file(path) as stream:
        stream.write(encode_lines([content]))


def read_whole(path: Path, shape: type[Any]) -> Any:
    """Read a small JSON file of a run.

    Raises:
        CheckpointError: it is damaged.
    """
    with reading(path, "cannot be read", _damaged()):
        return msgspec.convert(parse_json(path.read_text("utf-8")), shape)


def _damaged() -> str:
    return f"the unfinished run is damaged, start again with {setting('overwrite')}"


@contextmanager
def opened_pass(output: str | None, settings: JsonMapping, workers: Workers,
                resume: bool = False, overwrite: bool = False,
                step: Step | None = None) -> Iterator[PassRun]:
    """Open the passes of a command, and close them.

    Args:
        output: a regular file, or a free name; None where lines go to a stream at once.
        settings: by name, all that the lines depend on beside the input.
        workers: do the work.
        resume: go on with an unfinished run, if there is one.
        overwrite: discard an unfinished run without `resume`.
        step: the command.

    Raises:
        BmtoolsError: there is an unfinished run, which is another one or is not to be resumed.
    """
    from tempfile import TemporaryDirectory

    if output is None:
        with TemporaryDirectory(prefix="bmtools-") as place, ExitStack() as files:
            run = ResumableRun(f"{place}/pass", step, files)
            run.begin(settings)
            yield PassRun(run, workers, False)
        return
    with opened_run(ResumableRun(output, step), resume, overwrite) as run:
        run.begin(settings)
        yield PassRun(run, workers, True)
        discard_run(run.directory)


class PassRun:
    """Passes of a command, which come to one output.

    Args:
        run: keeps what is done.
        workers: do it.
        lasts: whether what is kept outlives this process.

    Attributes:
        records: written so far, those before an interruption included.
        counts: of the outcomes so far, by name.
    """

    def __init__(self, run: ResumableRun, workers: Workers, lasts: bool) -> None:
        self._run, self._workers, self._lasts = run, workers, lasts
        self._stage = run.stage()
        done = self._stage.progress.counts
        self.records: int = done.get("records", 0)
        self.counts: Counter[str] = Counter(done.get("counts", {}))

    def collect(self, name: str, parts: Iterator[Part], make_worker: Callable[[], Worker],
                reject: Reject = refuse) -> Path:
        """Collect the `lines` of all outcomes in a file that stands as long as the run is open.

        Args:
            name: of the file.
            parts: of the input.
            make_worker: called once in each process, to which it is sent.
            reject: bad records are raised if that is what it does, else left to the next pass.
        """
        stage = self._run.stage(name)
        file = stage.file(RECORDS)
        for outcome in self._outcomes(stage, parts, make_worker, self._workers):
            if reject is refuse:
                outcome.hand_over(reject)
            file.write(outcome.lines)
            set_status(f"reading {name}", file.tell() // MEGABYTE, unit="megabytes")
        file.flush()
        return stage.path(RECORDS)

    def lines(self, parts: Iterator[Part], make_worker: Callable[[], Worker],
              reject: Reject = refuse, aside: IO[bytes] | None = None, activity: str = "writing",
              amend: Callable[[Outcome], Outcome] | None = None,
              workers: Workers | None = None) -> Iterator[bytes]:
        """Yield all lines: at once where nothing is kept, otherwise when all are there.

        Args:
            parts: of the input.
            make_worker: called once in each process, to which it is sent.
            reject: receives bad records.
            aside: gets the lines of the second file.
            activity: a few words for the status.
            amend: changes outcomes, in their order; called in this process.
            workers: instead of those of the run.
        """
        stage = self._stage
        reject = stage.rejecting(reject) if self._lasts else reject
        set_status(activity, self.records, unit="records")
        for outcome in self._outcomes(stage, parts, make_worker, workers or self._workers):
            outcome = amend(outcome) if amend else outcome
            if not self._lasts:
                yield outcome.lines  # before an error: readers are told that there are no more
            outcome.hand_over(reject)
            self.records += outcome.records
            self.counts.update(outcome.counts)
            set_status(activity, self.records, unit="records")
            if self._lasts:
                stage.file(RECORDS).write(outcome.lines)
            if aside is not None:
                (stage.file(ASIDE) if self._lasts else aside).write(outcome.aside)
        if self._lasts:
            yield from stage.content(RECORDS)
            if aside is not None:
                aside.writelines(stage.content(ASIDE))

    def done(self, name: str = RECORDS) -> Iterator[bytes]:
        """Yield the lines that an interrupted run has written, to a second file too."""
        self._stage.file(name).flush()
        with self._stage.path(name).open("rb") as stream:
            yield from stream

    def _outcomes(self, stage: Stage, parts: Iterator[Part], make_worker: Callable[[], Worker],
                  workers: Workers) -> Iterator[Outcome]:
        """Yield the outcomes of the parts that are not done, and note those that are."""
        last: Part | None = None
        noted = time.monotonic()

        def commit(part: Part) -> None:
            counts = {"records": self.records, "counts": self.counts}
            stage.commit(part.number + 1, part.after, counts if stage is self._stage else {})

        rest = stage.rest((part, part.after) for part in parts)
        with closing(results_of(rest, make_worker, workers, stage.path("spool"))) as results:
            for last, outcomes in results:
                yield from outcomes
                if self._lasts and time.monotonic() - noted > COMMIT_SECONDS:
                    commit(last)
                    noted = time.monotonic()
        if last and self._lasts:
            commit(last)
