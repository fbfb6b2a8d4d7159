"""Pictures of how maskings rank under several models.

Source: Buonocore et al. 2023, table 6 and figure 3.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from bmtools.errors import DataError
from bmtools.io.atomic import new_directory
from bmtools.records import MASK
from bmtools.scoring.mrr_items import (
    Levels,
    MrrItem,
    Score,
    around,
    by_group,
    choose_item,
    flow,
    ordinal,
    overall,
    percent,
    rank_text,
    short_names,
    sort_by_agreement,
    visible,
)
from bmtools.scoring.mrr_page import PNG_DPI, Plot, write_page
from bmtools.vocab.plot import require_matplotlib as require_plotting

KINDS = ("svg", "png")

# Told apart by colour-blind eyes too (Okabe and Ito).
_BETTER, _WORSE, _SAME, _STRONG = "#009e73", "#d55e00", "#9a9a9a", "#0072b2"
_INK, _FAINT, _PALE, _MARKED = "#1f2328", "#6e7781", "#8c959f", "#cdeee2"
_MOST_LINES = 400
_CROWD = 40  # lines that take all the room a rank has
_MOST_DOMAINS = 40
# Words of an SVG stay words: to be searched, read aloud, and drawn by the reader's own fonts where
# a script needs others. Names are text, not formulas.
_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "bmtools", "text.parse_math": False,
    "font.family": ["sans-serif"], "font.sans-serif": ["DejaVu Sans"], "font.size": 9.0,
    "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _FAINT, "xtick.color": _INK,
    "ytick.color": _INK, "figure.facecolor": "white", "savefig.facecolor": "white",
    "figure.dpi": 100, "path.simplify": False}
_NOTHING_OF_NOW: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


@dataclass(frozen=True, slots=True)
class _Subject:
    """What all pictures are of."""

    maskings: Sequence[MrrItem]
    models: list[str]
    scores: list[Score]
    domains: Mapping[str, Sequence[Score | None]]
    top: int
    kind: str


@dataclass(slots=True)
class _Canvas:
    """A figure while it is drawn, and what to say where the pointer rests on a part."""

    figure: Any
    hovers: dict[str, str] = field(default_factory=dict)


def write_pictures(maskings: Sequence[MrrItem], models: Sequence[str],
                   lines: Sequence[Mapping[str, Any]], directory: Path, kind: str = "svg",
                   top: int = 5, sentence: str | None = None,
                   overwrite: bool = False) -> list[Path]:
    """Write pictures of ranks over models, and a page that holds them; the same input, same bytes.

    Args:
        maskings: each under all models; at least one.
        models: names or paths, in the order to draw.
        lines: scores as the command prints them; what they lack is left out or counted here.
        directory: to make; a part of a path that does not exist is made too.
        kind: svg or png. In png, letters that the drawing fonts lack show as boxes.
        top: last rank that counts.
        sentence: id of the masking whose proposals to show; None picks one.
        overwrite: replace a directory that holds something.

    Returns:
        the files: pictures, then the page.

    Raises:
        BmtoolsError: matplotlib is missing, the directory holds something, nothing was masked, or
            no masking has the id.
        ValueError: an unknown kind.
    """
    require_plotting()
    if kind not in KINDS:
        raise ValueError(f"--plot-format: found {kind}, expected {' or '.join(KINDS)}")
    if not maskings:
        raise DataError("--plot: found no masked words, expected at least one")
    shown = choose_item(maskings, sentence)
    subject = _Subject(maskings, short_names(models), overall(maskings, models, lines),
                       by_group(maskings, models, lines).get("domain", {}), top, kind)
    with new_directory(directory, overwrite) as partial, _drawing():
        pictures = list(_pictures(subject, shown))
        for picture in pictures:
            (partial / picture.file).write_bytes(picture.image)
        page = write_page(maskings, models, lines, pictures, shown, top)
        (partial / "index.html").write_text(page, encoding="utf-8", newline="\n")
    return [directory / name for name in [*(picture.file for picture in pictures), "index.html"]]


@contextmanager
def _drawing() -> Iterator[None]:
    from matplotlib import rc_context

    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .*missing from")
        yield


def _pictures(subject: _Subject, shown: MrrItem) -> Iterator[Plot]:
    yield _progression(subject)
    for after in range(1, len(subject.models)):
        yield _flow(subject, after - 1, after)
    yield _predictions(subject, shown)
    if subject.domains:
        yield _domains(subject)


def _finish(canvas: _Canvas, subject: _Subject, name: str, title: str, caption: str) -> Plot:
    stream = BytesIO()
    canvas.figure.savefig(stream, format=subject.kind, dpi=PNG_DPI if subject.kind == "png" else 72,
                          metadata=_NOTHING_OF_NOW[subject.kind])
    return Plot(name, subject.kind, title, caption, stream.getvalue(), canvas.hovers)


def _canvas(width: float, height: float) -> _Canvas:
    from matplotlib.figure import Figure

    return _Canvas(Figure(figsize=(width, height), layout="constrained"))


# Progression


def _progression(subject: _Subject) -> Plot:
    """Draw the mean over models, and single maskings faintly behind it (figure 3)."""
    models = len(subject.models)
    canvas = _canvas(max(6.0, 1.5 + 1.35 * models), 5.2)
    axes = canvas.figure.add_subplot()
    parts = sort_by_agreement(subject.maskings)
    later = [masking for masking in parts.steady if masking.reciprocal_ranks[0] < 1]
    moving = [*parts.changing, *later]
    drawn = moving[::-(-len(moving) // _MOST_LINES) or 1]
    _draw_words(canvas, axes, drawn, subject.top)
    _draw_means(axes, subject.scores)
    _dress_progression(axes, subject)
    first = len(parts.steady) - len(later)
    caption = (f"Mean over {len(subject.maskings)} maskings"
               f"{', with its interval' if any(score.interval for score in subject.scores) else ''}"
               f". Faint: {_how_many(len(drawn), len(moving))}, each a little aside so that lines "
               f"do not hide each other. Left out, as in Buonocore et al. 2023: {first} that all "
               f"models put first and {len(parts.never)} that none finds.")
    _say_below(canvas, caption)
    return _finish(canvas, subject, "progression", "Mean reciprocal rank over models", caption)


def _how_many(drawn: int, of: int) -> str:
    return f"{of} single maskings" if drawn == of else f"{drawn} of {of} single maskings, evenly " \
        "picked"


def _draw_words(canvas: _Canvas, axes: Any, maskings: Sequence[MrrItem], top: int) -> None:
    """Draw a line for each masking; the more lines, the fainter."""
    alpha = min(0.4, max(0.18, 40 / max(len(maskings), 1)))
    for number, (masking, heights) in enumerate(zip(maskings, _spread(maskings, top),
                                                    strict=True)):
        line, = axes.plot(heights, color=_PALE, linewidth=0.6, alpha=alpha, zorder=1,
                          marker="." if len(heights) == 1 else "", markersize=3)
        line.set_gid(f"word-{number + 1}")
        ways = ", ".join(map(rank_text, masking.ranks))
        canvas.hovers[f"word-{number + 1}"] = f"{visible(masking.target)}: {ways}"


def _spread(maskings: Sequence[MrrItem], top: int) -> list[list[float]]:
    """Give each masking its height under each model, those of one rank side by side."""
    order = sorted(range(len(maskings)), key=lambda number: maskings[number].reciprocal_ranks)
    heights: list[list[float]] = [[] for _ in maskings]
    for values in zip(*(maskings[number].reciprocal_ranks for number in order), strict=True):
        crowds, seen = Counter(values), Counter[float]()
        for number, value in zip(order, values, strict=True):
            seen[value] += 1
            aside = (seen[value] - 0.5) / crowds[value] - 0.5
            heights[number].append(
                value + aside * _room(value, top) * min(1, crowds[value] / _CROWD))
    return heights


def _room(value: float, top: int) -> float:
    """Give the height over which lines of one reciprocal rank may spread."""
    near = value - 1 / (round(1 / value) + 1) if value else 1 / top
    return min(0.12, 0.7 * near)


def _draw_means(axes: Any, scores: Sequence[Score]) -> None:
    heights = [score.mrr for score in scores]
    axes.plot(heights, color=_STRONG, linewidth=2.2, marker="o", markersize=7, zorder=3,
              gid="mean")
    for number, score in enumerate(scores):
        label = f"{score.mrr:.3f}"
        if score.interval is not None:
            axes.vlines(number, *score.interval, color=_STRONG, linewidth=2.2, zorder=3,
                        gid=f"interval-{number}")
            label += "\n[{:.3f}, {:.3f}]".format(*score.interval)
        upper = score.interval[1] if score.interval else score.mrr
        axes.annotate(label, (number, upper), (0, 9), textcoords="offset points", ha="center",
                      va="bottom", color=_STRONG, fontweight="bold", fontsize=8, zorder=4,
                      bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5})


def _dress_progression(axes: Any, subject: _Subject) -> None:
    axes.set_xticks(range(len(subject.models)), [_wrap(name, 18) for name in subject.models])
    axes.set_xlim(-0.6, len(subject.models) - 0.4)
    axes.set_ylim(-0.09, 1.16)
    ticks = _spaced([1 / rank for rank in range(1, subject.top + 1)] + [0])
    axes.set_yticks(ticks, [f"{ordinal(round(1 / tick))}: {tick:.2f}" if tick else "beyond: 0"
                            for tick in ticks])
    axes.set_ylabel("reciprocal rank")
    axes.grid(axis="y", linewidth=0.5, alpha=0.4)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _spaced(ticks: Sequence[float]) -> list[float]:
    """Keep ticks that leave room for each other's labels, the last in any case."""
    kept: list[float] = []
    for tick in ticks[:-1]:
        if (not kept or kept[-1] - tick > 0.035) and tick - ticks[-1] > 0.035:
            kept.append(tick)
    return [*kept, ticks[-1]]


# Flow


def _flow(subject: _Subject, before: int, after: int) -> Plot:
    """Draw how many maskings go from each rank to each other between two models."""
    levels = Levels(subject.top)
    counts = flow(subject.maskings, before, after, levels)
    canvas = _canvas(7.5, max(5.2, 0.75 * len(levels.names)))
    axes = canvas.figure.add_subplot()
    tops = [_stack(Counter({level: _side(counts, side, level)
                            for level in range(len(levels.names))}), len(levels.names))
            for side in (0, 1)]
    _draw_bands(canvas, axes, counts, tops, levels.names)
    for side, number in enumerate((before, after)):
        _draw_side(axes, side, [_side(counts, side, level) for level in range(len(levels.names))],
                   tops[side], levels.names)
        axes.annotate(_wrap(subject.models[number], 26), (side, 0), (0, 10), ha="center",
                      textcoords="offset points", va="bottom", fontweight="bold")
    _dress_flow(axes, counts)
    names = f"{subject.models[before]} to {subject.models[after]}"
    caption = (f"Ranks of {len(subject.maskings)} maskings, from {names}; widths are numbers of "
               f"maskings. Beyond: not among the first {subject.top}.")
    _say_below(canvas, caption)
    return _finish(canvas, subject, f"flow-{before + 1}-{after + 1}", f"Ranks from {names}",
                   caption)


def _side(counts: Mapping[tuple[int, int], int], side: int, level: int) -> int:
    return sum(count for ends, count in counts.items() if ends[side] == level)


def _stack(heights: Mapping[int, int], levels: int) -> list[float]:
    """Give the top of each level's block, downwards from 0, with gaps between blocks."""
    gap = 0.035 * sum(heights.values())
    return [-sum(heights[upper] for upper in range(level)) - gap * level
            for level in range(levels)]


def _draw_bands(canvas: _Canvas, axes: Any, counts: Mapping[tuple[int, int], int],
                tops: Sequence[Sequence[float]], names: Sequence[str]) -> None:
    """Draw a band for each pair of ranks; on either side bands lie in the order of the other."""
    total = sum(counts.values())
    used: Counter[tuple[int, int]] = Counter()
    for (source, goal), count in sorted(counts.items()):
        left = tops[0][source] - used[0, source]
        right = tops[1][goal] - used[1, goal]
        used[0, source] += count
        used[1, goal] += count
        colour = _SAME if source == goal else _BETTER if goal < source else _WORSE
        axes.add_patch(_band(left, right, count, colour, f"band-{source + 1}-{goal + 1}"))
        canvas.hovers[f"band-{source + 1}-{goal + 1}"] = (
            f"{names[source]} to {names[goal]}: {count}")
        if count >= 0.035 * total:
            axes.text(0.07, left - count / 2, f"{count}", va="center", fontsize=7.5)


def _band(left: float, right: float, height: float, colour: str, gid: str) -> Any:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    start, end = 0.05, 0.95
    points = [(start, left), (0.5, left), (0.5, right), (end, right),
              (end, right - height), (0.5, right - height), (0.5, left - height),
              (start, left - height), (start, left)]
    codes = [Curve.MOVETO, *[Curve.CURVE4] * 3, Curve.LINETO, *[Curve.CURVE4] * 3, Curve.CLOSEPOLY]
    return PathPatch(Curve(points, codes), facecolor=colour, alpha=0.5, linewidth=0, gid=gid)


def _draw_side(axes: Any, side: int, heights: Sequence[int], tops: Sequence[float],
               names: Sequence[str]) -> None:
    from matplotlib.patches import Rectangle

    for height, top, name in zip(heights, tops, names, strict=True):
        axes.add_patch(Rectangle((side * 0.955, top - height), 0.045, height, facecolor=_INK,
                                 linewidth=0, gid=f"rank-{side + 1}-{name}"))
        axes.text(side * 1.04 - 0.02, top - height / 2, f"{name}: {height}",
                  ha="left" if side else "right", va="center",
                  color=_INK if height else _FAINT)


def _dress_flow(axes: Any, counts: Mapping[tuple[int, int], int]) -> None:
    from matplotlib.patches import Patch

    changes: Counter[int] = Counter()
    for (source, goal), count in counts.items():
        changes[(goal > source) - (goal < source)] += count
    axes.set_xlim(-0.3, 1.3)
    axes.autoscale_view(scalex=False)
    axes.axis("off")
    axes.legend(handles=[Patch(facecolor=colour, alpha=0.5, label=f"{name} {changes[sign]}")
                         for sign, name, colour in ((-1, "better", _BETTER), (0, "same", _SAME),
                                                    (1, "worse", _WORSE))],
                loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=3, frameon=False)


# Predictions


def _predictions(subject: _Subject, shown: MrrItem) -> Plot:
    """Draw the best tokens of each model for one masking, and its rank (table 6)."""
    models = len(subject.models)
    width = max(6.0, 0.6 + 1.75 * models)
    column = min(2.4, (width - 0.6) / models)
    heads = [_wrap(name, 20) for name in subject.models]
    sentence = textwrap.wrap(visible(around(shown.text, MASK, 300)), int(width * 13))
    rows = min(subject.top, max(map(len, shown.proposals), default=0))
    head_rows = 0.3 + 0.75 * max(head.count("\n") + 1 for head in heads)
    above = 0.67 * len(sentence) + 1.6
    height = above + head_rows + rows + 2.4
    canvas = _canvas(width, 0.27 * height + 0.3)
    axes = canvas.figure.add_subplot()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    axes.text(0.05, 0, "\n".join(sentence), va="top", style="italic", linespacing=1.25)
    axes.text(0.05, above - 0.35, f"{MASK} = {_cut(visible(shown.target), 60)}", va="bottom",
              fontweight="bold")
    _draw_proposals(axes, subject, shown, _Grid(above, head_rows, rows, column), heads)
    caption = (f"The first {subject.top} proposals for the masking {visible(shown.name)}; the "
               "right word is marked.")
    _say_below(canvas, caption)
    return _finish(canvas, subject, "predictions", "Proposals for one masking", caption)


@dataclass(frozen=True, slots=True)
class _Grid:
    """Where the rows of the table of proposals stand, in lines of text from above."""

    above: float
    head: float
    rows: int
    column_inches: float

    def row(self, number: int) -> float:
        """Give the middle of a row."""
        return self.above + self.head + number + 0.5


def _draw_proposals(axes: Any, subject: _Subject, shown: MrrItem, grid: _Grid,
                    heads: Sequence[str]) -> None:
    right = 0.6 + grid.column_inches * len(heads)
    for edge in (grid.above, grid.above + grid.head, grid.row(grid.rows) - 0.5):
        axes.plot([0, right], [edge, edge], color=_FAINT, linewidth=0.8)
    for row in range(grid.rows):
        axes.text(0.05, grid.row(row), ordinal(row + 1), va="center", color=_FAINT)
    axes.text(0.05, grid.row(grid.rows), "1/rank", va="center", color=_FAINT)
    axes.text(0.05, grid.row(grid.rows + 1), "rank", va="center", color=_FAINT)
    for number, head in enumerate(heads):
        left = 0.6 + grid.column_inches * number
        axes.text(left, grid.above + grid.head - 0.25, head, va="bottom", fontweight="bold")
        _draw_column(axes, shown, number, grid, left)


def _draw_column(axes: Any, shown: MrrItem, model: int, grid: _Grid, left: float) -> None:
    from matplotlib.patches import Rectangle

    marked = shown.marked(model)
    for row, (token, probability) in enumerate(shown.proposals[model][:grid.rows]):
        weight = "bold" if row == marked else "normal"
        if row == marked:
            axes.add_patch(Rectangle((left - 0.06, grid.row(row) - 0.46),
                                     grid.column_inches - 0.08, 0.92, facecolor=_MARKED,
                                     linewidth=0, gid=f"marked-{model + 1}"))
        axes.text(left, grid.row(row), _cut(visible(token), int(9 * grid.column_inches)),
                  va="center", fontweight=weight)
        axes.text(left + grid.column_inches - 0.2, grid.row(row), percent(probability),
                  va="center", ha="right", fontweight=weight)
    for line, words in enumerate((f"{shown.reciprocal_ranks[model]:.2f}",
                                  rank_text(shown.ranks[model]))):
        axes.text(left, grid.row(grid.rows + line), words, va="center",
                  fontweight="normal" if line else "bold")


# Domains


def _domains(subject: _Subject) -> Plot:
    """Draw the mean reciprocal rank of each domain as bars, a bar for each model."""
    sizes = {domain: max((score.maskings or 0 for score in scores if score), default=0)
             for domain, scores in subject.domains.items()}
    order = sorted(subject.domains, key=lambda domain: -sizes[domain])[:_MOST_DOMAINS]
    models = len(subject.models)
    each = max(0.34, 0.11 * models + 0.12)
    canvas = _canvas(7.5, 1.4 + 0.2 * models + each * len(order))
    axes = canvas.figure.add_subplot()
    bars = [_draw_bars(axes, [subject.domains[domain][number] for domain in order], number, models)
            for number in range(models)]
    axes.set_yticks(range(len(order)), [f"{_cut(visible(domain), 32)} ({sizes[domain]})"
                                        if sizes[domain] else _cut(visible(domain), 32)
                                        for domain in order])
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlim(0, _limit(subject))
    axes.set_xlabel("mean reciprocal rank")
    axes.spines[["top", "right"]].set_visible(False)
    canvas.figure.legend(bars, [_cut(name, 70, keep_end=True) for name in subject.models],
                         loc="outside upper center", frameon=False)
    rest = len(subject.domains) - len(order)
    caption = "Mean reciprocal rank by domain; numbers of maskings in brackets." + (
        f" Drawn: the {len(order)} with the most maskings; {rest} more are in the table."
        if rest else "")
    _say_below(canvas, caption)
    return _finish(canvas, subject, "domains", "Mean reciprocal rank by domain", caption)


def _draw_bars(axes: Any, scores: Sequence[Score | None], number: int, of: int) -> Any:
    """Draw one model's bars, with their figures behind and their intervals where known."""
    from matplotlib import colormaps

    width = 0.8 / of
    places = [group + (number + 0.5) * width - 0.4 for group in range(len(scores))]
    colour = colormaps["viridis"](0.85 * number / max(of - 1, 1) if of > 1 else 0.35)
    bars = axes.barh(places, [score.mrr if score else 0 for score in scores], width * 0.9,
                     color=colour)
    for group, bar in enumerate(bars):
        bar.set_gid(f"bar-{number + 1}-{group + 1}")
    for spot, score in zip(places, scores, strict=True):
        if score is None:
            continue
        if score.interval is not None:
            axes.hlines(spot, *score.interval, color=_FAINT, linewidth=1)
        axes.annotate(f"{score.mrr:.2f}", (max(score.mrr, *score.interval or (0,)), spot), (3, 0),
                      textcoords="offset points", va="center", fontsize=6.5)
    return bars


def _limit(subject: _Subject) -> float:
    ends = [max(score.mrr, *score.interval or (0,)) for scores in subject.domains.values()
            for score in scores if score]
    return max(0.1, 1.12 * max(ends, default=0))


# Words


def _say_below(canvas: _Canvas, caption: str) -> None:
    width = int(canvas.figure.get_figwidth() * 15)
    canvas.figure.supxlabel(textwrap.fill(caption, width), fontsize=8, color=_FAINT, x=0.01,
                            ha="left", linespacing=1.3)


def _cut(text: str, most: int, keep_end: bool = False) -> str:
    if len(text) <= most:
        return text
    return "\N{HORIZONTAL ELLIPSIS}" + text[-most:] if keep_end else (
        text[:most - 1] + "\N{HORIZONTAL ELLIPSIS}")


def _wrap(name: str, most: int, lines: int = 4) -> str:
    """Break a name behind the signs that paths are built with; leave out the middle of long ones.

    Args:
        most: characters in a line.
    """
    rows = [""]
    for part in re.findall(r"[^/_.\- ]*[/_.\- ]|[^/_.\- ]+", name):
        for piece in textwrap.wrap(part, most, drop_whitespace=False):
            if len(rows[-1]) + len(piece) > most:
                rows.append("")
            rows[-1] += piece
    if len(rows) > lines:
        rows = [rows[0], "\N{HORIZONTAL ELLIPSIS}" + rows[1 - lines], *rows[2 - lines:]]
    return "\n".join(rows)
