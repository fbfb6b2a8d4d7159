"""Watching of commands that run elsewhere, by the status that they keep beside their output."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Required, TypedDict

import click
import msgspec

from bmtools.cli.main import STOPPED
from bmtools.cli.progress import Block, is_terminal, live_console
from bmtools.cli.status_file import watched_path
from bmtools.cli.status_view import Snapshot
from bmtools.errors import BmtoolsError
from bmtools.io.directories import RUN
from bmtools.io.json_files import NAME
from bmtools.io.unfinished import is_reserved, is_running, real_path, status_path
from bmtools.records import JsonObject
from bmtools.values import format_duration, format_figure

if TYPE_CHECKING:
    from rich.console import RenderableType

_POLL_SECONDS, _FRAMES = 1.0, 8
_LINE_SECONDS = 10.0
# Files of a network disk may be seen that much later.
_LATE_SECONDS = 15.0
_GIVEN_UP_SECONDS = 600.0
_SECONDS_TO_BEGIN = 60.0
_PATTERN = ".*.status"


@dataclass(frozen=True)
class Ending:
    """End of a command.

    Args:
        state: done, stopped, failed or vanished.
        code: exit code that says so.
        message: more about it, in words.
    """

    state: str
    code: int
    message: str


class _Ending(TypedDict):
    code: int
    message: str


class _Process(TypedDict, total=False):
    """Keys of a status beside those of its snapshot."""

    host: Required[str]
    boot: Required[str]
    container: Required[str]
    process: Required[int]
    started: Required[str]
    every: float
    ending: _Ending


class Job:
    """Command that writes an output, as its status tells.

    Args:
        output: file or directory; there may be none yet.

    Attributes:
        snapshot: the last one; None before the first.
        ending: how it ended; None while it runs.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self._target = real_path(output)
        self._places = self._target.parent, self._target
        self._path = self._found()
        self.snapshot: Snapshot | None = None
        self.ending: Ending | None = None
        self._content: JsonObject = {}
        self._news = (0, time.monotonic(), 0.0)  # time of the file, of ours, and its age then
        self._began = 0.0  # by the clock of the disk

    def _found(self) -> Path:
        paths = [status_path(self._target, place) for place in self._places]
        return next((path for path in paths if path.exists()), paths[0])

    @property
    def is_there(self) -> bool:
        """Whether there is a command, or was one that failed."""
        return self._path.exists() or self._is_reserved()

    @property
    def is_written(self) -> bool:
        """Whether the output is there."""
        return (self._target / NAME).exists() or self._target.is_file()

    @property
    def silence(self) -> float:
        """Seconds since the last news."""
        return self._news[2] + time.monotonic() - self._news[1]

    def mark(self, watched: bool) -> None:
        """Have the command leave its last words, or take them away when they are read."""
        path = watched_path(self._path)
        with suppress(OSError):
            if watched:
                path.touch()
                return
            path.unlink(missing_ok=True)
            if self.ending and self.ending.state == "done":
                self._path.unlink(missing_ok=True)

    def refresh(self) -> None:
        """Read the status, and see what became of a command without one."""
        if self.ending:
            return
        if not self._read():
            # The file gives way to the output, or to another place, between two looks.
            self._path = self._found()
            if not self._read():
                self.ending = self._ending_without_status()
            return
        if found := self._content.get("ending"):
            self.ending = _ending(found["code"], found["message"])
        elif self._runs() is False and not self._changed():
            self.ending = Ending("vanished", 1, f"{self._who()} is gone without a word")
        elif self.silence > _GIVEN_UP_SECONDS:
            self.ending = Ending("vanished", 1, f"no news of {self._who()} for "
                                                f"{format_duration(self.silence)}")

    def _read(self) -> bool:
        """Read the file; tells whether it is there."""
        try:
            with self._path.open("rb") as stream:
                content = msgspec.json.decode(stream.read())
                changed = os.fstat(stream.fileno()).st_mtime_ns
            if changed == self._news[0]:
                return True
            msgspec.convert(content, _Process)
            self.snapshot = msgspec.convert(content, Snapshot)
        except FileNotFoundError:
            return False
        except PermissionError as error:
            raise BmtoolsError(f"{self._path}: {error.strerror}; ask its owner") from error
        except (OSError, msgspec.DecodeError):  # a network disk that is away for a while
            return True
        age = 0.0 if self._news[0] else max(0.0, _now_of(self._path.parent) - changed / 1e9)
        self._news = changed, time.monotonic(), age
        self._content, self._began = content, changed / 1e9 - self.snapshot.seconds
        return True

    def _changed(self) -> bool:
        """Tell whether the process has written its last status since it was read."""
        before = self._news[0]
        return not self._read() or self._news[0] != before

    def _ending_without_status(self) -> Ending | None:
        if not self.snapshot and self._is_reserved() and self.silence < _SECONDS_TO_BEGIN:
            return None
        if not self.snapshot and self.is_written:
            return Ending("done", 0, f"{self.output} is written")
        written = self._written_at()
        if self.snapshot and written >= int(self._began):
            return Ending("done", 0, f"{self.snapshot.command} wrote {self.output} in "
                                     f"{format_duration(max(written - self._began, 0.0))}")
        return Ending("failed", 1, "it ended without its output; its error is on its stderr")

    def _is_reserved(self) -> bool:
        return any(is_reserved(self._target, place) for place in self._places)

    def _written_at(self) -> float:
        """Return when the output was written, by the clock of its disk; 0 if it is not there."""
        manifest = self._target / NAME
        path = manifest if manifest.exists() else self._target
        return path.stat().st_ctime if path.exists() else 0.0

    def _runs(self) -> bool | None:
        return is_running(self._content) if self._content else None

    def _who(self) -> str:
        return f"process {self._content['process']} on {self._content['host']}"

    def news(self) -> str:
        """Say when there were news, and of late ones what is known of the process."""
        if self.ending or not self.snapshot:
            return ""
        age = format_duration(round(self.silence))
        if self.silence < self._content.get("every", 0) + _LATE_SECONDS:
            return f"{self._who()}, {age} ago"
        return f"no news for {age}; {self._who()} " + (
            "is still there" if self._runs() else "cannot be seen from here")

    def line(self) -> str:
        """Describe the job in a line."""
        if self.ending:
            command = self.snapshot.command if self.snapshot else "the command"
            return self.ending.message if self.ending.state == "done" else \
                f"{command} {self.ending.state}: {self.ending.message}"
        if not self.snapshot:
            return "begins"
        late = [news] if (news := self.news()).startswith("no news") else []
        return "; ".join([self.snapshot.line(), *late])

    def block(self) -> RenderableType:
        """Draw the job as it draws itself, and the news of it below."""
        from rich.console import Group
        from rich.text import Text

        if self.ending or not self.snapshot:
            return Text(f"{self.output}: {self.line()}")
        seconds = self.snapshot.seconds + self.silence
        news = self.news()
        return Group(replace(self.snapshot, seconds=seconds).block(),
                     Text(f"  {news}", "bold yellow" if news.startswith("no news") else "dim",
                          no_wrap=True, overflow="ellipsis"))

    def described(self) -> JsonObject:
        """Return all that is known, as a line of JSON."""
        state = self.ending.state if self.ending else "runs" if self.snapshot else "begins"
        who = {key: self._content[key] for key in ("host", "process") if self._content}
        return {"output": str(self.output), "state": state,
                **(asdict(self.snapshot) if self.snapshot else {}), **who,
                **({"code": self.ending.code, "message": self.ending.message} if self.ending else
                   {"silence_seconds": round(self.silence, 1)} if self.snapshot else {})}


def _ending(code: int, message: str) -> Ending:
    if code == 0:
        return Ending("done", 0, message)
    state = "stopped" if code == STOPPED else "failed"
    reason = "--resume continues it" if code == STOPPED else "its error is on its stderr"
    return Ending(state, code if code == STOPPED else 1, message or reason)


def find_jobs(paths: Sequence[Path]) -> list[Job]:
    """Find the commands that write some outputs, or anything in some directories.

    Raises:
        BmtoolsError: there is none.
    """
    return [job for path in paths for job in _jobs_of(path)]


def _jobs_of(path: Path) -> Iterable[Job]:
    job = Job(path.with_name(path.name.removesuffix(RUN)) if path.name else path)
    if job.is_there:
        return [job]
    names = sorted(one.name for one in path.glob(_PATTERN)) if path.is_dir() else []
    if not names and not job.is_written and (
            run := job.output.with_name(job.output.name + RUN)).is_dir():
        raise BmtoolsError(f"{path}: no command writes it now; {run} holds an unfinished run, "
                           "which its command continues with --resume")
    if not names and not job.is_written:
        raise BmtoolsError(f"{path}: found no command that writes it and nothing written, expected "
                           "the -o of a command that runs, or a directory of such")
    return [Job(path / name.removeprefix(".").removesuffix(".status")) for name in names] or [job]


def follow(jobs: Sequence[Job]) -> None:
    """Show jobs on stderr until all of them have ended: as a block on a terminal, or in lines."""
    block = Block(sys.stderr, lambda: _drawn(jobs)) if is_terminal(sys.stderr) else None
    shown = -_LINE_SECONDS
    going = list(jobs)
    try:
        while True:
            for job in going:
                job.mark(True)
            refresh(going)
            for job in going:
                if job.ending:
                    click.echo(f"bmtools: {_named(job, jobs)}{job.line()}", err=True)
            if not (going := [job for job in going if not job.ending]):
                return
            if not block and time.monotonic() - shown >= _LINE_SECONDS:
                shown = time.monotonic()
                for job in going:
                    click.echo(f"{_named(job, jobs)}{job.line()}", err=True)
            for _ in range(_FRAMES):
                if block:
                    block.show()
                time.sleep(_POLL_SECONDS / _FRAMES)
    finally:
        if block:
            block.close()
        if not going:
            time.sleep(2 * _POLL_SECONDS)  # others may watch, too
        for job in jobs:
            job.mark(False)


def print_jobs(jobs: Sequence[Job]) -> None:
    """Print the state of jobs on stdout: drawn for a terminal, or a line each."""
    if is_terminal(sys.stdout):
        live_console(sys.stdout).print(_drawn(jobs))
        return
    for job in jobs:
        click.echo(f"{_named(job, jobs)}{job.line()}")


def refresh(jobs: Iterable[Job]) -> None:
    """Read the status of all."""
    for job in jobs:
        job.refresh()


def _named(job: Job, jobs: Sequence[Job]) -> str:
    return f"{job.output}: " if len(jobs) > 1 else ""


def _drawn(jobs: Sequence[Job]) -> RenderableType:
    from rich.table import Table

    if len(jobs) == 1:
        return jobs[0].block()
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(2):
        table.add_column(no_wrap=True, overflow="ellipsis")
    for _ in range(3):
        table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, overflow="ellipsis")
    for job in jobs:
        table.add_row(*_cells(job))
    return table


def _cells(job: Job) -> Iterator[str]:
    """Yield the output, activity, share done, time left, loss and news of a job."""
    now = job.snapshot
    yield job.output.name
    if job.ending or not now:
        yield job.ending.state if job.ending else "begins"
        return
    yield f"{now.command}: {now.activity}"
    yield f"{now.done / now.total:.0%}" if now.total and now.done else now.counts()
    yield "" if now.seconds_left is None else f"{format_duration(now.seconds_left)} left"
    loss = now.figures.get("loss")
    yield "" if loss is None else f"loss {format_figure('loss', loss)}"
    yield news if (news := job.news()).startswith("no news") else ""


def _now_of(directory: Path) -> float:
    """Return the time by the clock of a directory's disk; by ours where nothing can be written."""
    try:
        with TemporaryFile(dir=directory) as stream:
            return os.fstat(stream.fileno()).st_mtime
    except OSError:
        return time.time()
