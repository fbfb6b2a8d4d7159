"""Passes over records: by processes, shards of a job array or a Ray cluster, to the same bytes.

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
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

from bmtools.errors import Reject, refuse
from bmtools.io.directories import discard_run
from bmtools.io.record_size import MEGABYTE
from bmtools.io.resumable import COMMIT_SECONDS, RECORDS, ResumableRun, Stage, opened_run
from bmtools.io.step import Step
from bmtools.io.workers import Outcome, Part, Worker, Workers, results_of
from bmtools.records import JsonMapping, JsonObject
from bmtools.status import set_status

ASIDE = "aside.jsonl"


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
    if output is None:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="bmtools-") as directory:
            run = ResumableRun(str(Path(directory) / "pass"), step)
            run.begin(settings)
            with closing(run):
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
        for outcome in self._outcomes(stage, parts, make_worker, self._workers, dict):
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
        for outcome in self._outcomes(stage, parts, make_worker, workers or self._workers,
                                      self._totals):
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
        if self._lasts and aside is not None:
            aside.writelines(stage.content(ASIDE))

    def done(self) -> Iterator[bytes]:
        """Yield the lines that an interrupted run has written."""
        return self._stage.lines(RECORDS)

    def aside_done(self) -> Iterator[bytes]:
        """Yield the lines that an interrupted run has written to the second file."""
        return self._stage.lines(ASIDE)

    def _totals(self) -> JsonObject:
        return {"records": self.records, "counts": self.counts}

    def _outcomes(self, stage: Stage, parts: Iterator[Part], make_worker: Callable[[], Worker],
                  workers: Workers, totals: Callable[[], JsonObject]) -> Iterator[Outcome]:
        """Yield the outcomes of the parts that are not done, and note those that are."""
        last: tuple[int, str] | None = None
        noted = time.monotonic()
        rest = stage.rest((part, part.after) for part in parts)
        results = results_of(rest, make_worker, workers, stage.path("spool"))
        with closing(results):
            for number, after, outcomes in results:
                yield from outcomes
                last = number + 1, after
                if self._lasts and time.monotonic() - noted > COMMIT_SECONDS:
                    stage.commit(*last, totals())
                    noted = time.monotonic()
        if last and self._lasts:
            stage.commit(*last, totals())
