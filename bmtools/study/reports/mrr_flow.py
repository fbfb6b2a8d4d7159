"""Plot of the flow of ranks between two successive models."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bmtools.study.reports.drawing import (
    BETTER,
    FAINT,
    INK,
    SAME,
    WORSE,
    Canvas,
    ImageFormat,
    Plot,
    new_figure,
)
from bmtools.study.reports.labels import DASH, ordinal, wrap_path
from bmtools.study.reports.mrr_summary import MrrItem, MrrSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GAP = 0.035  # between blocks of a flow, as a share of all items
_LABELLED = 0.035  # least share of items that a band shows its number for
_BOUNDS = (1, 2, 3, 4, 5, 10, 20, 50, 100)
FlowCounts = Mapping[tuple[int, int], int]
"""Items by their levels of ranks under two models."""


def plot_flow(summary: MrrSummary, before: int, image_format: ImageFormat,
              canvas: Canvas | None = None) -> Plot:
    """Draw how many items move from each rank to each other between two successive models.

    Args:
        summary: of all models.
        before: number of the first of the two.
        image_format: svg or png.
        canvas: to draw on; None for one of its own.
    """
    after = before + 1
    levels = level_names(summary.top)
    counts = count_flow(summary.items, before, after, summary.top)
    canvas = canvas or Canvas(new_figure(7.5, max(5.2, 0.75 * len(levels))))
    axes = canvas.figure.add_subplot()
    heights = [[sum(count for ends, count in counts.items() if ends[side] == level)
                for level in range(len(levels))] for side in (0, 1)]
    # Blocks are stacked downwards from 0, with gaps between them.
    gap = _GAP * len(summary.items)
    tops = [[-sum(own[:level]) - gap * level for level in range(len(own))] for own in heights]
    _draw_bands(canvas, axes, counts, tops, levels)
    for side, number in enumerate((before, after)):
        _draw_side(canvas, axes, side, heights[side], tops[side], levels)
        axes.annotate(wrap_path(summary.names[number], 26 if canvas.captioned else 18), (side, 0),
                      (0, 10), ha="center", textcoords="offset points", va="bottom",
                      fontweight="bold")
    _draw_legend(axes, counts)
    names = f"{summary.names[before]} to {summary.names[after]}"
    return canvas.finish(
        f"flow-{before + 1}-{after + 1}", image_format, f"Ranks from {names}",
        f"Ranks of {len(summary.items)} maskings, from {names}; widths are numbers of maskings. "
        f"Beyond: not among the first {summary.top}.")


def level_names(top: int) -> list[str]:
    """Name the levels of ranks: the first five one by one, later ones together, all beyond."""
    bounds = _level_bounds(top)
    starts = [1, *(bound + 1 for bound in bounds)]
    return [ordinal(last) if first == last else f"{ordinal(first)}{DASH}{ordinal(last)}"
            for first, last in zip(starts, bounds, strict=False)] + ["beyond"]


def count_flow(items: Sequence[MrrItem], before: int, after: int,
               top: int) -> Counter[tuple[int, int]]:
    """Count items by the levels of their ranks, from 0, under two models."""
    bounds = _level_bounds(top)

    def level(rank: int | None) -> int:
        return len(bounds) if rank is None else bisect_left(bounds, rank)

    return Counter((level(item.ranks[before]), level(item.ranks[after])) for item in items)


def _level_bounds(top: int) -> list[int]:
    """List the last rank of each level but the one beyond."""
    return [bound for bound in _BOUNDS if bound < top] + [top]


def _draw_bands(canvas: Canvas, axes: Axes, counts: FlowCounts, tops: Sequence[Sequence[float]],
                names: Sequence[str]) -> None:
    """Draw a band for each pair of levels, sorted on either side by the level on the other."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    total, start, end = sum(counts.values()), 0.05, 0.95
    codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY]
    used: Counter[tuple[int, int]] = Counter()
    for (source, target), count in sorted(counts.items()):
        left = tops[0][source] - used[0, source]
        right = tops[1][target] - used[1, target]
        used[0, source] += count
        used[1, target] += count
        colour = SAME if source == target else BETTER if target < source else WORSE
        gid = f"band-{source + 1}-{target + 1}"
        points = [(start, left), (0.5, left), (0.5, right), (end, right),
                  (end, right - count), (0.5, right - count), (0.5, left - count),
                  (start, left - count), (start, left)]
        axes.add_patch(PathPatch(Path(points, codes), facecolor=colour, alpha=0.5, linewidth=0,
                                 gid=gid))
        canvas.tooltips[gid] = f"{names[source]} to {names[target]}: {count}"
        if count >= _LABELLED * total:
            axes.text(0.07, left - count / 2, f"{count}", va="center",
                      fontsize=canvas.size(7.5))


def _draw_side(canvas: Canvas, axes: Axes, side: int, heights: Sequence[int],
               tops: Sequence[float], names: Sequence[str]) -> None:
    """Draw a block for each level; on pages, whose print is larger, empty ones have no label."""
    from matplotlib.patches import Rectangle

    for height, top, name in zip(heights, tops, names, strict=True):
        axes.add_patch(Rectangle((side * 0.955, top - height), 0.045, height, facecolor=INK,
                                 linewidth=0, gid=f"rank-{side + 1}-{name}"))
        if height or canvas.captioned:
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
