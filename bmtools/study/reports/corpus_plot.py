"""Plots of the description of corpora: lengths, frequencies of words, topics, years and origins.

Source: Pavlova and Makhlouf 2023 (BIOptimus), figure 1: words by frequency; Buonocore et al. 2023
(BioBIT), figure 2: topics of test sentences against a corpus.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bmtools.study.describe.statistics import NO_TOPIC, OTHERS, UNSTATED
from bmtools.study.reports.corpus_report import counted_keys, heading
from bmtools.study.reports.drawing import SERIES, figure_file
from bmtools.study.reports.labels import printable, truncate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = Mapping[str, Any]
_Panel = tuple[float, Callable[["Axes", Sequence[Line]], None]]
"""A part of the figure: its height in inches, and what draws corpora there."""
_COLUMNS = 2
_PANEL_WIDTH, _BAR_INCHES, _LEAST_HEIGHT = 6.2, 0.24, 3.2
_MOST_BARS = 35
_LABEL_WIDTH = 28
_LEAST_BARS = 7
_LAST = (OTHERS, UNSTATED, NO_TOPIC)
_GROUP = 0.82  # of the room between two groups of bars


def plot_corpora(lines: Sequence[Line], path: Path) -> None:
    """Draw a panel for each kind of count of which there are several values.

    Args:
        lines: as from `describe`.
        path: file to write, in the format of its suffix.
    """
    from matplotlib.patches import Patch

    corpora = [line for line in lines if "records" in line]
    panels: list[_Panel] = [(_LEAST_HEIGHT, draw) for draw in (_draw_lengths, _draw_bands)]
    panels += sorted((_panel(key, corpora) for key in counted_keys(corpora)
                      if key != "frequency_bands" and len(_values(key, corpora)) > 1),
                     key=itemgetter(0))
    rows = [panels[start:start + _COLUMNS] for start in range(0, len(panels), _COLUMNS)]
    heights = [max(height for height, _ in row) for row in rows]
    with figure_file(path, _PANEL_WIDTH * _COLUMNS, sum(heights) + 0.5) as figure:
        cells = list(figure.subplots(len(rows), _COLUMNS, squeeze=False,
                                     gridspec_kw={"height_ratios": heights}).flat)
        for axes, (_, draw) in zip(cells, panels, strict=False):
            draw(axes, corpora)
            axes.spines[["top", "right"]].set_visible(False)
        for axes in cells[len(panels):]:
            axes.set_axis_off()
        figure.legend([Patch(color=_colour(number)) for number in range(len(corpora))],
                      [f"{printable(line['corpus'])} ({line['records']:,} records)"
                       for line in corpora],
                      loc="outside upper center", ncols=min(4, len(corpora)), frameon=False)


def _panel(key: str, corpora: Sequence[Line]) -> _Panel:
    if key == "years":
        return _LEAST_HEIGHT, _draw_years
    bars = len(_values(key, corpora)) * max(1, 0.7 * len(corpora))
    return max(_LEAST_HEIGHT, 0.9 + _BAR_INCHES * bars), partial(_draw_shares, key)


def _colour(number: int) -> str:
    return SERIES[number % len(SERIES)]


def _draw_lengths(axes: Axes, corpora: Sequence[Line]) -> None:
    """Draw the share of records between powers of 2 of words."""
    for number, line in enumerate(corpora):
        counts = {int(low): count for low, count in line["length_histogram"].items()}
        edges = [*counts, max(1, 2 * max(counts))]
        axes.stairs([count / line["records"] for count in counts.values()],
                    [math.log2(edge) if edge else -1 for edge in edges],
                    color=_colour(number), linewidth=1.8)
        median = line["words_per_record"]["median"]
        axes.axvline(math.log2(median) if median else -1, color=_colour(number), linewidth=1,
                     linestyle=":")
    low, high = axes.get_xlim()
    ticks = range(math.floor(low), math.ceil(high) + 1)
    axes.set_xticks(ticks, [f"{1 << tick:,}" if tick >= 0 else "0" for tick in ticks],
                    fontsize="x-small", rotation=45)
    axes.set_ylim(0)
    axes.set(title="Words in a record (dotted: median)", ylabel="share of records")


def _draw_bands(axes: Axes, corpora: Sequence[Line]) -> None:
    """Draw the distinct words of each band, as figure 1 of BIOptimus has them."""
    width = _GROUP / len(corpora)
    for number, line in enumerate(corpora):
        bands = line["frequency_bands"]
        centres = [band + (number + 0.5) * width - _GROUP / 2 for band in range(len(bands))]
        bars = axes.bar(centres, list(bands.values()), width, color=_colour(number))
        axes.bar_label(bars, [f"{count:,}" for count in bands.values()], fontsize="x-small",
                       padding=2, rotation=90 if len(corpora) > 3 else 0)
    names = list(corpora[0]["frequency_bands"])
    axes.set_xticks(range(len(names)), names)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.margins(y=0.15)
    axes.set(title="Distinct words by frequency", xlabel="times in the corpus",
             ylabel="distinct words")


def _draw_years(axes: Axes, corpora: Sequence[Line]) -> None:
    from matplotlib.ticker import MaxNLocator

    for number, line in enumerate(corpora):
        years = {int(year): share for year, share in _shares(line, "years").items()
                 if year.isdecimal()}
        axes.plot(list(years), list(years.values()), color=_colour(number), marker=".",
                  linewidth=1.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0)
    axes.set(title="Years", ylabel="percent")


def _values(key: str, corpora: Sequence[Line]) -> list[str]:
    """Choose the values to draw, those with the highest shares first and the rest last."""
    shares: dict[str, float] = {}
    for line in corpora:
        for value, share in _shares(line, key).items():
            shares[value] = shares.get(value, 0.0) + share
    return sorted(shares, key=lambda value: (value in _LAST, -shares[value]))[:_MOST_BARS]


def _shares(line: Line, key: str) -> dict[str, float]:
    counts = line.get(key, {})
    return {value: 100 * count / sum(counts.values()) for value, count in counts.items()}


def _draw_shares(key: str, axes: Axes, corpora: Sequence[Line]) -> None:
    """Draw the share of each value in each corpus as bars beside each other."""
    height, values = _GROUP / len(corpora), _values(key, corpora)
    for number, line in enumerate(corpora):
        shares = _shares(line, key)
        places = [place + (number + 0.5) * height - _GROUP / 2 for place in range(len(values))]
        axes.barh(places, [shares.get(value, 0) for value in values], height,
                  color=_colour(number))
    axes.set_yticks(range(len(values)), [truncate(printable(value), _LABEL_WIDTH)
                                         for value in values], fontsize="small")
    axes.set_ylim(max(len(values), _LEAST_BARS) - 0.5, -0.5)
    axes.set(title=heading(key).capitalize(), xlabel="percent")
