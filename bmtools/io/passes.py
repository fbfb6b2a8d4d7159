"""Resumable passes over records by processes, job-array parts or Ray, with identical output.

The input is read in parts, blocks of lines or whole files, which do not depend on the workers. Each
part is processed separately, and the results are written in the order of the parts. The step of
such a command is a function from records to records:

    class Cleaner:
        def __init__(self, config: CleanConfig) -> None: ...
        def __call__(self, records: Iterator[Record], outcome: Outcome) -> Iterator[Record]:
            for record in records:
                if reason := self._fault(record):
                    outcome.counts[reason] += 1
                    outcome.set_aside(record.replace(dropped=reason))
                else:
                    yield record

In `commands/clean.py` the command uses `@takes_passes` of `bmtools.cli.pass_options`:

    with passes.opened(output, asdict(config)) as run:
        lines = run.lines(read_blocks(records), partial(RecordWorker, partial(Cleaner, config)),
                          reject)
        write_lines(lines, output)
    finish(*after_clean(run.counts, output))

A command with two passes collects the results of the first pass, of any type, in a file that exists
while the run is open: `path = run.collect("signatures", read_blocks(records), make_worker)`.

The finished work of a run that writes `FILE` is stored next to it, in `FILE.run`.
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
    start_again,
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
    """Open a run and close it at the end; a short new run that fails early leaves no files.

    Once the output file exists, the run's directory is kept. Without it, `resume` would take the
    file for a finished run and lose the other outputs, such as rejected records.

    Args:
        run: a run whose output is a regular file or a free name.
        resume: continue an unfinished run, if there is one.
        overwrite: replace the file, and discard an unfinished run unless `resume` is on.

    Raises:
        BmtoolsError: there is an unfinished run, and both options are off.
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
            warnings.warn(BmtoolsWarning(f"finished work is saved in {run.directory}; use "
                                         f"{setting('resume')} to continue"), stacklevel=2)
        raise
    finally:
        run.files.close()


def run_directory(output: str) -> Path:
    """Return the directory of an unfinished run that writes a file."""
    return beside(Path(output), RUN)


class ResumableRun:
    """Run that writes a file and keeps its progress in a directory named after it with `.run`.

    Args:
        output: a regular file, or a free name.
        step: the command of the run; the energy of earlier sessions is added to the step's energy.

    Attributes:
        directory: the directory next to the file.
        existed: whether an earlier run created the directory.
        began: start time on the monotonic clock.
        files: closes the files of the run's stages.
    """

    def __init__(self, output: str, step: Step | None = None,
                 files: ExitStack | None = None) -> None:
        self.output, self.step, self.files = output, step or Step(), files or ExitStack()
        self.directory = run_directory(output)
        self.existed = self.directory.exists()
        self.began = time.monotonic()

    def begin(self, settings: JsonMapping) -> str:
        """Create the directory, or check that it belongs to a run with these settings.

        Args:
            settings: all settings that the output depends on, except for the input, by name.

        Returns:
            the random identifier of the run.

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
                    f"found {value}; resume with the original settings, or {start_again()}")
        noted = sorted(self.directory.glob(f"*{_PROGRESS}"), key=lambda one: one.stat().st_mtime_ns)
        if noted:
            self.step.resume_energy(read_whole(noted[-1], Progress).notes.get("energy", {}))
        return str(found["run"])

    def stage(self, name: str = "") -> Stage:
        """Open a stage of the run at its current progress; the run closes its files."""
        return Stage(self, f"{name}-" if name else "")


Run = TypeVar("Run", bound=ResumableRun)
Item = TypeVar("Item")


@dataclass(frozen=True)
class Progress:
    """Progress of a stage.

    Args:
        inputs: number of finished inputs.
        input_hash: hash of the finished inputs.
        sizes: size of each file in bytes, by name.
        counts: counts for closing messages.
        notes: `energy` used so far.
    """

    inputs: int
    input_hash: str
    sizes: dict[str, int]
    counts: JsonObject = field(default_factory=dict)
    notes: JsonObject = field(default_factory=dict)


class Stage:
    """Stage of a run: files that grow, and the progress they have reached.

    Args:
        run: the run that contains the stage and closes its files.
        prefix: prefix of the file names.

    Attributes:
        progress: the last saved progress.
    """

    def __init__(self, run: ResumableRun, prefix: str) -> None:
        self._run, self._prefix = run, prefix
        self._files: dict[str, io.BufferedRandom] = {}
        path = self.path(_PROGRESS)
        self.progress = read_whole(path, Progress) if path.exists() else Progress(0, "", {})

    def file(self, name: str) -> io.BufferedRandom:
        """Open a file at its end, without the content written after the last saved progress."""
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
        """Yield the content of a file; afterwards the file is at its end again."""
        file = self.file(name)
        file.seek(0)
        yield from iter(partial(file.read, _CHUNK_BYTES), b"")

    def commit(self, inputs: int, input_hash: str, counts: object) -> None:
        """Save the progress; all finished work is on disk afterwards."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        sizes = {name: file.tell() for name, file in self._files.items()}
        self.progress = Progress(inputs, input_hash, sizes, msgspec.to_builtins(counts),
                                 {"energy": self._run.step.energy()})
        write_whole(self.path(_PROGRESS), self.progress)

    def rejecting(self, reject: Reject) -> Reject:
        """Reject the saved bad records again; return a function that also saves new ones."""
        file = self.file(REJECTS)
        file.seek(0)
        for line in file:
            reject(RecordError(*msgspec.json.decode(line)))
        if reject is refuse:  # it ends the run, and callers compare with it
            return reject

        def remember(error: RecordError) -> None:
            file.write(encode_lines([(error.place, error.reason, error.content)]))
            reject(error)

        return remember

    def rest(self, items: Iterable[tuple[Item, str]]) -> Iterator[Item]:
        """Skip the finished part of the input.

        Args:
            items: each item with the hash of the input up to its end.

        Raises:
            CheckpointError: the run was started with other input.
        """
        items = iter(items)
        done = self.progress.inputs
        if done and next((after for _, after in islice(items, done - 1, None)),
                         None) != self.progress.input_hash:
            raise CheckpointError(
                f"{self._run.directory}: the unfinished run read other input; resume with "
                f"the original files, or {start_again()}")
        yield from (item for item, _ in items)

    def path(self, name: str) -> Path:
        """Return the path of a file in this stage."""
        return self._run.directory / (self._prefix + name)


def write_whole(path: Path, content: object) -> None:
    """Write a small JSON file, replacing an older file in one step."""
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
    return f"the unfinished run is damaged, {start_again()}"


@contextmanager
def opened_pass(output: str | None, settings: JsonMapping, workers: Workers,
                resume: bool = False, overwrite: bool = False,
                step: Step | None = None) -> Iterator[PassRun]:
    """Open the passes of a command, and close them at the end.

    Args:
        output: a regular file, or a free name; None if lines go directly to a stream.
        settings: all settings that the lines depend on, except for the input, by name.
        workers: workers of the passes.
        resume: continue an unfinished run, if there is one.
        overwrite: discard an unfinished run unless `resume` is on.
        step: the running command.

    Raises:
        BmtoolsError: there is an unfinished run that differs from this one or is not resumed.
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
    """Passes of a command that write one output.

    Args:
        run: stores finished work.
        workers: process the parts.
        lasts: whether the stored work outlives this process.

    Attributes:
        records: number of records written, including records before an interruption.
        counts: totals of the outcomes' counts so far, by name.
    """

    def __init__(self, run: ResumableRun, workers: Workers, lasts: bool) -> None:
        self._run, self._workers, self._lasts = run, workers, lasts
        self._stage = run.stage()
        done = self._stage.progress.counts
        self.records: int = done.get("records", 0)
        self.counts: Counter[str] = Counter(done.get("counts", {}))

    def collect(self, name: str, parts: Iterator[Part], make_worker: Callable[[], Worker],
                reject: Reject = refuse) -> Path:
        """Collect the `lines` of all outcomes in a file that exists while the run is open.

        Args:
            name: name of the file.
            parts: parts of the input.
            make_worker: called once in each process; must be picklable.
            reject: if it raises errors, bad records are raised here; otherwise the next pass
                rejects them.
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
        """Yield all lines, immediately for a stream, or after the last part for a file.

        Args:
            parts: parts of the input.
            make_worker: called once in each process; must be picklable.
            reject: receives bad records.
            aside: receives the lines of the second file.
            activity: a few words for the status.
            amend: changes outcomes, in their order; called in this process.
            workers: replaces the workers of the run.
        """
        stage = self._stage
        reject = stage.rejecting(reject) if self._lasts else reject
        set_status(activity, self.records, unit="records")
        for outcome in self._outcomes(stage, parts, make_worker, workers or self._workers):
            outcome = amend(outcome) if amend else outcome
            if not self._lasts:
                yield outcome.lines  # before an error, so that readers see it
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
        """Yield the lines that an interrupted run has written, to the output or a second file."""
        self._stage.file(name).flush()
        with self._stage.path(name).open("rb") as stream:
            yield from stream

    def _outcomes(self, stage: Stage, parts: Iterator[Part], make_worker: Callable[[], Worker],
                  workers: Workers) -> Iterator[Outcome]:
        """Yield the outcomes of unfinished parts, and save the progress from time to time."""
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
