"""The order in which examples of fine-tuning come."""

from __future__ import annotations

import numpy as np
import pytest

from bmtools.tasks.batches import EpochSampler


@pytest.mark.parametrize(("examples", "size"), [(256, 4), (37, 8), (5, 8), (3_000, 16)])
def test_every_epoch_contains_every_example_once(examples: int, size: int) -> None:
    lengths = np.random.default_rng(0).integers(1, 60, size=examples)
    sampler = EpochSampler(lengths, size, seed=3)
    each = sampler.batches_per_epoch
    epochs = [np.concatenate([sampler.batch(epoch * each + n) for n in range(each)])
              for epoch in range(2)]
    for found in epochs:
        assert sorted(found) == list(range(examples))
    assert examples <= size or (epochs[0] != epochs[1]).any()


def test_a_batch_depends_on_seed_and_number_alone() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, size=37)
    forward = EpochSampler(lengths, 8, seed=1)
    expected = [forward.batch(number) for number in range(200)]
    backward = EpochSampler(lengths, 8, seed=1)
    for number in reversed(range(200)):
        assert (backward.batch(number) == expected[number]).all()
    assert any((EpochSampler(lengths, 8, seed=2).batch(n) != expected[n]).any() for n in range(3))


def test_examples_of_a_batch_have_similar_lengths() -> None:
    lengths = np.random.default_rng(0).integers(1, 65, size=5_000)
    sampler = EpochSampler(lengths, 32, seed=0)
    batches = [lengths[sampler.batch(number)] for number in range(100)]
    filled = sum(batch.sum() for batch in batches) / sum(batch.max() * 32 for batch in batches)
    assert filled > 0.95
