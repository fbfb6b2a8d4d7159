"""Weighted sums of rows against a loop."""

from __future__ import annotations

import numpy as np
import torch

from bmtools.models.weighted_rows import WeightedRows


def test_means_equal_a_computation_by_hand() -> None:
    table = torch.randn(30, 7, generator=torch.Generator().manual_seed(0))
    members = {5: [1, 2, 29], 0: [4], 9: [3, 3, 8, 1]}
    target = torch.zeros(12, 7)
    WeightedRows.means(members).fill(target, table)
    for row in range(12):
        expected = table[members[row]].mean(dim=0) if row in members else torch.zeros(7)
        torch.testing.assert_close(target[row], expected, atol=1e-6, rtol=0)


def test_weights_and_single_columns() -> None:
    mixtures = WeightedRows.of(np.array([2, 0]), np.array([1, 3, 0]), np.array([2, 1]),
                               np.array([0.25, 0.75, 1.0]))
    table, target = torch.tensor([1.0, 2.0, 4.0, 8.0]), torch.zeros(3)
    mixtures.fill(target, table)
    assert target.tolist() == [1.0, 0.0, 0.25 * 2 + 0.75 * 8]


def test_no_rows_are_no_change() -> None:
    target = torch.ones(3, 2)
    WeightedRows.means({}).fill(target, torch.zeros(4, 2))
    assert torch.equal(target, torch.ones(3, 2))
