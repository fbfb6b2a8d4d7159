"""Reliability diagrams: how often predictions of each score are right."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.errors import DataError
from bmtools.records import JsonMapping
from bmtools.study.reports.drawing import FAINT, INK, PAPER, STRONG, figure_file, panels
from bmtools.study.reports.labels import model_names
from bmtools.tasks.metrics.calibration import BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANEL_INCHES = 3.4
_COLUMNS = 4


def plot_calibration(lines: Iterable[JsonMapping], path: Path) -> None:
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
        for axes, name, line in zip(panels(figure, len(scored), columns), model_names(scored),
                                    scored, strict=True):
            _draw(axes, name, line["calibration"])


def _draw(axes: Axes, name: str, calibration: JsonMapping) -> None:
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
