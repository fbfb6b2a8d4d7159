"""Planning of batches on one core, and resuming a run: `pytest --benchmark-enable -s`.

Only lengths, words and sentences of documents matter, so they are made up: as long as abstracts,
with sentences of 24 tokens. The time of the planning thread is measured. Without that option each
case runs once, on few documents.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from timing import note

from bmtools.data.sampler import Sampler, StreamPosition
from bmtools.data.shards import Corpus, Shard
from bmtools.recipes.phases import Phase, Schedule
from bmtools.recipes.settings import BatchConfig, ObjectiveConfig, PhaseLengthConfig

_CASES = [("masked", 512), ("masked", 128), ("masked+nsp", 512), ("masked+nsp", 128),
          ("masked+sop", 512)]
_BATCH_TOKENS = 1 << 17
_SHARD_DOCUMENTS = 250_000
_ROUND_SECONDS = 1.0


def made_up_shard(documents: int) -> Shard:
    """Documents of 268 tokens on average; their ids take no memory."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(268) - 0.125, 0.5, documents), 5, 20_000).astype(int)
    borders = np.concatenate([[0], np.cumsum(lengths)])
    words = rng.random(borders[-1]) < 0.7
    words[borders[:-1]] = True
    sentences = words & (rng.random(len(words)) < 1 / (24 * 0.7))
    sentences[borders[:-1]] = True
    return Shard(np.broadcast_to(np.uint16(7), len(words)), np.packbits(words, bitorder="little"),
                 borders.astype(np.uint32), np.flatnonzero(sentences).astype(np.uint32), "")


def schedule(objective: str, max_length: int) -> Schedule:
    """Return the schedule of an endless run."""
    return Schedule([Phase("main", PhaseLengthConfig(steps=1 << 40), BatchConfig(
        max_length, _BATCH_TOKENS // max_length), ObjectiveConfig(objective))], [1 << 40])



@pytest.fixture(scope="module")
def shard(request: pytest.FixtureRequest) -> Shard:
    enabled = request.config.getoption("benchmark_enable")
    return made_up_shard(_SHARD_DOCUMENTS if enabled else 3_000)


@pytest.mark.parametrize(("objective", "max_length"), _CASES)
def test_planning(benchmark: Any, shard: Shard, objective: str, max_length: int) -> None:
    sampler = Sampler({"text": Corpus((shard,), "")}, schedule(objective, max_length), True, 0)
    counted: list[int] = []

    def plan() -> None:
        samples = sampler.batch(len(counted)).sequences.samples
        special = np.where(samples["nsp_label"] < 0, 2, 3)
        counted.append(int((samples["length"] + samples["second_length"] + special).sum()))

    plan()
    assert 0.85 * _BATCH_TOKENS < counted[0] <= _BATCH_TOKENS
    if benchmark.disabled:
        benchmark(plan)
        return
    speeds = []
    for _ in range(3):
        before, started = len(counted), time.thread_time()
        while time.thread_time() - started < _ROUND_SECONDS:
            plan()
        speeds.append(sum(counted[before:]) / (time.thread_time() - started))
    note(benchmark, million_tokens_per_second=round(max(speeds) / 1e6))


@pytest.mark.parametrize(("objective", "max_length"), _CASES)
def test_resuming_is_flat(benchmark: Any, shard: Shard, objective: str, max_length: int) -> None:
    """Resume at step 100, and after 100 million documents of a corpus of this size."""
    shards = 4 if benchmark.disabled else 400
    corpora = {"text": Corpus((shard,) * shards, "")}
    run = schedule(objective, max_length)
    documents = len(corpora["text"])
    step = 3 if benchmark.disabled else 100
    near = Sampler(corpora, run, True, 0).batch(step - 1).following
    # A late position at which a window begins, with the remainder that precedes the early one.
    far_step = round(step * documents / sum(near.window.draws.values() or [documents // 9]))
    drawn = {"text": documents - 5}
    far = StreamPosition(far_step, replace(
        near.window, batch=far_step, windows=10**6, draws=drawn), 0)
    assert far_step > step
    seconds = {}
    for name, position in (("near", near), ("far", far)):
        content = position.to_json()
        started = time.thread_time()
        resumed = Sampler(corpora, run, True, 0, StreamPosition.from_json(content))
        plan = resumed.batch(position.batch)
        seconds[name] = time.thread_time() - started
        assert plan.following.batch == position.batch + 1
        assert len(plan.sequences) == _BATCH_TOKENS // max_length
    note(benchmark, documents=documents, resume_seconds=seconds, steps=[step, far_step])
