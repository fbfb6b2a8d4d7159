"""Scatter plots of spaces."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bmtools.scoring.space_sample import SampledWords
from bmtools.study.reports.space_plot import Panel, plot_spaces, project

BANDS = np.repeat([0, 1, 2], 5)
SAMPLE = SampledWords([f"word{number}" for number in range(15)],
                      np.array([4000, 900, 800, 700, 600, 50, 40, 30, 20, 11, 9, 8, 7, 6, 5]),
                      BANDS)
SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def panels(*titles: str) -> list[Panel]:
    rng = np.random.default_rng(0)
    return [(title, rng.normal(size=(15, 2))) for title in titles]


def words_of(path: Path) -> set[str]:
    return {"".join(node.itertext()).strip() for node in ElementTree.parse(path).iter()
            if node.tag.endswith("}text")}


@pytest.mark.parametrize("suffix", SIGNATURES)
def test_each_format_is_written_and_repeats(tmp_path: Path, suffix: str) -> None:
    one, other = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    for path in (one, other):
        plot_spaces(panels("before", "after"), SAMPLE, path)
    assert one.read_bytes() == other.read_bytes()
    assert one.read_bytes().startswith(SIGNATURES[suffix])


def test_a_panel_each_and_a_bar_from_high_to_low(tmp_path: Path) -> None:
    from matplotlib import rc_context

    titles = ["start", "_one $x$", "two", "three"]
    with rc_context({"svg.fonttype": "none"}):
        plot_spaces(panels(*titles), SAMPLE, tmp_path / "p.svg")
    assert words_of(tmp_path / "p.svg") == {
        *titles, "High", "Low", "600\u20134,000", "11\u201350", "5\u20139", "times in the text"}


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
