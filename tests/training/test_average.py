"""Averages of weights: those of a plain loop, scored, written, and kept with the optimizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bmtools.io.json_files import read_manifest
from bmtools.training.average import averaged_weights, update_averages
from bmtools.training.optimizers import make_optimizer
from bmtools.training.pretrain import pretrain

pytestmark = pytest.mark.usefixtures("one_thread")

SETTINGS: dict[str, Any] = {"max_length": 24, "batch_size": 8, "learning_rate": 3e-3, "steps": 6,
                            "warmup_ratio": 0.0, "mixed_precision": "no"}


def average(weights: list[torch.Tensor], decay: float) -> torch.Tensor:
    """Average the weights after each step one after the other, in float64."""
    found = weights[0].double()
    for step, weight in enumerate(weights):
        kept = min(decay, (1 + step) / (10 + step))
        found = kept * found + (1 - kept) * weight.double()
    return found


@pytest.mark.parametrize("optimizer", ["adamw", "stable-adamw"])
def test_averages_are_those_of_a_loop(optimizer: str) -> None:
    torch.manual_seed(0)
    trained, late = (torch.nn.Parameter(torch.randn(3, 2)) for _ in range(2))
    made = make_optimizer(optimizer, [{"params": [trained, late], "weight_decay": 0.1,
                                       "lr_scale": 1.0, "use_muon": False}], 0.1)
    seen: list[torch.Tensor] = []
    for step in range(30):
        trained.grad = torch.randn(3, 2)
        late.grad = torch.randn(3, 2) if step > 20 else None  # frozen before
        made.step()
        update_averages(made, 0.6, step)
        seen.append(trained.detach().clone())
    assert set(made.state) == {trained, late}
    with averaged_weights(made):
        torch.testing.assert_close(trained.detach().double(), average(seen, 0.6), atol=1e-6,
                                   rtol=0)
    assert torch.equal(trained.detach(), seen[-1]), "weights come back to the bit"


def test_a_first_update_that_was_skipped_has_no_average() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight])
    update_averages(optimizer, 0.6, 0)
    assert not optimizer.state


def test_a_run_writes_and_scores_its_average(corpus: Path, vocabulary: Path,
                                             tmp_path: Path) -> None:
    start = {"architecture": "bert-1x64", "tokenizer": vocabulary}
    pretrain(corpus, tmp_path / "plain", **start, **SETTINGS, keep_steps=1)
    done = pretrain(corpus, tmp_path / "averaged", **start, **SETTINGS, evaluate=corpus, ema=0.3,
                    keep_steps=4)
    steps = [load_file(path / "model.safetensors")
             for path in sorted((tmp_path / "plain.kept").iterdir())]
    for directory, count in (("averaged", 6), ("averaged.kept/step-00000004", 4)):
        found = load_file(tmp_path / directory / "model.safetensors")
        assert not torch.equal(found["cls.predictions.transform.dense.weight"],
                               steps[count - 1]["cls.predictions.transform.dense.weight"])
        for name, weight in found.items():
            expected = average([step[name] for step in steps[:count]], 0.3)
            torch.testing.assert_close(weight.double(), expected, atol=1e-6, rtol=0)
    assert read_manifest(tmp_path / "averaged")["settings"]["ema"] == 0.3
    again = pretrain(corpus, tmp_path / "again", model=tmp_path / "averaged", retain=corpus,
                     **{**SETTINGS, "steps": 1})
    assert done["evaluate"]["evaluate"]["loss"] == again["retained"]["before"]["loss"]
