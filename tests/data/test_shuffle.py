"""The keyed order shows each document once an epoch; mixtures keep to their weights."""

from __future__ import annotations

import numpy as np
import pytest

from bmtools.data.shuffle import Mixture, document_numbers, permute


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
