"""Flow diagram of ranks from one model to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bmtools.reports.drawing import BETTER, FAINT, INK, SAME, WORSE, Canvas, ImageFormat, Plot
from bmtools.reports.labels import wrap_path
from bmtools.reports.mrr_summary import MrrSummary, RankLevels, count_flow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import PathPatch

_GAP = 0.035  # between blocks, as a share of all items
_LABELLED = 0.035  # least share of items that a band shows its number for
FlowCounts = Mapping[tuple[int, int], int]
"""Items by their levels under two models."""


def plot_flow(summary: MrrSummary, before: int, image_format: ImageFormat) -> Plot:
    """Draw how many items move from each rank to each other between two successive models."""
    after = before + 1
    levels = RankLevels(summary.top).names
    counts = count_flow(summary.items, before, after, RankLevels(summary.top))
    canvas = Canvas.of_size(7.5, max(5.2, 0.75 * len(levels)))
    axes = canvas.figure.add_subplot()
    heights = [[sum(count for ends, count in counts.items() if ends[side] == level)
                for level in range(len(levels))] for side in (0, 1)]
    tops = [_block_tops(own) for own in heights]
    _draw_bands(canvas, axes, counts, tops, levels)
    for side, number in enumerate((before, after)):
        _draw_side(axes, side, heights[side], tops[side], levels)
        axes.annotate(wrap_path(summary.names[number], 26), (side, 0), (0, 10), ha="center",
                      textcoords="offset points", va="bottom", fontweight="bold")
    _draw_legend(axes, counts)
    names = f"{summary.names[before]} to {summary.names[after]}"
    return canvas.finish(
        f"flow-{before + 1}-{after + 1}", image_format, f"Ranks from {names}",
        f"Ranks of {len(summary.items)} maskings, from {names}; widths are numbers of maskings. "
        f"Beyond: not among the first {summary.top}.")


def _block_tops(heights: Sequence[int]) -> list[float]:
    """Stack the levels' blocks downwards from 0, with gaps between them."""
    gap = _GAP * sum(heights)
    return [-sum(heights[:level]) - gap * level for level in range(len(heights))]


def _draw_bands(canvas: Canvas, axes: Axes, counts: FlowCounts, tops: Sequence[Sequence[float]],
                names: Sequence[str]) -> None:
    """Draw a band for each pair of levels, sorted on either side by the level on the other."""
    total = sum(counts.values())
    used: Counter[tuple[int, int]] = Counter()
    for (source, target), count in sorted(counts.items()):
        left = tops[0][source] - used[0, source]
        right = tops[1][target] - used[1, target]
        used[0, source] += count
        used[1, target] += count
        colour = SAME if source == target else BETTER if target < source else WORSE
        gid = f"band-{source + 1}-{target + 1}"
        axes.add_patch(_band(left, right, count, colour, gid))
        canvas.tooltips[gid] = f"{names[source]} to {names[target]}: {count}"
        if count >= _LABELLED * total:
            axes.text(0.07, left - count / 2, f"{count}", va="center", fontsize=7.5)


def _band(left: float, right: float, height: float, colour: str, gid: str) -> PathPatch:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    start, end = 0.05, 0.95
    points = [(start, left), (0.5, left), (0.5, right), (end, right),
              (end, right - height), (0.5, right - height), (0.5, left - height),
              (start, left - height), (start, left)]
    codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY]
    return PathPatch(Path(points, codes), facecolor=colour, alpha=0.5, linewidth=0, gid=gid)


def _draw_side(axes: Axes, side: int, heights: Sequence[int], tops: Sequence[float],
               names: Sequence[str]) -> None:
    from matplotlib.patches import Rectangle

    for height, top, name in zip(heights, tops, names, strict=True):
        axes.add_patch(Rectangle((side * 0.955, top - height), 0.045, height, facecolor=INK,
                                 linewidth=0, gid=f"rank-{side + 1}-{name}"))
        axes.text(side * 1.04 - 0.02, top - height / 2, f"{name}: {height}",
                  ha="left" if side else "right", va="center", color=INK if height else FAINT)


def _draw_legend(axes: Axes, counts: FlowCounts) -> None:
    from matplotlib.patches import Patch

    changes: Counter[int] = Counter()
    for (source, target), count in counts.items():
        changes[(target > source) - (target < source)] += count
    axes.set_xlim(-0.3, 1.3)
    axes.autoscale_view(scalex=False)
    axes.axis("off")
    axes.legend(handles=[Patch(facecolor=colour, alpha=0.5, label=f"{name} {changes[sign]}")
                         for sign, name, colour in ((-1, "better", BETTER), (0, "same", SAME),
                                                    (1, "worse", WORSE))],
                loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=3, frameon=False)
