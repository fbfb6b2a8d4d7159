"""Samples of a run by batch number: each one is used, and only once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from toy_corpora import EncodedDocument, corpus_of

from bmtools.data.sampler import (
    BatchPlan,
    Mixture,
    Sampler,
    StreamPosition,
    document_numbers,
    permute,
)
from bmtools.data.shards import Corpus
from bmtools.recipes.phases import Phase, Schedule
from bmtools.recipes.settings import BatchConfig, ObjectiveConfig, PhaseLengthConfig


def make_corpus(documents: int, seed: int = 0, longest: int = 100) -> Corpus:
    """Documents whose ids are the positions of their tokens."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(documents):
        length = int(rng.integers(1, longest))
        starts = rng.random(length) < 0.6
        starts[0] = True
        sentences = [0, *np.nonzero(starts & (rng.random(length) < 0.15))[0].tolist()]
        made.append(EncodedDocument(rng.integers(5, 90, length), starts, sorted(set(sentences))))
    return corpus_of(made)


def phase(name: str = "main", steps: int = 10, max_length: int = 32, batch_size: int = 8,
          objective: str = "masked", mixture: Mapping[str, float] | None = None,
          **more: int) -> Phase:
    return Phase(name, PhaseLengthConfig(steps=steps), BatchConfig(max_length, batch_size, **more),
                 ObjectiveConfig(objective), mixture=mixture or {})


def stream(corpora: dict[str, Corpus], *phases: Phase, packed: bool = False,
           seed: int = 0) -> Sampler:
    timeline = Schedule(phases, [one.length.steps for one in phases])
    return Sampler(corpora, timeline, packed, seed)


def samples_of(plan: BatchPlan) -> np.ndarray:
    """The samples of all sequences."""
    return plan.sequences.samples


def shown(plans: Sequence[BatchPlan], corpus: Corpus, number: int = 0) -> list[np.ndarray]:
    """Count how often each token of each document was used."""
    seen = [np.zeros(int(length), dtype=int) for length in corpus.lengths]
    for plan in plans:
        for one in samples_of(plan)[samples_of(plan)["corpus"] == number]:
            seen[one["document"]][one["start"]:one["start"] + one["length"]] += 1
    return seen


@pytest.mark.parametrize("phases", [
    (phase(steps=400),), (phase("one", 9), phase("two", 300, 64, 4))],
    ids=["one phase", "over a border"])
@pytest.mark.parametrize("packed", [False, True])
def test_an_epoch_contains_each_token_once(packed: bool,
                                           phases: tuple[Phase, ...]) -> None:
    """This also holds if a phase ends inside the epoch."""
    corpus = make_corpus(300)
    plans, steps = [], stream({"text": corpus}, *phases, packed=packed)
    for number in range(309):
        plans.append(steps.batch(number))
        if np.concatenate(shown(plans, corpus)).max() > 1:
            break
    assert number > 12
    # Samples that wait for a complete batch or sequence follow with the next epoch's first
    # documents.
    assert np.concatenate(shown(plans[:-1], corpus)).mean() > 0.9
    # All of them are used after the tokens of two epochs.
    while np.concatenate(shown(plans, corpus)).mean() < 2:
        plans.append(steps.batch(len(plans)))
    assert np.concatenate(shown(plans, corpus)).min() >= 1


LAYOUTS = [(False, "masked"), (True, "masked"), (False, "masked+nsp"), (True, "masked+nsp"),
           (True, "masked+sop")]


@pytest.mark.parametrize(("packed", "objective"), LAYOUTS)
def test_a_run_can_resume_from_any_position(packed: bool, objective: str) -> None:
    """Also inside a phase, at its border, and if a batch uses the rest of a window."""
    corpora = {"a": make_corpus(60), "b": make_corpus(80, 1)}
    phases = (phase("one", 9, objective=objective, mixture={"a": 2.0, "b": 1.0}, batch_size=7),
              phase("two", 2, 48, 50, objective=objective),
              phase("three", 6, 16, 30, objective, {"a": 2.0}))
    whole = stream(corpora, *phases, packed=packed)
    plans = [whole.batch(number) for number in range(17)]
    timeline = Schedule(phases, [one.length.steps for one in phases])
    for number, before in enumerate(plans[:-1], 1):
        content = json.loads(json.dumps(before.following.to_json()))
        resumed = Sampler(corpora, timeline, packed, 0, StreamPosition.from_json(content))
        for later in range(number, 17):
            found, expected = resumed.batch(later), plans[later]
            assert np.array_equal(samples_of(found), samples_of(expected))
            assert np.array_equal(found.sequences.borders, expected.sequences.borders)
            assert found.following.to_json() == expected.following.to_json()
    assert np.array_equal(samples_of(resumed.batch(2)), samples_of(plans[2]))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 100, 1000, 4097])
def test_a_permutation_names_each_number_once(size: int) -> None:
    assert sorted(permute(np.arange(size), size, 7)) == list(range(size))


def test_each_epoch_shows_every_document_in_another_order() -> None:
    epochs = document_numbers(np.arange(30), 10, 0, 0).reshape(3, 10)
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert not np.array_equal(epochs[0], epochs[1])
    assert not np.array_equal(epochs[0], document_numbers(np.arange(10), 10, 0, 1))


STOCKS = {"long": (100, 50_000), "short": (1_000, 50_000)}


def tokens_drawn(mixture: Mixture, windows: int) -> dict[str, float]:
    total = dict.fromkeys(STOCKS, 0.0)
    for _ in range(windows):
        for name, count in mixture.take().items():
            total[name] += count * STOCKS[name][1] / STOCKS[name][0]
    return total


def test_weights_count_tokens() -> None:
    found = tokens_drawn(Mixture(STOCKS, {"long": 3.0, "short": 1.0}), 50)
    assert found["long"] / found["short"] == pytest.approx(3.0, rel=0.02)


def test_without_weights_an_epoch_shows_all_of_every_corpus() -> None:
    assert Mixture(STOCKS, {}).take() == {"long": 100, "short": 1000}
