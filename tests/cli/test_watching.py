"""Commands and those who watch them, by the status that is kept beside an output."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from rich.console import Console

from bmtools.cli import status_file, watching
from bmtools.cli.main import STOPPED
from bmtools.cli.progress import Display
from bmtools.cli.results import finish
from bmtools.cli.status_file import StatusFile, watched_path
from bmtools.cli.status_view import StatusView
from bmtools.cli.step import CommandStep
from bmtools.cli.training_options import print_metrics
from bmtools.cli.watching import Job, find_jobs, follow
from bmtools.errors import BmtoolsError, DataError
from bmtools.io.unfinished import reserved, status_path
from bmtools.status import Status

TRAINING = Status("training", 30, 120, "steps", {"loss": 2.5, "tokens": 900})


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FEWEST_SECONDS", "_MOST_SECONDS"):
        monkeypatch.setattr(status_file, name, 0.01)
    monkeypatch.setattr(watching, "_POLL_SECONDS", 0.05)
    monkeypatch.setattr(watching, "_LINE_SECONDS", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return status_path(tmp_path / "model", tmp_path)


@pytest.fixture
def view() -> StatusView:
    view = StatusView("pretrain")
    view.update(TRAINING)
    return view


@pytest.fixture
def write_status(path: Path, view: StatusView) -> Callable[..., Path]:
    """Write a status as a command leaves it: `write_status(host="node7", age=40)`."""
    with StatusFile(path, view):
        content = json.loads(wait_for(path))
    path.unlink(missing_ok=True)

    def write(age: float = 0.0, **more: Any) -> Path:
        path.write_text(json.dumps({**content, **more}))
        os.utime(path, (time.time() - age,) * 2)
        return path

    return write


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    return path.read_text()


def job(tmp_path: Path) -> Job:
    found = Job(tmp_path / "model")
    found.refresh()
    return found


def test_a_status_says_what_the_command_was_told(path: Path, view: StatusView) -> None:
    Path(f"{path}.new").write_text("{}")  # of a run that was killed
    with StatusFile(path, view):
        content = json.loads(wait_for(path))
        assert (content["command"], content["activity"]) == ("pretrain", "training")
        assert (content["done"], content["total"], content["figures"]) == (
            30, 120, {"loss": 2.5, "tokens": 900})
        assert (content["process"], content["host"]) == (os.getpid(), os.uname().nodename)
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize(("worth", "kept"), [(0.0, True), (60.0, False)])
def test_a_failure_stays_after_a_while(path: Path, view: StatusView, worth: float, kept: bool,
                                       monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(status_file, "_WORTH_KEEPING_SECONDS", worth)
    with pytest.raises(DataError), StatusFile(path, view):
        wait_for(path)
        raise DataError("notes.jsonl:4: key 'text' is missing")
    assert path.exists() is kept
    found = job(tmp_path)
    assert found.ending and (found.ending.state, found.ending.code) == ("failed", 1)
    assert ("notes.jsonl:4: key 'text' is missing" in found.line()) is kept


@pytest.mark.parametrize("environment", [{}, {"TORCHELASTIC_RUN_ID": "none"}],
                         ids=["alone", "torchrun"])
def test_a_run_that_was_stopped_is_resumed(path: Path, view: StatusView, tmp_path: Path,
                                           environment: dict[str, str],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that ran for a moment only, and one whose launcher gets 0."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    step = CommandStep(click.Context(click.Command("pretrain")))
    with suppress(click.exceptions.Exit), Display("pretrain", path) as step.display:
        print_metrics(step, iter([{"stopped": 3}]), lambda _line: ("", ""))
    found = job(tmp_path)
    assert found.ending and (found.ending.state, found.ending.code) == ("stopped", STOPPED)
    assert found.line() == "pretrain stopped: --resume continues it"


def test_a_disk_that_fails_is_no_matter_of_the_command(tmp_path: Path, view: StatusView) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    path = status_path(gone / "model", gone)
    with StatusFile(path, view):
        wait_for(path)
        gone.rename(tmp_path / "elsewhere")
        time.sleep(0.05)
    blocked = status_path(tmp_path / "model", tmp_path)
    Path(f"{blocked}.new").mkdir()
    with StatusFile(blocked, view):
        time.sleep(0.05)
    assert not blocked.exists()


def test_other_processes_of_a_command_leave_the_file_to_one(path: Path, view: StatusView) -> None:
    with pytest.raises(DataError), StatusFile(path, view) as file:
        file.stop()
        path.write_text('{"command": "the other"}')
        raise DataError("killed")
    assert json.loads(path.read_text()) == {
        "command": "the other", "ending": {"code": 1, "message": "killed"}}
    path.write_text('{"ending": {"code": 0, "message": "all is well"}}')
    with StatusFile(path, view) as file:
        file.stop()
    assert "all is well" in path.read_text()


def test_the_block_is_that_of_the_command(tmp_path: Path, path: Path, view: StatusView) -> None:
    def drawn(block: Any) -> list[str]:
        stream = io.StringIO()
        Console(file=stream, width=80).print(block)
        return [line[2:].rstrip() for line in stream.getvalue().splitlines()]  # after the spinner

    with StatusFile(path, view):
        wait_for(path)
        own, watched = drawn(view.snapshot().block()), drawn(job(tmp_path).block())
    assert "training" in own[0] and "25%" in own[1]
    assert watched[1:len(own)] == own[1:]
    assert watched[0].startswith("pretrain  training")
    assert watched[-1].startswith(f"process {os.getpid()} on ")


@pytest.fixture
def ended_process() -> Iterator[int]:
    """A process that has ended, and whose parent has not asked how."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


def test_a_process_of_this_machine_is_looked_at(tmp_path: Path, ended_process: int,
                                                write_status: Callable[..., Path]) -> None:
    write_status(age=40)
    found = job(tmp_path)
    assert found.ending is None
    assert found.line().endswith(
        f"; no news for 40 s; process {os.getpid()} on {os.uname().nodename} is still there")
    for change in ({"process": ended_process}, {"process": 2**30}, {"started": "1"}):
        write_status(**change)
        found = job(tmp_path)
        assert found.ending and (found.ending.state, found.ending.code) == ("vanished", 1)
        assert found.line().endswith("is gone without a word")


@pytest.mark.parametrize("elsewhere", [{"host": "node7"}, {"boot": "0"}, {"container": "pid:[1]"}])
def test_one_of_another_machine_by_its_news(tmp_path: Path, elsewhere: dict[str, str],
                                            write_status: Callable[..., Path]) -> None:
    write_status(process=2**30, **elsewhere)
    found = job(tmp_path)
    assert found.ending is None
    assert "no news" not in found.line()
    write_status(40, process=2**30, **elsewhere)
    assert job(tmp_path).line().endswith("cannot be seen from here")
    write_status(700, process=2**30, **elsewhere)
    assert job(tmp_path).ending == watching.Ending(
        "vanished", 1, f"no news of process {2**30} on "
                       f"{elsewhere.get('host', os.uname().nodename)} for 12 min")


def test_the_clock_is_that_of_the_disk(tmp_path: Path, write_status: Callable[..., Path],
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours is an hour late, and there are news all the same."""
    write_status()
    now = time.time() + 3600
    monkeypatch.setattr(watching.time, "time", lambda: now)
    assert job(tmp_path).silence < 5


def test_following_to_the_end(tmp_path: Path, path: Path, view: StatusView,
                              capsys: pytest.CaptureFixture[str],
                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Two watch; both read the last words, and nothing stays but the output."""
    following = set()

    def refresh(jobs: Iterable[Job]) -> None:
        watching_refresh(jobs)
        following.add(threading.get_ident())

    watching_refresh = watching.refresh
    monkeypatch.setattr(watching, "refresh", refresh)
    monkeypatch.setattr(watching, "_POLL_SECONDS", 0.3)
    watchers = [threading.Thread(target=follow, args=[[Job(tmp_path / "model")]])
                for _ in range(2)]
    step = CommandStep(click.Context(click.Command("pretrain")))
    step.display = Display("pretrain")
    with step.display, StatusFile(path, view) as step.display.file:
        wait_for(path)
        for watcher in watchers:
            watcher.start()
        wait_for(watched_path(path))
        while len(following) < len(watchers):
            time.sleep(0.01)
        (tmp_path / "model").write_text("made")
        finish(step, "wrote model: loss 2.50", "bmtools score-pppl FILE --model model")
    for watcher in watchers:
        watcher.join(20)
    lines = capsys.readouterr().err.splitlines()
    last = [line for line in lines if line.startswith("bmtools: ")]
    assert last == [last[0]] * 3  # the command's own, too
    assert lines[0].startswith("training: 30 of 120 steps, loss 2.50")
    assert [one.name for one in tmp_path.iterdir()] == ["model"]


def test_an_output_tells_of_the_end_where_nothing_else_does(
        tmp_path: Path, write_status: Callable[..., Path]) -> None:
    path = write_status()
    one, other = job(tmp_path), job(tmp_path)
    path.unlink()
    one.refresh()
    assert one.ending and one.ending.code == 1
    (tmp_path / "model").mkdir()
    other.refresh()
    assert other.line() == f"pretrain wrote {tmp_path / 'model'} in 0.0 s"


def test_a_command_that_begins(tmp_path: Path) -> None:
    with reserved(tmp_path / "model", tmp_path):
        [found] = find_jobs([tmp_path / "model.run"])
        found.refresh()
        assert (found.line(), found.ending) == ("begins", None)


@pytest.mark.parametrize("content", [
    "[]", "x", '{"command": 5}', '{"command": "c", "seconds": 1}',
    '{"command": "c", "seconds": 1, "host": "h", "boot": "b", "container": "", "process": 1, '
    '"started": "1", "ending": 5}'])
def test_a_damaged_status_tells_nothing(tmp_path: Path, path: Path, content: str) -> None:
    path.write_text(content)
    [job] = find_jobs([tmp_path / "model"])
    job.refresh()
    assert job.described() == {"output": str(tmp_path / "model"), "state": "begins"}


def test_a_table_of_several(tmp_path: Path, write_status: Callable[..., Path],
                            capsys: pytest.CaptureFixture[str]) -> None:
    status = write_status()
    (tmp_path / ".other.status").write_text(
        status.read_text().replace("training", "evaluating").replace(str(os.getpid()), str(2**30)))
    jobs = find_jobs([tmp_path])
    watching.refresh(jobs)
    stream = io.StringIO()
    Console(file=stream, width=80).print(watching._drawn(jobs))
    assert [line.split() for line in stream.getvalue().splitlines()] == [
        ["model", "pretrain:", "training", "25%", "loss", "2.50"], ["other", "vanished"]]
    watching.print_jobs(jobs)
    assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()] == [
        str(tmp_path / "model"), str(tmp_path / "other")]


def test_nothing_to_watch(tmp_path: Path) -> None:
    with pytest.raises(BmtoolsError, match="found no command that writes it and nothing written"):
        find_jobs([tmp_path])
    (tmp_path / "model.run").mkdir()
    with pytest.raises(BmtoolsError, match=r"model\.run holds an unfinished run, .*--resume"):
        find_jobs([tmp_path / "model"])


def test_from_another_shell(tmp_path: Path, run: Callable[..., Any]) -> None:
    out = tmp_path / "out.jsonl"
    with subprocess.Popen(
            [sys.executable, "-m", "bmtools", "import", "text", "-o", str(out)],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(tmp_path / ".out.jsonl.status")
        [line] = map(json.loads, run("watch", out, "--once").out.splitlines())
        assert (line["state"], line["command"], line["process"]) == (
            "runs", "import text", process.pid)
        assert process.stdin and process.stderr
        threading.Timer(0.2, lambda: (process.stdin.write("Il cuore.\n"), process.stdin.close())
                        ).start()
        watched = run("watch", tmp_path)
        said = process.stderr.read().splitlines()[-1]
    assert (watched.code, watched.err.splitlines()[-1]) == (0, said)
    assert not [*tmp_path.glob(".*")]
    once = run("watch", out, "--once")
    assert (once.code, json.loads(once.out)["state"]) == (0, "done")
    assert run("watch", tmp_path / "absent").code == 1
