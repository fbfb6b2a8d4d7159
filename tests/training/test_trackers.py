"""Services that get the metrics too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import BmtoolsError
from bmtools.training import metrics
from bmtools.training.metrics import named_trackers, track


def test_names_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "get_available_trackers", lambda: ["tensorboard", "wandb"])
    assert named_trackers("") == []
    assert named_trackers(" tensorboard, wandb,") == ["tensorboard", "wandb"]


@pytest.mark.parametrize(("text", "message"), [
    ("tensorbord", "trackers: found 'tensorbord', expected some of aim, "),
    ("comet_ml", "trackers: comet_ml is not installed; pip install comet-ml"),
])
def test_what_is_not_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, text: str,
                                             message: str) -> None:
    monkeypatch.setattr(metrics, "get_available_trackers", lambda: ["tensorboard"])
    with pytest.raises(BmtoolsError, match=message):
        named_trackers(text)


def test_numbers_are_sent_with_their_step() -> None:
    class Heard:
        def log(self, numbers: dict[str, Any], step: int) -> None:
            self.numbers, self.step = numbers, step

    heard: Any = Heard()
    track(heard, {"step": 4, "of": 9, "phase": "a", "loss": 1.5, "evaluate": {"loss": 2.0}})
    assert (heard.numbers, heard.step) == ({"loss": 1.5}, 4)


def test_tensorboard_gets_every_report(run: Any, corpus: Path, vocabulary: Path,
                                       tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert run("pretrain", corpus, "--architecture", "bert-1x64", "--tokenizer", vocabulary,
               "-o", tmp_path / "out", "--max-length", 16, "--steps", 4, "--logging-steps", 2,
               "--trackers", "tensorboard", "--evaluate", corpus).code == 0
    [events] = (tmp_path / "out.logs" / "bmtools-pretrain").glob("events*")
    found = EventAccumulator(str(events))
    found.Reload()
    assert [event.step for event in found.Scalars("loss")] == [2, 4]
    assert [event.step for event in found.Scalars("evaluate_loss")] == [4]
