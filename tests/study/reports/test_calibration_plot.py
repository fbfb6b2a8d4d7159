"""Reliability diagrams."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from bmtools.errors import DataError
from bmtools.study.reports.calibration_plot import plot_calibration
from bmtools.tasks.metrics.calibration import calibrate

LINE = {"model": "vote", **calibrate([0.15, 0.95, 0.97], [False, True, True])}


def test_a_panel_each_with_counts(tmp_path: Path) -> None:
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):
        for name in ("one.svg", "two.svg"):
            plot_calibration([LINE, {"model": "none"}, {**LINE, "model": "other"}],
                             tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    texts = ["".join(node.itertext()).strip()
             for node in ElementTree.parse(tmp_path / "one.svg").iter()
             if node.tag.endswith("}text")]
    assert [text for text in texts if text in ("vote", "other", "none")] == ["vote", "other"]
    assert texts.count("calibration error 0.077, 67% kept at 95% precision") == 2
    assert "2" in texts


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found no mention with a score"):
        plot_calibration([{"model": "none"}], tmp_path / "plot.svg")
    assert not [*tmp_path.iterdir()]
