"""Standard streams whose readers stop, and signals that end a command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from bmtools.cli.streams import ended_by_signals, warnings_as_lines
from bmtools.errors import BmtoolsWarning
from bmtools.io.system import Ended, interruption


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("Il paziente ha asma.\n" * 20_000)
    return path


@pytest.fixture
def bash(warm_bmtools: Path, tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run a line of bash in the test's folder."""

    def call(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False,
            cwd=tmp_path, env={**os.environ, "PATH": f"{warm_bmtools}:{os.environ['PATH']}"})

    return call


@pytest.mark.parametrize("stderr", ["2> >(true)", "2>&-", "2> /dev/full",
                                    "2>&1 > /dev/null | true"])
def test_a_reader_of_stderr_may_stop_early(bash, text: Path, stderr: str) -> None:
    done = bash(f"bmtools import text {text} -o out.jsonl {stderr}")
    assert (done.returncode, done.stderr) == (0, "")
    assert len((text.parent / "out.jsonl").read_text().splitlines()) == 20_000


@pytest.mark.parametrize(("stdout", "message"), [
    ("/dev/full", "no space left on device); make room, or write elsewhere"),
    ("&-", "bad file descriptor)")])
@pytest.mark.parametrize("command", ["import text in.txt", "import text in.txt -o /dev/stdout",
                                     "recipe list --json"])
def test_stdout_that_fails_is_an_error(process, text: Path, tmp_path: Path, stdout: str,
                                       message: str, command: str) -> None:
    line = f"{sys.executable} -m bmtools {command} > {stdout}".replace("> &", ">&")
    done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1
    expected = "/dev/stdout" if stdout == "&-" and "-o" in command else "<stdout>"
    assert done.stderr in (f"bmtools: {name}: cannot be written ({message}\n"
                           for name in ("<stdout>", expected))


def test_a_reader_of_stdout_may_stop_early(bash, text: Path) -> None:
    done = bash("bmtools import text in.txt --rejects bad.jsonl | head -n 1")
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")


def test_a_missing_reader_of_an_output_pipe_is_an_error(bash, text: Path) -> None:
    done = bash("bmtools import text in.txt -o >(head -n 1)")
    assert done.returncode == 1
    assert done.stderr.startswith("bmtools: /dev/fd/")
    assert done.stderr.endswith(": cannot be written (broken pipe); its reader has gone away\n")


def test_process_substitution_gets_all_output(bash, text: Path) -> None:
    done = bash("bmtools import text in.txt -o >(wc -l > lines); wait $!")
    assert done.returncode == 0, done.stderr
    assert int((text.parent / "lines").read_text()) == 20_000


def test_appending_to_stdout_appends(bash, text: Path) -> None:
    done = bash("echo before > log; bmtools import text in.txt -o /dev/stdout >> log; "
                "bmtools import text in.txt -o /dev/fd/3 3>> log")
    assert done.returncode == 0, done.stderr
    lines = (text.parent / "log").read_text().splitlines()
    assert (lines[0], len(lines)) == ("before", 40_001)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("ignored", [False, True], ids=["heard", "ignored"])
def test_a_signal_to_a_process(tmp_path: Path, number: signal.Signals, ignored: bool) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "bmtools", "import", "jsonl", "-o", tmp_path / "out"],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(number, signal.SIG_IGN) if ignored else None)
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob(".*.partial")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    time.sleep(0.2)
    _, err = process.communicate(json.dumps({"id": "1", "text": "asma"}).encode(), timeout=20)
    if ignored:
        assert process.returncode == 0 and err.startswith(b"bmtools: 1 record to ")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.bmtools.json"]
    else:
        assert process.returncode == 128 + number
        assert err in (b"bmtools: terminated\n", b"bmtools: hung up\n")
        assert not list(tmp_path.iterdir())


def test_an_error_caused_by_a_signal_becomes_that_signal() -> None:
    """Example: Ctrl-C during the import of a compiled module becomes an ImportError."""
    with pytest.raises(Ended) as ended, ended_by_signals():
        signal.raise_signal(signal.SIGINT)
        raise ImportError("initialization failed")
    assert (str(ended.value), ended.value.exit_code) == ("interrupted", 130)


def test_a_signal_inside_a_destructor_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    class Loud:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Ended, match="terminated"), ended_by_signals():
        Loud()
        time.sleep(5)  # no code checks for the signal, so a timer ends the wait
    assert "ignored" not in capsys.readouterr().err


def test_work_that_reports_its_status_ends_immediately() -> None:
    began = time.monotonic()
    with pytest.raises(Ended, match="hung up"), ended_by_signals():
        signal.raise_signal(signal.SIGHUP)
        interruption.check()
    assert time.monotonic() - began < 0.4, "the timer was not needed"
    interruption.check()  # the signal was cleared


_BUSY = """
import signal, time
from bmtools.cli.streams import ended_by_signals
class Deaf:
    def __del__(self):
        print("ready", flush=True)
        time.sleep(20)
with ended_by_signals():
    Deaf()
"""


def test_a_second_signal_ends_the_process_directly() -> None:
    with subprocess.Popen([sys.executable, "-c", _BUSY], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert process.poll() is None
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143 and time.monotonic() - began < 5


def test_a_repeated_warning_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings_as_lines():
        for text in ("a conflict", "a conflict", "another"):
            warnings.warn(BmtoolsWarning(text), stacklevel=1)
    assert capsys.readouterr().err == "bmtools: a conflict\nbmtools: another\n"
