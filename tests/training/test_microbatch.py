"""Rows of a pass: those asked for, or those that memory holds."""

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

from bmtools.data.batches import Collator, SpecialTokens
from bmtools.data.sampler import Sampler
from bmtools.errors import BmtoolsError, refuse
from bmtools.masking.strategies import make_strategy
from bmtools.models.architectures import build_config
from bmtools.models.memory import memory_estimate
from bmtools.recipes.phases import Phase, RunConfig
from bmtools.recipes.schedule import Schedule
from bmtools.recipes.settings import (
    BatchConfig,
    OptimizationConfig,
    RegularizationConfig,
    ReportingConfig,
)
from bmtools.training import microbatch as fitting
from bmtools.training.datasets import DataConfig
from bmtools.training.loop import LoopPlan, Trainer
from bmtools.training.microbatch import PhaseBatches, check_memory, demand_of, fit_passes
from bmtools.training.objectives import MaskedObjective, PhasedObjective
from bmtools.training.plan import TrainingPlan
from bmtools.training.pretrain import ModelInit, pretrain

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


def test_what_is_asked_for_counts(plan: Callable[..., TrainingPlan], trainer: Trainer) -> None:
    for loop, rows in (({}, 0), ({"micro_batch_size": 3}, 3),
                       ({"micro_batch_size": 3, "memory_gib": 9}, 3)):
        assert fit_passes(plan(**loop), trainer, False, 1) == {"short": rows, "long": rows}


@pytest.mark.parametrize("processes", [1, 16])
def test_a_bound_that_holds_the_batch_gives_all_at_once(
        plan: Callable[..., TrainingPlan], trainer: Trainer, processes: int) -> None:
    found = fit_passes(plan(memory_gib=ENOUGH), trainer, False, processes)
    assert found == {"short": 0, "long": 0}


def test_each_phase_gets_the_rows_that_fit(plan: Callable[..., TrainingPlan],
                                           trainer: Trainer) -> None:
    """What this process holds moves a little from one look to the next."""
    bound = plan(memory_gib=ENOUGH)
    long = demand_of(bound, trainer, bound.config.phases[1], False, 1)
    found = fit_passes(plan(memory_gib=long.bytes_of(100) / GIB), trainer, False, 1)
    assert found["short"] == 0, "a whole batch fits"
    assert found["long"] == pytest.approx(100, rel=0.2)


def test_others_in_memory_leave_less(plan: Callable[..., TrainingPlan], trainer: Trainer,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients between processes, and weights of the start."""
    given: list[int] = []

    class Nothing:
        def __init__(self, *arguments: Any) -> None:
            given.append(arguments[3])

    monkeypatch.setattr(fitting, "StepMemory", Nothing)
    bound = plan(memory_gib=1)
    held = replace(bound, regularization=RegularizationConfig(mixout=0.5))
    for one, processes in ((bound, 1), (bound, 2), (held, 1), (held, 2)):
        demand_of(one, trainer, one.config.phases[0], False, processes)
    assert given == [0, 1, 1, 2]


def test_a_gpu_that_runs_out_of_memory_halves_the_rows(
        plan: Callable[..., TrainingPlan], trainer: Trainer,
        monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(_trainer: Any, phase: Phase, _packed: bool, rows: int) -> bool:
        return rows * phase.batch.max_length <= 32 * 70

    monkeypatch.setattr(fitting, "_all_go_through", narrow)
    assert fit_passes(plan(memory_gib=ENOUGH), trainer, False, 1) == {"short": 64, "long": 16}
    monkeypatch.setattr(fitting, "_all_go_through", lambda *_: False)
    with pytest.raises(BmtoolsError, match="but a single row of 32 tokens takes"):
        fit_passes(plan(memory_gib=ENOUGH), trainer, False, 1)


def test_too_little_for_a_row_is_one_clear_line(plan: Callable[..., TrainingPlan], tokenizer: Any,
                                                trainer: Trainer) -> None:
    with pytest.raises(BmtoolsError, match=r"--memory-gib: found 0.05, but a single row of 32 "
                                           r"tokens takes [\d.]+; give more"):
        fit_passes(plan(memory_gib=0.05), trainer, False, 1)
    config = build_config("bert-2x64", tokenizer)
    check_memory(plan(memory_gib=0.05), config, 1, False)
    check_memory(plan(memory_gib=0.0001, micro_batch_size=1), config, 1, False)
    with pytest.raises(BmtoolsError, match=r"found 0.0001, but a single row of 32 tokens takes"):
        check_memory(plan(memory_gib=0.0001), config, 1, False)


def test_passes_follow_the_phase_and_hold_the_same_rows(
        toy: Any, toy_phase: Callable[..., Phase]) -> None:
    phases = [toy_phase(steps=2, name="a", batch=BatchConfig(32, 6)),
              toy_phase(steps=2, name="b", batch=BatchConfig(32, 6))]
    corpora = {"text": toy.corpus([f"Il cuore pompa {'il sangue ' * n}." for n in range(20)])}
    timeline = Schedule(phases, [2, 2])
    maker = Collator(list(corpora.values()), SpecialTokens.of(toy.tokenizer), False, 0,
                     {"words": make_strategy("words")})

    def batches(**passes: int) -> PhaseBatches:
        return PhaseBatches(Sampler(corpora, timeline, False, 0), timeline, maker, passes)

    parted, whole = batches(a=4, b=2), batches(a=0, b=0)
    for number, rows in enumerate(([4, 2], [4, 2], [2, 2, 2], [2, 2, 2])):
        pieces = parted.batch(number).pieces
        assert [len(piece["input_ids"]) for piece in pieces] == rows
        [expected] = whole.batch(number).pieces
        found = np.concatenate([piece["input_ids"][piece["attention_mask"]].numpy()
                                for piece in pieces])
        mask = expected["attention_mask"]
        assert torch.equal(torch.from_numpy(found), expected["input_ids"][mask])


def test_a_rehearsal_does_not_change_what_is_learnt(corpus: Path, vocabulary: Path, tmp_path: Path,
                                                    toy_phase: Callable[..., Phase]) -> None:
    def learnt(name: str, memory_gib: float, layout: str) -> list[dict[str, Any]]:
        rows = BatchConfig(32, 8, layout=layout)
        config = RunConfig((toy_phase(3, rows, "a"), toy_phase(3, rows, "b", objective="causal")))
        plan = TrainingPlan("pretrain", tmp_path / name, config,
                            OptimizationConfig(memory_gib=memory_gib, dropout=0.1),
                            ReportingConfig(logging_steps=1))
        lines = pretrain(plan, ModelInit(None, "bert-1x64", vocabulary),
                         DataConfig({"text": (str(corpus),)}), refuse)
        clocks = ("tokens_per_second", "seconds_left")
        return [{key: value for key, value in line.items() if key not in clocks}
                for line in lines if "loss" in line]

    for layout in ("padded", "packed"):
        plain, bound = (learnt(f"{layout}-{gib}", gib, layout) for gib in (0.0, ENOUGH))
        assert len(plain) == 6
        assert plain == bound


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
    config = build_config("bert-2x128", tokenizer)
    assert memory_estimate(config, 320, 128).total > bound * GIB
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


def test_a_process_that_is_too_large_already_is_one_clear_line(
        run: Callable[..., Any], corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    outcome = run("pretrain", corpus, "--tokenizer", vocabulary, "--architecture", "bert-1x64",
                  "--max-length", 32, "-o", tmp_path / "out", "--memory-gib", 0.1)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("bmtools: --memory-gib: found 0.1, but a single row of 32 tokens")
    assert len(outcome.err.splitlines()) == 1
    assert not list(tmp_path.glob("out*"))
