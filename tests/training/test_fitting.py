"""Rows of a pass: those asked for, or those that memory holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bmtools.errors import BmtoolsError
from bmtools.masking.strategies import make_pick
from bmtools.models.architectures import build_config
from bmtools.models.memory import memory_estimate
from bmtools.training import fitting
from bmtools.training.batches import Maker, Words
from bmtools.training.fitting import PhaseBatches, fit_passes
from bmtools.training.phases import Phase, Script
from bmtools.training.plan import Plan
from bmtools.training.regularisation import ForgettingSettings
from bmtools.training.settings import LoopSettings, RowSettings, RunSettings
from bmtools.training.stream import Stream
from bmtools.training.timeline import Timeline

GIB = 2**30


@pytest.fixture
def plan(toy_phase: Callable[..., Phase]) -> Callable[..., Plan]:
    """Make a plan of a short and a long phase: `plan(memory_gib=1)`."""

    def make(**loop: Any) -> Plan:
        phases = (toy_phase(name="short", rows=RowSettings(32, 256)),
                  toy_phase(name="long", rows=RowSettings(512, 256), mask_rate=0.3))
        return Plan("test", Path("out"), Script(phases), LoopSettings(**loop), RunSettings())

    return make


@pytest.fixture(scope="module")
def config(tokenizer: Any) -> Any:
    """Of a model with two layers of 64."""
    return build_config("bert-2x64", tokenizer)


def test_what_is_asked_for_counts(plan: Callable[..., Plan], config: Any) -> None:
    assert fit_passes(plan(), config, 1) == {"short": 0, "long": 0}
    assert fit_passes(plan(micro_batch=3), config, 1) == {"short": 3, "long": 3}
    assert fit_passes(plan(micro_batch=3, memory_gib=9), config, 1) == {"short": 3, "long": 3}


def test_each_phase_gets_the_rows_that_fit(plan: Callable[..., Plan], config: Any) -> None:
    found = fit_passes(plan(memory_gib=0.25), config, 1)
    assert found["short"] == 0, "a whole batch fits"
    assert 4 < found["long"] < 256
    for rows, fits in ((found["long"], True), (found["long"] + 2, False)):
        estimate = memory_estimate(config, rows, 512, mask_rate=0.3)
        assert (estimate.total <= 0.25 * GIB) == fits


def test_others_in_memory_leave_less(plan: Callable[..., Plan], config: Any,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients between processes, weights of the start, a teacher."""
    given: list[int] = []

    def fit(config: Any, memory_bytes: int, *_: Any, **__: Any) -> int:
        given.append(memory_bytes)
        return 16

    monkeypatch.setattr(fitting, "rows_that_fit", fit)
    held = replace(plan(memory_gib=1), forgetting=ForgettingSettings(mixout=0.5))
    assert fit_passes(held, config, 2, 1000) == {"short": 16, "long": 16}
    weights = memory_estimate(config, 1, 32).weights
    assert given == [GIB - 1000 - 2 * weights] * 2
    assert fit_passes(plan(memory_gib=1), config, 16) == {"short": 0, "long": 0}, "a whole share"


def test_too_little_for_a_row_is_one_clear_line(plan: Callable[..., Plan], config: Any) -> None:
    with pytest.raises(BmtoolsError, match=r"--memory-gib: found 0.001, but a single row of 32 "
                                           r"tokens takes 0.00\d+; give more"):
        fit_passes(plan(memory_gib=0.001), config, 1)


def test_passes_follow_the_phase_and_hold_the_same_rows(
        toy: Any, toy_phase: Callable[..., Phase]) -> None:
    phases = [toy_phase(steps=2, name="a", rows=RowSettings(32, 6)),
              toy_phase(steps=2, name="b", rows=RowSettings(32, 6))]
    corpora = {"text": toy.corpus([f"Il cuore pompa {'il sangue ' * n}." for n in range(20)])}
    timeline = Timeline(phases, [2, 2])
    maker = Maker(list(corpora.values()), Words.of(toy.tokenizer), False, 0,
                  {"words": make_pick("words")})

    def batches(**passes: int) -> PhaseBatches:
        return PhaseBatches(Stream(corpora, timeline, False, 0), timeline, maker, passes)

    parted, whole = batches(a=4, b=2), batches(a=0, b=0)
    for number, rows in enumerate(([4, 2], [4, 2], [2, 2, 2], [2, 2, 2])):
        pieces = parted.batch(number).pieces
        assert [len(piece["ids"]) for piece in pieces] == rows
        [expected] = whole.batch(number).pieces
        found = np.concatenate([piece["ids"][piece["attended"]].numpy() for piece in pieces])
        assert torch.equal(torch.from_numpy(found), expected["ids"][expected["attended"]])
