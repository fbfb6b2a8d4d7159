"""Plots of ranks over models: progression, flow, proposals and domains.

Source: Buonocore et al. 2023, table 6 and figure 3.
"""

from __future__ import annotations

import textwrap
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bmtools.records import MASK
from bmtools.study.reports.drawing import (
    BETTER,
    FAINT,
    GROUP,
    INK,
    MARK,
    PALE,
    PAPER,
    SAME,
    SERIES,
    STRONG,
    WORSE,
    Canvas,
    ImageFormat,
    Plot,
    bar_places,
    new_figure,
)
from bmtools.study.reports.labels import (
    DASH,
    excerpt,
    ordinal,
    percent,
    printable,
    truncate,
    truncate_start,
    wrap_path,
)
from bmtools.study.reports.mrr_summary import (
    MrrEstimate,
    MrrItem,
    MrrSummary,
    matching_proposal,
    sort_by_agreement,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

_MAX_LINES, _MAX_PAGE_LINES = 400, 120
_FULL_CROWD = 40  # lines that take all the room a rank has
_MAX_DOMAINS = 40
_GAP = 0.035  # between blocks of a flow, as a share of all items
_LABELLED = 0.035  # least share of items that a band shows its number for
_BOUNDS = (1, 2, 3, 4, 5, 10, 20, 50, 100)
FlowCounts = Mapping[tuple[int, int], int]
"""Items by their levels of ranks under two models."""


def plot_progression(summary: MrrSummary, image_format: ImageFormat,
                     canvas: Canvas | None = None) -> Plot:
    """Draw the mean over models, and single items faintly behind it (figure 3)."""
    canvas = canvas or Canvas(new_figure(max(6.0, 1.5 + 1.35 * len(summary.names)), 5.2))
    axes = canvas.figure.add_subplot()
    parts = sort_by_agreement(summary.items)
    later = [item for item in parts.steady if item.reciprocal_ranks[0] < 1]
    candidates = [*parts.changing, *later]
    most = _MAX_LINES if canvas.captioned else _MAX_PAGE_LINES
    drawn = candidates[::-(-len(candidates) // most) or 1]
    _draw_items(canvas, axes, drawn, summary.top)
    _draw_means(canvas, axes, summary.estimates)
    _label_progression(canvas, axes, summary)
    with_intervals = any(estimate.interval for estimate in summary.estimates)
    share = f"{len(drawn)} of " * (len(drawn) < len(candidates))
    picked = ", evenly picked" * (len(drawn) < len(candidates))
    return canvas.finish(
        "progression", image_format, "Mean reciprocal rank over models",
        f"Mean over {len(summary.items)} maskings{', with its interval' if with_intervals else ''}"
        f". Faint: {share}{len(candidates)} single maskings{picked}, each a little aside so that "
        f"lines do not hide each other. Left out, as in Buonocore et al. 2023: "
        f"{len(parts.steady) - len(later)} that all models put first and {len(parts.never)} that "
        "none finds.")


def _draw_items(canvas: Canvas, axes: Axes, items: Sequence[MrrItem], top: int) -> None:
    """Draw a line for each item; the more lines, the fainter."""
    alpha = min(0.4, max(0.18, 40 / max(len(items), 1)))
    for number, (item, heights) in enumerate(zip(items, _spread_lines(items, top), strict=True)):
        line, = axes.plot(heights, color=PALE, linewidth=0.6, alpha=alpha, zorder=1,
                          marker="." if len(heights) == 1 else "", markersize=3)
        line.set_gid(gid := f"word-{number + 1}")
        canvas.tooltips[gid] = f"{printable(item.target)}: {', '.join(map(ordinal, item.ranks))}"


def _spread_lines(items: Sequence[MrrItem], top: int) -> list[list[float]]:
    """Give each item its height under each model, those of one rank side by side."""
    order = sorted(range(len(items)), key=lambda number: items[number].reciprocal_ranks)
    heights: list[list[float]] = [[] for _ in items]
    for values in zip(*(items[number].reciprocal_ranks for number in order), strict=True):
        crowds, seen = Counter(values), Counter[float]()
        for number, value in zip(order, values, strict=True):
            seen[value] += 1
            offset = (seen[value] - 0.5) / crowds[value] - 0.5
            gap = value - 1 / (round(1 / value) + 1) if value else 1 / top
            room = min(0.12, 0.7 * gap)
            heights[number].append(value + offset * room * min(1, crowds[value] / _FULL_CROWD))
    return heights


def _draw_means(canvas: Canvas, axes: Axes, estimates: Sequence[MrrEstimate]) -> None:
    axes.plot([estimate.mrr for estimate in estimates], color=STRONG, linewidth=2.2, marker="o",
              markersize=7, zorder=3, gid="mean")
    for number, (mrr, interval, _) in enumerate(estimates):
        label = f"{mrr:.3f}"
        if interval is not None:
            axes.vlines(number, *interval, color=STRONG, linewidth=2.2, zorder=3,
                        gid=f"interval-{number}")
            label += "\n[{:.3f}, {:.3f}]".format(*interval) * canvas.captioned
        upper = interval[1] if interval else mrr
        axes.annotate(label, (number, upper), (0, 9), textcoords="offset points", ha="center",
                      va="bottom", color=STRONG, fontweight="bold", fontsize=canvas.size(8),
                      zorder=4,
                      bbox={"facecolor": PAPER, "alpha": 0.85, "edgecolor": "none", "pad": 1.5})


def _label_progression(canvas: Canvas, axes: Axes, summary: MrrSummary) -> None:
    if canvas.captioned:
        axes.set_xticks(range(len(summary.names)), [wrap_path(name, 18) for name in summary.names])
    else:
        axes.set_xticks(range(len(summary.names)), [
            truncate_start(name, 18) for name in summary.names], rotation=30, ha="right")
    axes.set_xlim(-0.6, len(summary.names) - 0.4)
    axes.set_ylim(-0.09, 1.16)
    ticks: list[float] = []
    room = 0.035 if canvas.captioned else 0.07
    for tick in (1 / rank for rank in range(1, summary.top + 1)):
        if (not ticks or ticks[-1] - tick > room) and tick > room:
            ticks.append(tick)
    ticks.append(0)
    axes.set_yticks(ticks, [f"{ordinal(round(1 / tick))}: {tick:.2f}" if tick else "beyond: 0"
                            for tick in ticks])
    axes.set_ylabel("reciprocal rank")
    axes.grid(axis="y", linewidth=0.5, alpha=0.4)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


@dataclass(frozen=True, slots=True)
class _Grid:
    """Vertical layout of the table of proposals, in lines of text from the top.

    Args:
        top: of the table.
        head: height of its head.
        rows: number of proposals.
        column_inches: width of a model's column.
    """

    top: float
    head: float
    rows: int
    column_inches: float

    def row(self, number: int) -> float:
        """Give the middle of a row."""
        return self.top + self.head + number + 0.5

    def left(self, model: int) -> float:
        """Give the left edge of a model's column, in inches."""
        return 0.6 + self.column_inches * model


def plot_proposals(summary: MrrSummary, image_format: ImageFormat) -> Plot:
    """Draw the best tokens of each model for one masking, and its rank (table 6)."""
    shown, models = summary.shown, len(summary.names)
    width = max(6.0, 0.6 + 1.75 * models)
    heads = [wrap_path(name, 20) for name in summary.names]
    sentence = textwrap.wrap(printable(excerpt(shown.text, MASK, 300)), int(width * 13))
    grid = _Grid(0.67 * len(sentence) + 1.6,
                 0.3 + 0.75 * max(head.count("\n") + 1 for head in heads),
                 min(summary.top, max(map(len, shown.proposals), default=0)),
                 min(2.4, (width - 0.6) / models))
    height = grid.top + grid.head + grid.rows + 2.4
    canvas = Canvas(new_figure(width, 0.27 * height + 0.3))
    axes = canvas.figure.add_subplot()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    axes.text(0.05, 0, "\n".join(sentence), va="top", style="italic", linespacing=1.25)
    axes.text(0.05, grid.top - 0.35, f"{MASK} = {truncate(printable(shown.target), 60)}",
              va="bottom", fontweight="bold")
    for edge in (grid.top, grid.top + grid.head, grid.row(grid.rows) - 0.5):
        axes.plot([0, grid.left(models)], [edge, edge], color=FAINT, linewidth=0.8)
    for row, label in enumerate([*map(ordinal, range(1, grid.rows + 1)), "1/rank", "rank"]):
        axes.text(0.05, grid.row(row), label, va="center", color=FAINT)
    for number, head in enumerate(heads):
        axes.text(grid.left(number), grid.top + grid.head - 0.25, head, va="bottom",
                  fontweight="bold")
        _draw_column(axes, shown, number, grid)
    return canvas.finish(
        "predictions", image_format, "Proposals for one masking",
        f"The first {summary.top} proposals for the masking {printable(shown.name)}; the right "
        "word is marked.")


def _draw_column(axes: Axes, shown: MrrItem, model: int, grid: _Grid) -> None:
    from matplotlib.patches import Rectangle

    left, marked = grid.left(model), matching_proposal(shown, model)
    for row, (token, probability) in enumerate(shown.proposals[model][:grid.rows]):
        weight = "bold" if row == marked else "normal"
        if row == marked:
            axes.add_patch(Rectangle((left - 0.06, grid.row(row) - 0.46),
                                     grid.column_inches - 0.08, 0.92, facecolor=MARK,
                                     linewidth=0, gid=f"marked-{model + 1}"))
        axes.text(left, grid.row(row), truncate(printable(token), int(9 * grid.column_inches)),
                  va="center", fontweight=weight)
        axes.text(left + grid.column_inches - 0.2, grid.row(row), percent(probability),
                  va="center", ha="right", fontweight=weight)
    axes.text(left, grid.row(grid.rows), f"{shown.reciprocal_ranks[model]:.2f}", va="center",
              fontweight="bold")
    axes.text(left, grid.row(grid.rows + 1), ordinal(shown.ranks[model]), va="center",
              fontweight="normal")


def plot_domains(summary: MrrSummary, image_format: ImageFormat) -> Plot:
    """Draw the mean reciprocal rank of each domain as bars, one for each model."""
    domains = summary.groups["domain"]
    sizes = {domain: max((one.maskings or 0 for one in row if one), default=0)
             for domain, row in domains.items()}
    drawn = sorted(domains, key=lambda domain: -sizes[domain])[:_MAX_DOMAINS]
    rest, models = len(domains) - len(drawn), len(summary.names)
    height = 1.4 + 0.2 * models + max(0.34, 0.11 * models + 0.12) * len(drawn)
    canvas = Canvas(new_figure(7.5, height))
    axes = canvas.figure.add_subplot()
    bars: list[Any] = [
        _draw_bars(axes, [domains[domain][number] for domain in drawn], number, models)
        for number in range(models)]
    labels = [truncate(printable(domain), 32) for domain in drawn]
    axes.set_yticks(range(len(drawn)), [f"{label} ({sizes[domain]})" if sizes[domain] else label
                                        for label, domain in zip(labels, drawn, strict=True)])
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    uppers = [one.upper for row in domains.values() for one in row if one]
    axes.set_xlim(0, max(0.1, 1.12 * max(uppers, default=0)))
    axes.set_xlabel("mean reciprocal rank")
    axes.spines[["top", "right"]].set_visible(False)
    canvas.figure.legend(bars, [truncate_start(name, 70) for name in summary.names],
                         loc="outside upper center", frameon=False)
    return canvas.finish(
        "domains", image_format, "Mean reciprocal rank by domain",
        "Mean reciprocal rank by domain; numbers of maskings in brackets." + (
            f" Drawn: the {len(drawn)} with the most maskings; {rest} more are in the table."
            if rest else ""))


def _draw_bars(axes: Axes, row: Sequence[MrrEstimate | None], number: int,
               models: int) -> BarContainer:
    """Draw one model's bars, labelled with their values and with intervals where known."""
    centres = bar_places(len(row), number, models)
    bars = axes.barh(centres, [one.mrr if one else 0 for one in row], GROUP / models * 0.9,
                     color=SERIES[number % len(SERIES)])
    for group, (bar, centre, one) in enumerate(zip(bars, centres, row, strict=True), 1):
        bar.set_gid(f"bar-{number + 1}-{group}")
        if one is not None:
            if one.interval is not None:
                axes.hlines(centre, *one.interval, color=FAINT, linewidth=1)
            axes.annotate(f"{one.mrr:.2f}", (one.upper, centre), (3, 0), va="center",
                          textcoords="offset points", fontsize=6.5)
    return bars


def plot_flow(summary: MrrSummary, before: int, image_format: ImageFormat,
              canvas: Canvas | None = None) -> Plot:
    """Draw how many items move from each rank to each other between two successive models.

    Args:
        summary: of all models.
        before: number of the first of the two.
        image_format: svg or png.
        canvas: to draw on; None for one of its own.
    """
    after, levels = before + 1, level_names(summary.top)
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
