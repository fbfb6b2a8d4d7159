"""Words of embedding spaces in the plane."""

from __future__ import annotations

import numpy as np

from bmtools.study.reports.space_plot import project, word_chart


def test_a_chart_has_its_bands() -> None:
    chart = word_chart("$x$", np.random.default_rng(0).normal(size=(15, 2)), np.array(
        [4000, 900, 800, 700, 600, 50, 40, 30, 20, 11, 9, 8, 7, 6, 5]), np.repeat([0, 1, 2], 5))
    assert chart.table.title == "Words of $x$ by frequency"
    assert chart.table.rows == [["1", 600, 4000, 5], ["2", 11, 50, 5], ["3", 5, 9, 5]]
    for part in ("600 to 4,000 times", "11 to 50 times", "5 to 9 times"):
        assert part in chart.svg("x")


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
