"""Figures of a status over time, and its small curve."""

from __future__ import annotations

import io
from itertools import pairwise
from statistics import fmean

import pytest
from rich.console import Console

from bmtools.cli.status_view import Snapshot, StatusView, sparkline
from bmtools.status import Status


def drawn(snapshot: Snapshot, encoding: str = "utf-8", width: int = 80) -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding, "backslashreplace")
    Console(file=stream, width=width, color_system=None).print(snapshot.block())
    stream.seek(0)
    return [line.rstrip() for line in stream.read().splitlines()]


@pytest.mark.parametrize("steps", [7, 48, 1000, 4096])
def test_losses_are_means_of_equal_parts(steps: int) -> None:
    view = StatusView("pretrain")
    losses = [10 - step ** 0.3 for step in range(steps)]
    for step, loss in enumerate(losses):
        view.update(Status("training", step, steps, "steps", {"loss": loss}))
    points = view.snapshot().losses
    size = next(2 ** power for power in range(20) if steps // 2 ** power < 48)
    expected = [fmean(losses[at:at + size]) for at in range(0, steps - size + 1, size)]
    assert points == pytest.approx(expected, abs=1e-3)


def test_losses_that_are_none_are_left_out() -> None:
    view = StatusView("pretrain")
    for loss in (1.0, float("nan"), None, float("inf"), 3.0):
        view.update(Status("training", 1, 2, "steps", {"loss": loss}))
    assert view.snapshot().losses == [1.0, 3.0]


def test_a_sparkline_rises_and_falls_as_its_numbers() -> None:
    heights = [ord(bar) for bar in sparkline([9, 7.5, 3, 3, 1, 4])]
    assert [(a > b) - (a < b) for a, b in pairwise(heights)] == [1, 1, 0, 1, -1]
    assert sparkline([1, 8]) == "▁█"
    assert sparkline([2, 2]) == "▁▁"


def test_a_long_curve_is_thinned_to_fit() -> None:
    losses = [8.0 - number / 10 for number in range(48)]
    snapshot = Snapshot("pretrain", 61.0, "training", 30, 120, "steps", losses=losses)
    *_, line = drawn(snapshot, width=42)
    assert line.startswith("  loss 8.00 ") and line.endswith("▁ 3.30") and 30 < len(line) <= 42


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_curve_stands_below_the_figures(width: int) -> None:
    snapshot = Snapshot("pretrain", 61.0, "training", 30, 120, "steps", 0.5, 180.0,
                        {"loss": 2.5, "tokens": 9}, {"tokens": 5.25}, "0.5 GiB of memory",
                        [8.0, 7, 6, 5, 4, 3, 2.75, 2.5])
    lines = drawn(snapshot, width=width)
    assert lines[3] == "  loss 8.00 █▇▅▄▃▂▁▁ 2.50"
    assert "25%   30 of 120 steps  0:03:00 left" in lines[1]
    assert lines[2].startswith("  loss 2.50 · 5.2 tokens/s")
    assert max(map(len, lines)) <= width
    assert len(drawn(snapshot, "ascii", width)) == 3  # the bars of the curve are not there
