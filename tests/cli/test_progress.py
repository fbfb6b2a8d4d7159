"""Status of long work on stderr: a block on a terminal, otherwise lines."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from bmtools.cli import progress
from bmtools.cli.progress import Display, StatusView
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.status import Status, set_status, watching_status

_CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
_SECONDS = 20.0


class Terminal(io.StringIO):
    """Terminal that stores the text written to it.

    Attributes:
        buffer: binary stream of a real terminal, which writes past the status block.
    """

    buffer = io.BytesIO()

    def isatty(self) -> bool:
        return True

    @property
    def screen(self) -> list[str]:
        return replayed(self.getvalue())


@contextmanager
def showing_on(stream: io.StringIO, command: str = "pretrain") -> Iterator[Display]:
    """Show the status of a command on a stream that replaces stderr."""
    before, sys.stderr = sys.stderr, stream
    try:
        with Display(command) as display, watching_status(display.view.update):
            yield display
        assert sys.stderr is stream
    finally:
        sys.stderr = before


def replayed(text: str) -> list[str]:
    """Return the lines visible on a screen after printing text with escape codes."""
    lines, row = [""], 0
    position = 0
    for code in [*_CODE.finditer(text), None]:
        for part in re.split(r"([\r\n])", text[position:code.start() if code else None]):
            if part == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif part == "\r":
                column = 0
            elif part:
                lines[row] = part if not lines[row] or not column else lines[row] + part
                column = len(lines[row])
            column = len(lines[row]) if part == "" else column if part != "\n" else 0
        if code:
            position = code.end()
            number, kind = code.groups()
            if kind == "A":
                row -= int(number or 1)
            elif kind == "K":
                lines[row] = ""
    return [line.rstrip() for line in lines if line.strip()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stderr a terminal whose block is drawn immediately and often."""
    stream = Terminal()
    monkeypatch.setattr(progress, "_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_BLOCK_SECONDS", 0.005)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    return stream


def wait_for(shown: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not shown() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert shown()


def test_the_first_line_has_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    view = StatusView("translate")
    view.update(Status("translating", 40, 100, "records", {"sentences": 1000}))
    now = 110.0
    view.update(Status("translating", 60, 100, "records", {"sentences": 1055}))
    assert view.line() == "translating: 60 of 100 records, 5.5 sentences/s, 20 s left"


def test_an_activity_without_values_has_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    view = StatusView("pretrain")
    view.update(Status("training", 0, 100, "steps", {"tokens": 0}))
    view.update(Status("training", 90, 100, "steps", {"loss": 6.5, "tokens": 90_000}))
    view.update(Status("saving a state"))
    now = 100.1
    assert view.line() == "saving a state: loss 6.50"


def test_a_block_shows_the_known_values(terminal: Terminal) -> None:
    with showing_on(terminal):
        wait_for(lambda: "loading libraries" in terminal.getvalue())
        set_status("training, phase 2 of 3: long", 0, 2400, "steps", tokens=0)
        time.sleep(0.05)
        set_status("training, phase 2 of 3: long", 1200, 2400, "steps", loss=4.25,
                   mlm_accuracy=0.125, tokens=90_000)
        wait_for(lambda: "loss 4.25" in terminal.getvalue())
        first, bar = terminal.screen
    assert re.search(r"pretrain  training, phase 2 of 3: long: 1,200 of 2,400 steps, loss", first)
    assert bar.startswith("━━")
    assert terminal.screen == []


def test_other_messages_are_printed_above_the_block(terminal: Terminal) -> None:
    with showing_on(terminal):
        wait_for(lambda: "loading" in terminal.getvalue())
        say("the first note")
        print(f"[bold]a warning {'x' * 100}", file=sys.stderr)
        sys.stderr.write("half a ")
        sys.stderr.write("line\n")
        drawn = len(terminal.getvalue())
        wait_for(lambda: len(terminal.getvalue()) > drawn)
        assert terminal.screen[0] == "bmtools: the first note"
        assert "pretrain" in terminal.screen[-1]
    assert terminal.screen == [
        "bmtools: the first note", f"[bold]a warning {'x' * 100}", "half a line"]


def test_stdout_is_printed_while_the_block_is_hidden(terminal: Terminal,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal)
    with showing_on(terminal) as display:
        wait_for(lambda: "loading" in terminal.getvalue())
        with display.paused():
            print("a row")
            assert terminal.screen == ["a row"]
        wait_for(lambda: len(terminal.screen) == 2)
        display.close()
        assert terminal.screen == ["a row"]
    assert terminal.screen == ["a row"]


@pytest.mark.parametrize("name", ["dumb", "unknown"])
def test_a_terminal_without_cursor_movement_gets_lines(terminal: Terminal,
                                                       monkeypatch: pytest.MonkeyPatch,
                                                       name: str) -> None:
    monkeypatch.setenv("TERM", name)
    assert_lines(terminal, monkeypatch)


def test_a_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert_lines(io.StringIO(), monkeypatch)


def assert_lines(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.01)
    with showing_on(stream):
        wait_for(lambda: "loading libraries: 0." in stream.getvalue())
        set_status("training", 1200, 2400, "steps", loss=4.25)
        wait_for(lambda: "training: 1,200 of 2,400 steps, loss 4.25\n" in stream.getvalue())
    assert "\x1b" not in stream.getvalue()


def test_two_commands_of_a_pipe_share_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One command shows its block; the other waits until the first one ends."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(progress, "_DELAY_SECONDS", _SECONDS)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0), os.fdopen(theirs, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with Display("a") as first, Display("b") as second:
            assert first._has_terminal() and not second._has_terminal()
            first.close()
            assert second._has_terminal()


def test_only_the_main_process_shows_the_status(terminal: Terminal,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(sys, "stderr", terminal)
    step = CommandStep(click.Context(click.Command("pretrain")))
    with step.opened():
        set_status("training", 1, 2)
        time.sleep(0.05)
    assert step.display is None and terminal.getvalue() == ""


def on_terminal(*arguments: object, stdin: Any = subprocess.DEVNULL, wait: str = "",
                **environment: str) -> tuple[str, float]:
    """Run bmtools with stdout and stderr on a pseudo-terminal.

    Args:
        arguments: arguments of bmtools.
        stdin: stdin of the process.
        wait: text after which stdin is closed.
        environment: environment variables to set.

    Returns:
        the printed text, and the seconds until its first character.
    """
    ours, theirs = pty.openpty()
    began, first, printed = time.monotonic(), 0.0, b""
    process = subprocess.Popen(
        [sys.executable, "-m", "bmtools", *map(str, arguments)], stdin=stdin, stdout=theirs,
        stderr=theirs, env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80",
                            **environment})
    os.close(theirs)
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        first = first or time.monotonic() - began
        printed += part
        if process.stdin and wait.encode() in printed:
            process.stdin.close()
            process.stdin = None
    os.close(ours)
    assert process.wait(_SECONDS) == 0, printed.decode()
    return printed.decode().replace("\r\n", "\n"), first


def test_a_message_appears_before_any_work(tmp_path: Path) -> None:
    """The input does not arrive: the command immediately reports that it waits for it."""
    printed, seconds = on_terminal(
        "import", "text", "--allow-empty", "-o", tmp_path / "out", stdin=subprocess.PIPE,
        wait="importing", COLORTERM="truecolor", NO_COLOR="1")
    assert seconds < 10  # a second on a quiet machine
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", printed)


def test_records_on_a_terminal_are_lines_of_json(write_lines: Callable[..., Path]) -> None:
    path = write_lines("notes.jsonl", {"id": "1", "text": "Il cuore."})
    printed, _ = on_terminal("import", "jsonl", path)
    assert replayed(printed)[0].startswith('{"id":"1","text":"Il cuore."')


def test_results_on_a_terminal_are_a_table() -> None:
    table, _ = on_terminal("recipe", "list")
    lines, _ = on_terminal("recipe", "list", "--json")
    assert replayed(table)[0].split() == ["recipe", "title", "phases", "source"]
    assert replayed(lines)[0].startswith('{"recipe":"biobert"')


def test_a_pipe_imports_no_terminal_library(write_lines: Callable[..., Path]) -> None:
    path = write_lines("notes.jsonl", {"id": "1", "text": "Il cuore."})
    code = ("import sys; from bmtools.cli.main import main\n"
            "try: main()\nfinally: assert 'rich' not in sys.modules")
    done = subprocess.run([sys.executable, "-c", code, "import", "jsonl", str(path)],
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
