"""`bmtools plot`: curves and bars whose cells and figures are those of the lines."""

from __future__ import annotations

import fcntl
import json
import math
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bmtools.cli.plots import Curve, PlotStyle, bars, draw_curves, plots
from bmtools.errors import DataError
from bmtools.values import three_digits

plotext = pytest.importorskip("plotext")
PLAIN = PlotStyle(80, 20, unicode=False)


def cells(text: str, mark: str = "*") -> list[tuple[float, float]]:
    """Return the places of a mark within the frame, each axis from 0 to 1."""
    lines = [line for line in text.splitlines() if re.match(r"[^|+]*[|+]", line)]
    frame = [line for line in lines if line.rstrip().endswith("|")]
    left = re.match(r"[^|+]*[|+]", frame[0])
    assert left
    inner = [line[left.end():line.rindex("|")].ljust(200) for line in frame]
    width, height = len(frame[0]) - left.end() - 2, len(frame) - 1
    return [(at / width, 1 - row / height) for row, line in enumerate(inner)
            for at, cell in enumerate(line) if cell == mark]


@pytest.mark.parametrize(("function", "log"), [
    (lambda x: 3 * x + 2, ""), (lambda x: 2 * math.exp(x / 3), "y"),
    (lambda x: 5 - math.log(x), "x"), (lambda x: x ** -2, "xy")])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_curves_that_are_straight(function: Callable[[float], float], log: str,
                                  width: int) -> None:
    points = [(x, function(x)) for x in range(1, 21)]
    text = draw_curves([Curve("one", [(float(x), y) for x, y in points])], "step", "loss",
                       PlotStyle(width, 20, unicode=False, log=log))
    found = cells(text)
    falls = points[0][1] > points[-1][1]
    assert max(abs(y - (1 - x if falls else x)) for x, y in found) < 0.09  # two of 17 rows
    assert {min(x for x, _ in found), max(x for x, _ in found)} == {0.0, 1.0}
    assert max(map(len, text.splitlines())) <= width
    assert text.isascii()
    labels = [line.split("+")[0].strip() for line in text.splitlines() if "+" in line]
    assert three_digits(max(points[0][1], points[-1][1])) in labels


def test_a_curve_of_dots_and_colours() -> None:
    curve = Curve("one", [(0.0, 0.0), (1.0, 1.0)])
    text = draw_curves([curve], "step", "loss", PlotStyle())
    assert text.startswith("loss over step:  ▪ one\n") and "┌" in text and "\x1b" not in text
    coloured = draw_curves([curve, curve], "step", "loss", PlotStyle(colour=True))
    assert "\x1b[34m▪ one" in coloured and "\x1b[31m▪ one" in coloured
    assert "48;5;15" not in coloured  # the terminal's own background


def test_bars_have_the_figures_of_their_lines() -> None:
    rows = [("base", 20.0, (10.0, 40.0)), ("a long name of a model that goes on", 40.0, None),
            ("none", 0.0, None)]
    text = bars("pppl", rows, PlotStyle(100, unicode=False))
    title, first, second, third = text.splitlines()
    assert title == "pppl"
    assert first.endswith("  20.0 [10.0, 40.0]") and second.endswith("  40.0")
    assert second.startswith("a long name of a model that go  #")
    full = second.count("#")
    at = first.index("#")
    low, middle, high = (first.index("|") - at, first.index("+") - at, first.rindex("|") - at)
    assert [round(4 * place / (full - 1)) for place in (low, middle, high)] == [1, 2, 4]
    assert "#" not in third
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("bounds", [None, (10.25, 40.125)])
@pytest.mark.parametrize("width", [40, 42, 60])
def test_bars_fit_a_narrow_window(width: int, bounds: tuple[float, float] | None) -> None:
    text = bars("pppl", [("frequency of corpus.jsonl", 20.0, bounds)], PlotStyle(width))
    assert max(map(len, text.splitlines())) <= width and "frequenc" in text


def lines_of(*lines: dict[str, Any], file: str = "log.jsonl") -> list[tuple[str, dict[str, Any]]]:
    return [(file, line) for line in lines]


def test_training_logs_are_curves_by_file_and_seed() -> None:
    log = lines_of(*({"step": step, "loss": 9 - step, "learning_rate": 0.1} for step in range(3)),
                   {"step": 2, "evaluate": {"loss": 8.0}}, {"checkpoint": "model"},
                   file="a/metrics.jsonl")
    log += lines_of(*({"step": step, "loss": 5.0} for step in (1, 2, 1, 2)), file="b.jsonl")
    loss, rate = plots(log, None, (), PLAIN)
    assert loss.splitlines()[0] == "loss over step:  * a  x b  + b (2)"
    assert rate.splitlines()[0] == "learning rate over step:  * a"
    [held_out] = plots(log, None, ("evaluate.loss",), PLAIN)
    assert held_out.splitlines()[0] == "evaluate loss over step:  * a"
    seeds = lines_of(*({"seed": seed, "epoch": epoch, "dev": {"f1": 0.5}} for seed in (0, 1)
                       for epoch in (1, 2)), {"model": "m", "test_f1": {"mean": 0.5}})
    [curves] = plots(seeds, "epoch", ("dev.f1",), PLAIN)
    assert curves.splitlines()[0] == "dev f1 over epoch:  * log seed 0  x log seed 1"
    [bar] = plots(seeds, None, (), PLAIN)
    assert bar.splitlines()[0] == "test f1"


def test_scores_are_bars_with_their_intervals() -> None:
    scores = lines_of({"model": "a", "mrr": 0.1234, "interval": [0.1, 0.2], "hits_at_1": 0.5,
                       "intervals": {"hits_at_1": [0.4, 0.6]}},
                      {"compared": ["a", "b"], "metric": "mrr", "difference": 0.1},
                      {"model": "b", "mrr": None, "test_f1": {"mean": 0.7, "interval": [0.6, 0.8]}})
    [mrr] = plots(scores, None, (), PLAIN)
    assert mrr.splitlines()[1].endswith("0.123 [0.100, 0.200]") and len(mrr.splitlines()) == 2
    hits, f1 = plots(scores, None, ("hits_at_1", "test_f1"), PLAIN)
    assert hits.endswith("50.0% [40.0%, 60.0%]") and f1.endswith("70.0% [60.0%, 80.0%]")
    for damaged in ([0.1], [None, 0.2], "0.1"):
        [mrr] = plots(lines_of({"model": "a", "mrr": 0.5, "interval": damaged}), None, (), PLAIN)
        assert mrr.endswith(" 0.500")


@pytest.mark.parametrize(("x", "keys", "fault"), [
    (None, ("pplp",), "no line has 'model' and 'pplp' and a number to plot; did you mean 'pppl'?"),
    ("steps", ("pppl",), "no line has 'steps' and 'steps' and a number"),
])
def test_keys_that_no_line_has(x: str | None, keys: tuple[str, ...], fault: str) -> None:
    with pytest.raises(DataError, match=re.escape(fault)):
        list(plots(lines_of({"model": "a", "pppl": 2.0}), x, keys, PLAIN))


def test_the_command(run: Callable[..., Any], process: Callable[..., Any],
                     tmp_path: Path) -> None:
    log = "".join(json.dumps({"step": step, "loss": 9.5 - step}) + "\n" for step in range(5))
    (tmp_path / "log.jsonl").write_text(log)
    named = run("plot", tmp_path / "log.jsonl", "--height", 8)
    assert (named.code, named.err) == (0, "")
    assert named.out.startswith("loss over step:  ▪ log\n") and "\x1b" not in named.out
    assert max(map(len, named.out.splitlines())) == 80
    piped = process("plot", "--height", 8, stdin=log)
    assert piped.out.replace("▪ -", "▪ log") == named.out
    assert run("plot", tmp_path / "log.jsonl", "--y", "los").err == (
        "bmtools: no line has 'step' and 'los' and a number to plot; did you mean 'loss'?\n")


def test_plotext_may_be_missing(run: Callable[..., Any], tmp_path: Path,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "plotext", None)
    (tmp_path / "log.jsonl").write_text("{}\n")
    done = run("plot", tmp_path / "log.jsonl")
    assert done.code == 1 and "[plot]'" in done.err


class LivePlot:
    """`bmtools plot -` on a pseudo-terminal, whose lines a test writes one by one."""

    def __init__(self, *arguments: str, rows: int = 40) -> None:
        self._terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 60, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1"}
        for name in ("COLUMNS", "LINES"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bmtools", "plot", "-", *arguments], stdin=subprocess.PIPE,
            stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.printed = ""

    def write(self, *lines: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())
        self.process.stdin.flush()

    def read_until(self, text: str) -> str:
        """Return what is printed from now on, until a text comes."""
        found = ""
        while text not in found:
            found += os.read(self._terminal, 65536).decode()
        self.printed += found
        return found

    def end(self) -> tuple[int, str]:
        """Return the exit code, and what was printed after the last time that a block was drawn."""
        assert self.process.stdin
        self.process.stdin.close()
        with suppress(OSError):  # the other end is closed
            while True:
                self.printed += os.read(self._terminal, 65536).decode()
        os.close(self._terminal)
        last = self.printed.rpartition("so far")[2]
        return self.process.wait(20), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", last).replace("\r", "")


def test_a_live_plot_is_drawn_anew_while_lines_come_in() -> None:
    plot = LivePlot("--y", "loss")
    plot.write({"step": 1})
    plot.read_until("1 line so far, nothing to draw yet")
    plot.write({"step": 1, "loss": 5.0}, {"step": 2, "loss": 4.0})
    assert "loss over step" in plot.read_until("3 lines so far")
    plot.write({"step": 3, "loss": 1.25})
    assert "1.25" in plot.read_until("4 lines so far")
    code, final = plot.end()
    assert code == 0
    assert final.count("loss over step") == 1
    assert "5.00" in final and "1.25" in final and "└" in final
    assert len(final.strip().splitlines()) == 17, "the whole height"


def test_a_live_plot_fits_and_stays_with_ctrl_c() -> None:
    plot = LivePlot(rows=24)
    plot.write(*({"step": step, "loss": 9.0 / step, "learning_rate": 1 / step}
                 for step in range(1, 9)))
    drawn = plot.read_until("8 lines so far")
    assert "loss over step" in drawn and "learning rate over step" in drawn
    assert drawn.count("\n") < 24
    plot.process.send_signal(signal.SIGINT)
    code, final = plot.end()
    assert code == 130
    assert final.count("loss over step") == final.count("learning rate over step") == 1
    assert final.rstrip().endswith("bmtools: interrupted")


def test_a_live_plot_ends_with_a_line_that_is_wrong() -> None:
    plot = LivePlot()
    plot.write({"step": 1, "loss": 5.0}, {"step": 2, "loss": 4.0})
    plot.read_until("2 lines so far")
    assert plot.process.stdin
    plot.process.stdin.write(b"step 3\n")
    code, final = plot.end()
    assert code == 1 and "<stdin>:3: found 'step 3'" in final.replace("\n", "")
