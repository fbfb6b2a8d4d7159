"""Bar chart of pieces per word by vocabulary and scope."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bmtools.reports.drawing import figure_file

_GROUP_WIDTH = 0.8  # of a group of bars; the rest is the gap to the next


def plot_pieces(pieces_per_word: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Draw pieces per word as bars, a group for each scope; needs no display.

    Args:
        pieces_per_word: by vocabulary, then by scope.
        path: file to write, in the format of its suffix.
    """
    scopes = list(dict.fromkeys(scope for by_scope in pieces_per_word.values()
                                for scope in by_scope))
    count = len(pieces_per_word)
    with figure_file(path, max(6.0, 1 + 0.45 * len(scopes) * (count + 1)), 4.5) as figure:
        axes = figure.add_subplot()
        width = _GROUP_WIDTH / count
        groups: list[Any] = []
        for number, by_scope in enumerate(pieces_per_word.values()):
            heights = [by_scope.get(scope) for scope in scopes]
            centres = [scope + (number + 0.5) * width - _GROUP_WIDTH / 2
                       for scope in range(len(scopes))]
            bars = axes.bar(centres, [height or 0 for height in heights], width)
            axes.bar_label(bars, [f"{height:.2f}" if height else "" for height in heights],
                           fontsize="x-small", padding=2)
            groups.append(bars)
        axes.axhline(1, color="black", linewidth=0.8, linestyle=":")
        axes.set_xticks(range(len(scopes)), scopes)
        axes.set_ylabel("pieces per word (1: all words whole)")
        figure.legend(groups, list(pieces_per_word), loc="outside lower center", ncols=2,
                      frameon=False)
