"""Words of embedding spaces in the plane."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bmtools.errors import DataError
from bmtools.study.reports.space_plot import project, vectors_charts


def test_a_chart_for_each_model_with_its_bands(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "v.npz", models=np.array(["a/x", "b/$x$"]), bands=np.repeat([1, 2, 3], 5),
             counts=np.array([4000, 900, 800, 700, 600, 50, 40, 30, 20, 11, 9, 8, 7, 6, 5]),
             **{f"vectors_{number}": rng.normal(size=(15, 4)) for number in (1, 2)})
    one, other = vectors_charts(tmp_path / "v.npz")
    assert [chart.table.title for chart in (one, other)] == [
        "Words of x by frequency", "Words of $x$ by frequency"]
    assert one.table.rows == [["1", 600, 4000, 5], ["2", 11, 50, 5], ["3", 5, 9, 5]]
    for part in ("600 to 4,000 times", "11 to 50 times", "5 to 9 times"):
        assert part in one.svg("x")
    np.savez(tmp_path / "o.npz", words=np.arange(3))
    with pytest.raises(DataError, match="found the arrays words"):
        next(vectors_charts(tmp_path / "o.npz"))


def test_components_are_laid_out_the_same_each_time() -> None:
    vectors = np.random.default_rng(1).normal(size=(15, 6))
    assert (project(vectors, "pca", 0) == project(vectors, "pca", 1)).all()


def test_neighbours_stay_neighbours_in_a_map_that_repeats() -> None:
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(60, 6)) + 20 * np.eye(6)[np.repeat([0, 1, 2], 20)]
    found = project(vectors, "tsne", 3)
    assert (found == project(vectors, "tsne", 3)).all()
    centres = found.reshape(3, 20, 2).mean(axis=1)
    distances = np.linalg.norm(found[:, None] - centres, axis=2)
    assert (distances.argmin(axis=1) == np.repeat([0, 1, 2], 20)).all()
