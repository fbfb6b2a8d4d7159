"""Micro-batch sizes: as set, or as memory allows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from bmtools.data.batches import Collator, ScheduledBatches, SpecialTokens
from bmtools.data.sampler import Sampler
from bmtools.errors import BmtoolsError, refuse
from bmtools.masking.strategies import make_strategy
from bmtools.models.architectures import build_config, build_model
from bmtools.recipes.phases import Phase, RunConfig
from bmtools.recipes.schedule import Schedule
from bmtools.recipes.settings import (
    BatchConfig,
    OptimizationConfig,
    PhaseLengthConfig,
    RegularizationConfig,
    ReportingConfig,
)
from bmtools.training import microbatch
from bmtools.training.loop import LoopPlan, Trainer
from bmtools.training.microbatch import check_memory, fit_micro_batches, measure_memory
from bmtools.training.objectives import MaskedObjective, PhasedObjective
from bmtools.training.plan import DataConfig, ModelInit, TrainingPlan
from bmtools.training.pretrain import pretrain_lines
from bmtools.training.step_memory import StepMemory

pytestmark = pytest.mark.usefixtures("one_thread")
GIB = 2**30
ENOUGH = 1000.0


@pytest.fixture
def plan(toy_phase: Callable[..., Phase]) -> Callable[..., TrainingPlan]:
    """Make a plan of a short and a long phase: `plan(memory_gib=1)`."""

    def make(**loop: Any) -> TrainingPlan:
        phases = (toy_phase(name="short", batch=BatchConfig(32, 256)),
                  toy_phase(name="long", batch=BatchConfig(128, 4096), mask_rate=0.3))
        return TrainingPlan("test", Path("out"), RunConfig(phases), OptimizationConfig(**loop),
                            ReportingConfig())

    return make


@pytest.fixture
def trainer(model: Any) -> Trainer:
    """About to restore words with two layers of 64."""
    objective = PhasedObjective(model, {"masked": MaskedObjective(model)})
    return Trainer(objective, LoopPlan(4, lambda _number: 1e-3), OptimizationConfig(),
                   Accelerator(cpu=True))


def test_a_size_that_is_set_counts(plan: Callable[..., TrainingPlan], trainer: Trainer) -> None:
    for loop, rows in (({}, 0), ({"micro_batch_size": 3}, 3),
                       ({"micro_batch_size": 3, "memory_gib": 9}, 3)):
        assert fit_micro_batches(plan(**loop), trainer, False, 1) == {"short": rows, "long": rows}


@pytest.mark.parametrize("processes", [1, 16])
def test_a_bound_that_holds_the_batch_leaves_it_whole(
        plan: Callable[..., TrainingPlan], trainer: Trainer, processes: int) -> None:
    found = fit_micro_batches(plan(memory_gib=ENOUGH), trainer, False, processes)
    assert found == {"short": 0, "long": 0}


def test_each_phase_gets_the_sequences_that_fit(plan: Callable[..., TrainingPlan],
                                                trainer: Trainer) -> None:
    """What this process holds moves a little from one look to the next."""
    bound = plan(memory_gib=ENOUGH)
    long = measure_memory(bound, trainer, bound.config.phases[1], False, 1, ENOUGH * GIB)
    found = fit_micro_batches(plan(memory_gib=long.total_bytes(100) / GIB), trainer, False, 1)
    assert found["short"] == 0, "a whole batch fits"
    assert found["long"] == pytest.approx(100, rel=0.2)


def test_other_copies_of_weights_leave_less_memory(plan: Callable[..., TrainingPlan],
                                                   trainer: Trainer,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients between processes, and weights of the start."""
    given: list[int] = []

    class Nothing:
        def __init__(self, *arguments: Any) -> None:
            given.append(arguments[3])

    monkeypatch.setattr(microbatch, "StepMemory", Nothing)
    bound = plan(memory_gib=1)
    regularized = replace(bound, regularization=RegularizationConfig(mixout=0.5))
    for one, processes in ((bound, 1), (bound, 2), (regularized, 1), (regularized, 2)):
        measure_memory(one, trainer, one.config.phases[0], False, processes, GIB)
    assert given == [0, 1, 1, 2]


def test_too_little_for_a_sequence_is_one_clear_line(
        plan: Callable[..., TrainingPlan], tokenizer: Any, trainer: Trainer) -> None:
    with pytest.raises(BmtoolsError, match=r"memory_gib: found 0.05, but a single sequence of 32 "
                                           r"tokens takes [\d.]+; give more"):
        fit_micro_batches(plan(memory_gib=0.05), trainer, False, 1)
    config = build_config("bert-2x64", tokenizer)
    check_memory(plan(memory_gib=0.05), config, 1, False)
    check_memory(plan(memory_gib=0.0001, micro_batch_size=1), config, 1, False)
    with pytest.raises(BmtoolsError, match=r"memory_gib: found 0.0001, but weights, gradients and "
                                           r"optimizer states alone take [\d.]+; give more"):
        check_memory(plan(memory_gib=0.0001), config, 1, False)


def test_micro_batches_follow_the_phase_and_hold_the_same_sequences(
        toy: Any, toy_phase: Callable[..., Phase]) -> None:
    phases = [toy_phase(steps=2, name="a", batch=BatchConfig(32, 6)),
              toy_phase(steps=2, name="b", batch=BatchConfig(32, 6))]
    corpora = {"text": toy.corpus([f"Il cuore pompa {'il sangue ' * n}." for n in range(20)])}
    timeline = Schedule(phases, [2, 2])
    collator = Collator(list(corpora.values()), SpecialTokens.of(toy.tokenizer), False, 0,
                        {"words": make_strategy("words")})

    def batches(**sizes: int) -> ScheduledBatches:
        return ScheduledBatches(Sampler(corpora, timeline, False, 0), collator, sizes)

    parted, whole = batches(a=4, b=2), batches(a=0, b=0)
    for number, rows in enumerate(([4, 2], [4, 2], [2, 2, 2], [2, 2, 2])):
        pieces = parted.batch(number).micro_batches
        assert [len(piece["input_ids"]) for piece in pieces] == rows
        [expected] = whole.batch(number).micro_batches
        found = np.concatenate([piece["input_ids"][piece["attention_mask"]].numpy()
                                for piece in pieces])
        mask = expected["attention_mask"]
        assert torch.equal(torch.from_numpy(found), expected["input_ids"][mask])


def test_measuring_does_not_change_what_is_learnt(corpus: Path, vocabulary: Path, tmp_path: Path,
                                                  toy_phase: Callable[..., Phase]) -> None:
    def learnt(name: str, memory_gib: float, layout: str) -> list[dict[str, Any]]:
        rows = BatchConfig(32, 8, layout=layout)
        config = RunConfig((toy_phase(3, rows, "a"), toy_phase(3, rows, "b", objective="causal")))
        plan = TrainingPlan("pretrain", tmp_path / name, config,
                            OptimizationConfig(memory_gib=memory_gib, dropout=0.1),
                            ReportingConfig(logging_steps=1))
        lines = pretrain_lines(plan, ModelInit(None, "bert-1x64", vocabulary),
                               DataConfig({"text": (str(corpus),)}), refuse)
        clocks = ("tokens_per_second", "seconds_left")
        return [{key: value for key, value in line.items() if key not in clocks}
                for line in lines if "loss" in line]

    for layout in ("padded", "packed"):
        plain, bound = (learnt(f"{layout}-{gib}", gib, layout) for gib in (0.0, ENOUGH))
        assert len(plain) == 6
        assert plain == bound


def activations_of(architecture: str, tokenizer: Any, batch: BatchConfig) -> float:
    """Bytes that a whole batch takes beside weights, gradients and optimizer states."""
    model = build_model(build_config(architecture, tokenizer))
    objective = PhasedObjective(model, {"masked": MaskedObjective(model)})
    trainer = Trainer(objective, LoopPlan(1, lambda _number: 1e-3), OptimizationConfig(),
                      Accelerator(cpu=True))
    return StepMemory(trainer, Phase("main", PhaseLengthConfig(1), batch), False).activation_bytes(
        batch.batch_size)


PEAK = """
import sys
from bmtools.cli.main import main
try:
    main(sys.argv[1:])
finally:
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    print("peak", line.split()[1], file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_process_stays_below_its_bound(corpus: Path, vocabulary: Path, tokenizer: Any,
                                         tmp_path: Path) -> None:
    """A batch that alone takes more; records are long, or rows would be short."""
    bound = 0.75
    assert activations_of("bert-2x128", tokenizer, BatchConfig(128, 320)) > bound * GIB
    text = " ".join(json.loads(line)["text"] for line in corpus.read_text().splitlines())
    corpus.write_text("".join(f'{{"id": "{n}", "text": "{text}"}}\n' for n in range(40)))
    done = subprocess.run(
        [sys.executable, "-c", PEAK, "pretrain", str(corpus), "--tokenizer", str(vocabulary),
         "--architecture", "bert-2x128", "--max-length", "128", "--batch-size", "320",
         "--steps", "2", "--save-steps", "1", "--evaluate", str(corpus),
         "-o", str(tmp_path / "out"), "--memory-gib", str(bound)],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    peak = int(done.stderr.splitlines()[-1].split()[1]) * 1024
    assert 0.4 * GIB < peak < bound * GIB


def test_a_bound_below_the_process_itself_is_one_clear_line(
        run: Callable[..., Any], corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    outcome = run("pretrain", corpus, "--tokenizer", vocabulary, "--architecture", "bert-1x64",
                  "--max-length", 32, "-o", tmp_path / "out", "--memory-gib", 0.1)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(
        "bmtools: --memory-gib: found 0.1, but a single sequence of 32 tokens")
    assert len(outcome.err.splitlines()) == 1
    assert not list(tmp_path.glob("out*"))
