"""Reliability diagrams: how often predictions of each score are right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bmtools.errors import DataError
from bmtools.study.reports.drawing import FAINT, INK, PAPER, STRONG, figure_file
from bmtools.study.reports.labels import short_names
from bmtools.tasks.metrics.calibration import BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANEL_INCHES = 3.4
_COLUMNS = 4


def plot_calibration(lines: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Draw a panel for each line of scores with a calibration.

    Bars are precision by score, as wide as their bin, with the number of predictions; on the
    diagonal both agree.

    Raises:
        DataError: no line has one, as no prediction has a score.
    """
    scored = [line for line in lines if "calibration" in line]
    if not scored:
        raise DataError("found no mention with a score between 0 and 1, expected one in each "
                        "prediction, as predict and project write them, for a reliability diagram")
    columns = min(len(scored), _COLUMNS)
    rows = -(-len(scored) // columns)
    with figure_file(path, _PANEL_INCHES * columns, (_PANEL_INCHES + 0.3) * rows) as figure:
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        names = short_names([line["model"] for line in scored])
        for axes, name, line in zip(panels, names, scored, strict=False):
            _draw(axes, name, line["calibration"])
        for axes in panels[len(scored):]:
            axes.set_axis_off()


def _draw(axes: Axes, name: str, calibration: Mapping[str, Any]) -> None:
    axes.set_title(f"{name}\ncalibration error {calibration['error']:.3f}, "
                   f"{calibration['kept']:.0%} kept at 95% precision", fontsize="small")
    axes.plot([0, 1], [0, 1], color=FAINT, linestyle="--", linewidth=1)
    for one in calibration["bins"]:
        axes.bar(one["from"], one["precision"], width=1 / BINS, align="edge", color=STRONG,
                 alpha=0.7, edgecolor=PAPER)
        axes.plot(one["score"], one["precision"], marker=".", color=INK)
        axes.annotate(f"{one['predictions']:,}", (one["from"] + 0.5 / BINS, one["precision"]),
                      xytext=(0, 3), textcoords="offset points", ha="center", fontsize=6)
    axes.set(xlim=(0, 1), ylim=(0, 1.08), xlabel="score", ylabel="share that is right")
