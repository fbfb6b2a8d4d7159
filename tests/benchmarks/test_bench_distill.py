"""Distillation against a plain loop: `pytest --benchmark-enable -s tests/benchmarks`.

Both sides use the same models, the same batches of the same abstracts and the same losses: MLM,
KL and cosine. The loop computes all logits of both models, as transformers returns them. As in
pretraining, each side is a process with one thread per core, the sides take turns, and peak memory
is measured for the process.

Without that option no time is measured, and only the losses of both sides are compared.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import distill_peer
import pytest
import side
import torch
from race import Race, Side, note
from texts import encode_abstracts

from bmtools.io.system import usable_cores

_THREADS = int(os.environ.get("OMP_NUM_THREADS") or usable_cores())
_ROUNDS = 3
_TURN_SECONDS = 3.0


@pytest.mark.data
@pytest.mark.parametrize(("student", "teacher", "batch_tokens", "positions"), [
    ("bert-3x384", "bert-6x384", 2_000, "masked"), ("bert-3x384", "bert-6x384", 2_000, "all"),
    ("bert-6x768", "bert-12x768", 1_000, "masked")])
def test_distill_against_a_plain_loop(
        benchmark: Any, request: pytest.FixtureRequest, data: Any, tmp_path: Any, student: str,
        teacher: str, batch_tokens: int, positions: str) -> None:
    if not request.config.getoption("benchmark_enable"):
        pytest.skip("timed by --benchmark-enable")
    ours = Side("bmtools", student, 128, batch_tokens, "padded", 0.0, "no", False, "cpu",
                *encode_abstracts(data, tmp_path), teacher, positions)
    sides = {"float32": ours, "default": replace(ours, precision="auto"),
             "loop": replace(ours, program="loop")}
    with Race(sides, _TURN_SECONDS, _THREADS) as running:
        benchmark.pedantic(running.turn, ("float32",), rounds=_ROUNDS,
                           setup=lambda: running.turn("default", "loop"))
        note(benchmark, ours, running.summary("loop"), threads=_THREADS, positions=positions)


@pytest.mark.parametrize("positions", ["masked", "all"])
@pytest.mark.usefixtures("one_thread")
def test_both_sides_have_the_same_losses(positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = side.made_up_corpus(side.stand_in_tokenizer(), 40)
    monkeypatch.setattr(side, "made_up_corpus", lambda _: corpus)
    ours = Side("bmtools", "bert-1x64", 128, 300, "padded", teacher="bert-1x128",
                positions=positions)
    trainer, batches = side.set_up(ours)
    steps = zip(range(3), trainer.run(batches), strict=False)
    inputs = (batches.batch(number).micro_batches[0] for number in range(3))
    peer = distill_peer.train(side.load(ours)[2], side.load_teacher(ours), inputs, positions,
                              side.LEARNING_RATE)
    for (_, step), expected in zip(steps, peer, strict=False):
        found = {name: step.losses[name] for name in expected}
        assert found == pytest.approx(expected, rel=1e-4)
    assert torch.isfinite(torch.tensor(list(expected.values()))).all()
