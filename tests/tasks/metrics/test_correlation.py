from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from bmtools.statistics.samples import pearson, spearman
from bmtools.tasks.similarity import score_correlation

stats = pytest.importorskip("scipy.stats")


def assert_equals_scipy(gold: np.ndarray, found: np.ndarray) -> None:
    ours = score_correlation(gold.tolist(), found.tolist())
    assert ours == {"pearson": pytest.approx(stats.pearsonr(gold, found).statistic, abs=1e-6),
                    "spearman": pytest.approx(stats.spearmanr(gold, found).statistic, abs=1e-6),
                    "support": len(gold)}


@pytest.mark.parametrize("shape", [lambda x: x, np.exp, np.round, lambda x: 1e6 + x,
                                   lambda x: np.minimum(x, 0), lambda x: -1e-9 * x])
def test_coefficients_equal_scipy(shape: np.ufunc) -> None:
    rng = np.random.default_rng(0)
    for size in (3, 20, 500):
        gold = rng.normal(size=size)
        assert_equals_scipy(gold, shape(gold + rng.normal(size=size)))


@pytest.mark.data
def test_coefficients_equal_scipy_on_real_scores(data: Path) -> None:
    with (data / "en/sts/BIOSSES/biosses.tsv").open(encoding="utf-8", newline="") as stream:
        rows = [*csv.DictReader(stream, delimiter="\t")]
    gold = np.array([float(row["score"]) for row in rows])
    assert len(gold) == 100
    for annotator in "ABCDE":
        assert_equals_scipy(gold, np.array([float(row[annotator]) for row in rows]))


@pytest.mark.parametrize(("gold", "found"), [([], []), ([1], [2]), ([1, 2], [3, 3]),
                                             ([0.1] * 7, [*range(7)])])
def test_constant_sides_have_no_coefficient(gold: list[float], found: list[float]) -> None:
    assert score_correlation(gold, found) == {"pearson": None, "spearman": None,
                                              "support": len(gold)}


def test_weights_repeat_items() -> None:
    rng = np.random.default_rng(1)
    gold, found = rng.integers(0, 6, 30), rng.integers(0, 6, 30)
    weights = rng.integers(0, 4, (5, 30))
    for coefficient, theirs in ((pearson, stats.pearsonr), (spearman, stats.spearmanr)):
        expected = [theirs(np.repeat(gold, row), np.repeat(found, row)).statistic
                    for row in weights]
        assert coefficient(gold, found, weights).tolist() == pytest.approx(expected)
