"""Progress on stderr: lines, and a bar on a terminal."""

from __future__ import annotations

from functools import partial

import pytest

from bmtools.cli import progress

LINES = [{"retain": "before", "loss": 5.0, "step": 0},
         {"step": 1200, "of": 2400, "loss": 4.25, "seconds_left": 90.0},
         {"step": 2400, "of": 2400, "loss": 4.0, "seconds_left": 0.0},
         {"checkpoint": "out", "steps": 2400}]
tracked_metrics = partial(progress.tracked, read_progress=progress.read_metrics)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)


def test_training_shows_its_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(tracked_metrics(LINES, "pretraining")) == LINES
    assert capsys.readouterr().err.splitlines() == [
        "pretraining: step 1,200 of 2,400, loss 4.250, 2 min left",
        "pretraining: step 2,400 of 2,400, loss 4.000, 0 s left"]


def test_training_by_epochs_shows_its_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{"seed": 1, "epoch": 2, "of": 3}]
    assert list(tracked_metrics(lines, "fine-tuning")) == lines
    assert capsys.readouterr().err == "fine-tuning: epoch 2 of 3\n"


def test_items_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress.tracked("ab", "reading", 2)) == ["a", "b"]
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == [
        "reading: 1 of 2", "reading: 2 of 2"]


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch,
                               capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_BAR_SECONDS", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert list(tracked_metrics(LINES, "pretraining")) == LINES
    shown = capsys.readouterr().err
    assert "pretraining, loss 4.000" in shown and "100%" in shown
    assert list(progress.tracked("ab", "reading", 4)) == ["a", "b"]
    shown = capsys.readouterr().err
    assert "reading" in shown and "50%" in shown
