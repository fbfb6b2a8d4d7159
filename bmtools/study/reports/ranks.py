"""Ranks of masked words under several models: charts, proposals and words whose rank changes.

Source: Buonocore et al. 2023, table 6 and figure 3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bmtools.records import JsonMapping
from bmtools.study.reports.charts import Cell, Chart, Estimate, Part, Table
from bmtools.study.reports.drawing import BETTER, INK, PALE, SAME, STRONG, WORSE
from bmtools.study.reports.labels import DASH, short_names, wrap_name

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

Masking = Sequence[JsonMapping]
"""Lines of `score-mrr --details` about the same masked word, one line for each model."""
_HEIGHT = 330
_MOST_LISTED, _MOST_PATHS = 1000, 300
_GAP = 0.035  # space between two blocks of a flow, as a share of all maskings
_LABELLED = 0.035  # minimum share of all maskings for a band to show its number
_BOUNDS = (1, 2, 3, 4, 5, 10, 20, 50, 100)
_NAME_WIDTH = 18
_BEYOND = "beyond"


def gather(lines: Iterable[JsonMapping]) -> tuple[list[str], list[Masking]]:
    """Return the models in lines of details, and the maskings that all of these models have."""
    rows: defaultdict[tuple[object, ...], dict[str, JsonMapping]] = defaultdict(dict)
    seen: Counter[tuple[object, ...]] = Counter()
    for line in lines:
        key = line["model"], line.get("id"), line.get("target")
        rows[(*key[1:], seen[key])][line["model"]] = line
        seen[key] += 1
    models = list(dict.fromkeys(model for row in rows.values() for model in row))
    return models, [[row[model] for model in models] for row in rows.values()
                    if len(row) == len(models)]


def rank_parts(lines: Sequence[JsonMapping], scores: Sequence[JsonMapping]) -> Iterator[Part]:
    """Yield charts of mean ranks and of changes between successive models, and tables of words.

    Args:
        lines: lines of `score-mrr --details`.
        scores: lines of `score-mrr`, which contain the intervals.
    """
    baselines = {line["model"] for line in scores if "baseline:" in line.get("signature", "")}
    models, found = gather(line for line in lines if line["model"] not in baselines)
    maskings = [row for row in found if None not in [line["reciprocal_rank"] for line in row]]
    if not maskings:
        return
    names, ranks = short_names(models), [[line["rank"] for line in row] for row in maskings]
    top = max((line["rank"] for row in maskings for line in row
               if line["rank"] and line["reciprocal_rank"]), default=5)
    if len(models) > 1:
        yield progression(names, maskings, [
            next((Estimate.of(line["mrr"], line.get("interval")) for line in scores
                  if line["model"] == model), None) for model in models])
    for (one, other), own in zip(pairwise(names), zip(*map(pairwise, ranks), strict=True),
                                 strict=True):
        yield flow(one, other, own, top)
    changing = sorted((row for row in maskings if _spread(row)),
                      key=lambda row: row[0]["reciprocal_rank"] - row[-1]["reciprocal_rank"])
    if changing:
        yield Table("Maskings whose rank changes, the greatest gains first", ["word", *names, "id"],
                    [[str(row[0]["target"]), *(line["rank"] or DASH for line in row),
                      str(row[0].get("id"))] for row in changing[:_MOST_LISTED]])
    shown = max(maskings, key=lambda row: (_spread(row), len({
        line["reciprocal_rank"] for line in row})))
    if any(line.get("proposals") for line in shown):
        yield _proposals(names, shown)


def _spread(masking: Masking) -> float:
    """Return the difference between the best and the worst reciprocal rank of a masking."""
    found = [line["reciprocal_rank"] for line in masking]
    return float(max(found) - min(found))


def _proposals(names: Sequence[str], masking: Masking) -> Table:
    """List the best tokens of each model for one masking, and the ranks of its word (table 6)."""
    proposed = [[*zip(line.get("proposals", ()), line.get("probabilities", ()), strict=False)]
                for line in masking]
    rows: list[list[Cell]] = [
        [str(place + 1), *("{} {:.1%}".format(*one[place]) if place < len(one) else ""
                           for one in proposed)] for place in range(max(map(len, proposed)))]
    return Table(
        f"Proposals for the masking {masking[0].get('id')}, whose word is {masking[0]['target']}",
        ["place", *names], [*rows, *(
            [name, *(DASH if line[key] is None else line[key] for line in masking)]
            for name, key in (("rank", "rank"), ("reciprocal rank", "reciprocal_rank")))])


def progression(names: Sequence[str], maskings: Sequence[Masking],
                estimates: Sequence[Estimate | None]) -> Chart:
    """Draw the mean of each model, and maskings as lines; equal ones are wider (figure 3)."""
    title, values = "Mean reciprocal rank over models", np.array(
        [[line["reciprocal_rank"] for line in row] for row in maskings])
    means = [known or Estimate(mean) for known, mean in
             zip(estimates, values.mean(axis=0).tolist(), strict=True)]
    # Maskings that all models rank first, or that no model finds, are not drawn.
    paths = Counter(tuple(row) for row in values.tolist() if not set(row) <= {1.0}
                    and any(row)).most_common(_MOST_PATHS)

    def draw(axes: Axes) -> dict[str, Artist]:
        for path, count in paths:
            axes.plot(path, color=PALE, alpha=0.4, linewidth=0.6 + 5 * count / paths[0][1])
        axes.plot([one.value for one in means], color=STRONG, linewidth=2.2, marker="o",
                  markersize=7)
        for number, one in enumerate(means):
            if one.low is not None and one.high is not None:
                axes.vlines(number, one.low, one.high, color=STRONG, linewidth=2.2)
            axes.annotate(f"{one.value:.3f}", (number, one.high or one.value), (0, 9), ha="center",
                          textcoords="offset points", color=STRONG, fontweight="bold")
        axes.set_xticks(range(len(names)), [wrap_name(name, _NAME_WIDTH) for name in names],
                        rotation=30, ha="right")
        axes.set(xlim=(-0.6, len(names) - 0.4), ylim=(-0.09, 1.16), ylabel="reciprocal rank")
        return {}

    return Chart(
        Table(title, ["", "mean reciprocal rank", "from", "to"],
              [[name, *one] for name, one in zip(names, means, strict=True)]),
        f"{title}, over {len(maskings)} maskings. Pale lines are single maskings, except maskings "
        "that all models rank first and maskings that no model finds.", _HEIGHT, draw)


def level_names(top: int) -> list[str]:
    """Name the levels of ranks: five single ranks, then ranges, then all ranks beyond `top`."""
    bounds = _level_bounds(top)
    return [*(str(last) if first == last else f"{first}{DASH}{last}" for first, last in zip(
        [1, *(bound + 1 for bound in bounds)], bounds, strict=False)), _BEYOND]


def _level_bounds(top: int) -> list[int]:
    """Return the last rank of each level except the level beyond `top`."""
    return [bound for bound in _BOUNDS if bound < top] + [top]


def count_flow(ranks: Iterable[tuple[int | None, int | None]],
               top: int) -> dict[tuple[int, int], int]:
    """Count maskings by their levels under two models; levels are numbered from 0."""
    bounds = _level_bounds(top)
    return dict(sorted(Counter(
        (bisect_left(bounds, before or top + 1), bisect_left(bounds, after or top + 1))
        for before, after in ranks).items()))


def flow(one: str, other: str, ranks: Sequence[tuple[int | None, int | None]], top: int) -> Chart:
    """Draw how many maskings move from each level of ranks to each other level."""
    title, counts, levels = f"Ranks from {one} to {other}", count_flow(ranks, top), level_names(top)
    sizes = [[sum(count for ends, count in counts.items() if ends[side] == level)
              for level in range(len(levels))] for side in (0, 1)]
    gap = _GAP * len(ranks)
    # Blocks are stacked downwards from 0, with a gap between neighbours.
    tops = [[-sum(own[:level]) - gap * level for level in range(len(own))] for own in sizes]

    def draw(axes: Axes) -> dict[str, Artist]:
        from matplotlib.patches import Patch

        _draw_bands(axes, counts, [[*side] for side in tops], len(ranks))
        for side, name in enumerate((one, other)):
            for level, size, top_edge in zip(levels, sizes[side], tops[side], strict=True):
                axes.bar(side, -size, 0.05, top_edge, color=INK)
                if size:
                    axes.text(side * 1.12 - 0.06, top_edge - size / 2, f"{level}: {size}",
                              ha="left" if side else "right", va="center")
            axes.text(side, gap, wrap_name(name, _NAME_WIDTH), ha="center", fontweight="bold")
        axes.set(xlim=(-0.35, 1.35))
        axes.axis("off")
        changes = Counter[int]()
        for (before, after), count in counts.items():
            changes[(after > before) - (after < before)] += count
        return {f"{name} {changes[sign]}": Patch(color=colour, alpha=0.5) for sign, name, colour
                in ((-1, "better", BETTER), (0, "same", SAME), (1, "worse", WORSE))}

    return Chart(
        Table(title, [one, other, "maskings"], [
            [levels[before], levels[after], count] for (before, after), count in counts.items()]),
        f"{title} of {len(ranks)} maskings; widths are numbers of maskings. Beyond: not among the "
        f"first {top}.", _HEIGHT, draw)


def _draw_bands(axes: Axes, counts: Mapping[tuple[int, int], int], tops: list[list[float]],
                maskings: int) -> None:
    """Draw a band for each pair of levels; on each side, order bands by the level on the other."""
    places = np.linspace(0, 1, 17)
    for (before, after), count in counts.items():
        start, end = tops[0][before], tops[1][after]
        tops[0][before] -= count
        tops[1][after] -= count
        upper = start + (end - start) * places**2 * (3 - 2 * places)
        axes.fill_between(places, upper, upper - count, alpha=0.5, linewidth=0,
                          color=SAME if before == after else BETTER if after < before else WORSE)
        if count >= _LABELLED * maskings:
            axes.text(0.05, start - count / 2, f"{count}", va="center")
