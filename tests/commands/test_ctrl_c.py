"""Ctrl-C on a terminal: the first one saves a state, a second one exits immediately."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a pseudo-terminal")
PROCESSES = pytest.mark.parametrize("more", [
    (), pytest.param(("--processes", "2"), marks=pytest.mark.slow)], ids=["one", "two processes"])
CTRL_C = b"\x03"
STOPPING = "stopping after this step and saving the training state; press Ctrl-C again to exit now"
SECONDS = 240.0
STEPS = ("--steps", "100000", "--max-length", "16", "--batch-size", "4", "--set", "logging_steps=1")
# Each step after the third takes minutes.
SLOW = """
import sys, time
from bmtools.cli.main import main
import bmtools.training.loop as loop
step = loop.Trainer.step
loop.Trainer.step = lambda self, number, *more: (
    time.sleep(600) if number == 3 else None, step(self, number, *more))[1]
main(sys.argv[1:])
"""


class Terminal:
    """A program on a separate terminal."""

    def __init__(self, *command: str) -> None:
        self.output = ""
        self.pid, self._stream = pty.fork()
        if self.pid == 0:
            os.execvp(command[0], command)

    def press(self, keys: bytes) -> None:
        os.write(self._stream, keys)

    def wait_for(self, text: str) -> None:
        """Read until a text appears."""
        deadline = time.monotonic() + SECONDS
        while text not in self.output:
            assert time.monotonic() < deadline and self._read(), self.output

    def end(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        if not select.select([self._stream], [], [], SECONDS)[0]:
            os.kill(self.pid, 9)
        try:
            found = os.read(self._stream, 65_536).decode(errors="replace")
        except OSError:  # the program has ended
            return False
        self.output += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", found)
        return bool(found)


@pytest.fixture
def on_terminal(corpus: Path, tiny_checkpoint: Path, tmp_path: Path,
                monkeypatch: pytest.MonkeyPatch) -> Callable[..., Terminal]:
    """Start a command on a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def start(*more: str, code: str = "") -> Terminal:
        program = [sys.executable, *(["-c", code] if code else ["-m", "bmtools"])]
        return Terminal(*program, "pretrain", str(corpus), "--model", str(tiny_checkpoint), "-o",
                        "out", *STEPS, "--json", *more)

    return start


@PROCESSES
def test_a_first_ctrl_c_saves_a_state(on_terminal: Callable[..., Terminal],
                                      more: tuple[str, ...]) -> None:
    terminal = on_terminal(*more)
    terminal.wait_for('"step":2,')
    terminal.press(CTRL_C)
    assert terminal.end() == 75, terminal.output
    assert STOPPING in terminal.output
    assert '"stopped":' in terminal.output
    assert "bmtools: stopped before the end; use --resume to continue" in terminal.output
    assert list(Path("out.run").glob("step-*/optimizer*.safetensors"))


@pytest.mark.slow
def test_a_second_ctrl_c_exits_immediately(on_terminal: Callable[..., Terminal]) -> None:
    terminal = on_terminal(code=SLOW)
    terminal.wait_for('"step":3,')
    time.sleep(0.3)
    terminal.press(CTRL_C)
    terminal.wait_for(STOPPING)
    time.sleep(0.3)
    pressed = time.monotonic()
    terminal.press(CTRL_C)
    assert terminal.end() == 130, terminal.output
    assert time.monotonic() - pressed < 10
    assert "bmtools: interrupted: nothing was saved yet; run the same command to start again" \
        in terminal.output
    assert not list(Path().glob("out*"))


@PROCESSES
def test_no_state_is_saved_before_the_first_step(on_terminal: Callable[..., Terminal],
                                                 more: tuple[str, ...]) -> None:
    terminal = on_terminal(*more)
    if more:  # the launcher shows no status; its processes load libraries for seconds
        children = Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children")
        while len(children.read_text().split()) < 2:
            time.sleep(0.05)
        time.sleep(1)
    else:
        terminal.wait_for("loading libraries")
    terminal.press(CTRL_C)
    assert terminal.end() == 130, terminal.output
    assert "bmtools: interrupted: nothing was saved yet; run the same command to start again" \
        in terminal.output
    assert not list(Path().glob("out*"))
