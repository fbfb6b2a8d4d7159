"""Tables and plots of the description of corpora.

Source: Pavlova and Makhlouf 2023 (BIOptimus), figure 1: words by frequency; Buonocore et al. 2023
(BioBIT), figure 2: topics of test sentences against a corpus.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.records import JsonMapping
from bmtools.study.corpora.settings import NO_TOPIC, OTHERS, UNSTATED
from bmtools.study.reports.drawing import SERIES, bar_places, figure_file, panels
from bmtools.study.reports.labels import printable, truncate, words_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Table = tuple[str, list[str], list[list[str]]]
"""Title, header and rows, whose first column is text."""
_MOST_ROWS = 15
_SIZES = ("records", "documents", "megabytes", "words", "distinct_words")
_LENGTHS = ("median", "p95", "max")
_NOT_COUNTED = {"length_histogram", "words_per_record", "tokens", "label_bias"}
"""Keys of objects that do not count records or annotations by value."""
_Panel = tuple[float, Callable[["Axes", Sequence[JsonMapping]], None]]
"""A part of the figure: its height in inches, and the function that draws corpora there."""
_PANEL_COLUMNS = 2
_PANEL_WIDTH, _BAR_INCHES, _LEAST_HEIGHT = 6.2, 0.24, 3.2
_MOST_BARS, _LEAST_BARS = 35, 7
_LABEL_WIDTH = 28
_GROUP = 0.82  # of the room between two groups of bars


def corpus_tables(lines: Sequence[JsonMapping]) -> Iterator[Table]:
    """Yield the tables of a description: sizes, tokens, then a table for each kind of count.

    Args:
        lines: as from `describe`.
    """
    corpora = [line for line in lines if "records" in line]
    yield ("Corpora", ["corpus", *map(words_of, _SIZES), *(f"{key} words" for key in _LENGTHS)],
           [[line["corpus"], *(_cell(line[key]) for key in _SIZES),
             *(_cell(line["words_per_record"][key]) for key in _LENGTHS)] for line in corpora])
    tokens = [[line["corpus"], name, *(_cell(found[key]) for key in (
        "tokens", "tokens_per_word", "unknown_share")),
        *(_cell(found["tokens_per_record"][key]) for key in _LENGTHS)]
        for line in corpora for name, found in line.get("tokens", {}).items()]
    if tokens:
        yield ("Tokens", ["corpus", "vocabulary", "tokens", "per word", "unknown",
                          *(f"{key} a record" for key in _LENGTHS)], tokens)
    for key in _counted_keys(corpora):
        yield _counts(key, {line["corpus"]: line[key] for line in corpora if key in line})
    for line in lines:
        if "other" in line:
            one, other = line["corpus"], line["other"]
            yield (f"Words of {one} and {other}: {line['shared_words']:,} in both",
                   ["times", one, f"of them in {other}", other, f"of them in {one}"],
                   [[name, *(_cell(band[key]) for key in ("words", "shared", "other_words",
                                                          "other_shared"))]
                    for name, band in line["bands"].items()])


def _counted_keys(corpora: Sequence[JsonMapping]) -> list[str]:
    """List the keys of counts by value, in order."""
    return list(dict.fromkeys(key for line in corpora for key, value in line.items()
                              if isinstance(value, Mapping) and key not in _NOT_COUNTED))


def _counts(key: str, by_corpus: Mapping[str, Mapping[str, int]]) -> Table:
    values = list(dict.fromkeys(value for counts in by_corpus.values() for value in counts))
    if key == "years":
        values.sort(key=lambda year: (year.isdecimal(), year), reverse=True)
    rows = [[printable(value), *(_cell(counts.get(value, 0)) for counts in by_corpus.values())]
            for value in values[:_MOST_ROWS]]
    rows += [["...", *[""] * len(by_corpus)]] * (len(values) > _MOST_ROWS)
    return _heading(key).capitalize(), [_heading(key), *by_corpus], rows


def _heading(key: str) -> str:
    """Return the words for a key: `meta.journal` is "journal"."""
    return words_of(key.rpartition(".")[2])


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def plot_corpora(lines: Sequence[JsonMapping], path: Path) -> None:
    """Draw a panel for each kind of count that has several values.

    Args:
        lines: as from `describe`.
        path: file to write, in the format of its suffix.
    """
    from matplotlib.patches import Patch

    corpora = [line for line in lines if "records" in line]
    parts: list[_Panel] = [(_LEAST_HEIGHT, draw) for draw in (_draw_lengths, _draw_bands)]
    parts += sorted((_panel(key, corpora) for key in _counted_keys(corpora)
                     if key != "frequency_bands" and len(_values(key, corpora)) > 1),
                    key=itemgetter(0))
    heights = [max(height for height, _ in parts[start:start + _PANEL_COLUMNS])
               for start in range(0, len(parts), _PANEL_COLUMNS)]
    with figure_file(path, _PANEL_WIDTH * _PANEL_COLUMNS, sum(heights) + 0.5) as figure:
        for axes, (_, draw) in zip(panels(figure, len(parts), _PANEL_COLUMNS, heights), parts,
                                   strict=True):
            draw(axes, corpora)
            axes.spines[["top", "right"]].set_visible(False)
        figure.legend([Patch(color=_colour(number)) for number in range(len(corpora))],
                      [f"{printable(line['corpus'])} ({line['records']:,} records)"
                       for line in corpora],
                      loc="outside upper center", ncols=min(4, len(corpora)), frameon=False)


def _panel(key: str, corpora: Sequence[JsonMapping]) -> _Panel:
    if key == "years":
        return _LEAST_HEIGHT, _draw_years
    bars = len(_values(key, corpora)) * max(1, 0.7 * len(corpora))
    return max(_LEAST_HEIGHT, 0.9 + _BAR_INCHES * bars), partial(_draw_shares, key)


def _colour(number: int) -> str:
    return SERIES[number % len(SERIES)]


def _draw_lengths(axes: Axes, corpora: Sequence[JsonMapping]) -> None:
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


def _draw_bands(axes: Axes, corpora: Sequence[JsonMapping]) -> None:
    """Draw the distinct words of each band, as figure 1 of BIOptimus shows them."""
    for number, line in enumerate(corpora):
        bands = line["frequency_bands"]
        bars = axes.bar(bar_places(len(bands), number, len(corpora), _GROUP),
                        list(bands.values()), _GROUP / len(corpora), color=_colour(number))
        axes.bar_label(bars, [f"{count:,}" for count in bands.values()], fontsize="x-small",
                       padding=2, rotation=90 if len(corpora) > 3 else 0)
    names = list(corpora[0]["frequency_bands"])
    axes.set_xticks(range(len(names)), names)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.margins(y=0.15)
    axes.set(title="Distinct words by frequency", xlabel="times in the corpus",
             ylabel="distinct words")


def _draw_years(axes: Axes, corpora: Sequence[JsonMapping]) -> None:
    from matplotlib.ticker import MaxNLocator

    for number, line in enumerate(corpora):
        years = {int(year): share for year, share in _shares(line, "years").items()
                 if year.isdecimal()}
        axes.plot(list(years), list(years.values()), color=_colour(number), marker=".",
                  linewidth=1.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0)
    axes.set(title="Years", ylabel="percent")


def _values(key: str, corpora: Sequence[JsonMapping]) -> list[str]:
    """Choose the values to draw, those with the highest shares first and the rest last."""
    shares: dict[str, float] = {}
    for line in corpora:
        for value, share in _shares(line, key).items():
            shares[value] = shares.get(value, 0.0) + share
    return sorted(shares, key=lambda value: (value in (OTHERS, UNSTATED, NO_TOPIC),
                                             -shares[value]))[:_MOST_BARS]


def _shares(line: JsonMapping, key: str) -> dict[str, float]:
    counts = line.get(key, {})
    return {value: 100 * count / sum(counts.values()) for value, count in counts.items()}


def _draw_shares(key: str, axes: Axes, corpora: Sequence[JsonMapping]) -> None:
    """Draw the share of each value in each corpus as bars next to each other."""
    values = _values(key, corpora)
    for number, line in enumerate(corpora):
        shares = _shares(line, key)
        axes.barh(bar_places(len(values), number, len(corpora), _GROUP),
                  [shares.get(value, 0) for value in values], _GROUP / len(corpora),
                  color=_colour(number))
    axes.set_yticks(range(len(values)), [truncate(printable(value), _LABEL_WIDTH)
                                         for value in values], fontsize="small")
    axes.set_ylim(max(len(values), _LEAST_BARS) - 0.5, -0.5)
    axes.set(title=_heading(key).capitalize(), xlabel="percent")
