"""Tables and a bar chart of a comparison of vocabularies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bmtools.records import JsonMapping
from bmtools.statistics.table import gather_rows
from bmtools.study.reports.drawing import GROUP, INK, SERIES, bar_places, figure_file
from bmtools.study.reports.labels import printable

Table = tuple[str | None, list[str], list[list[str]], int]
"""Title, header, rows, and the number of leading columns that hold text."""

_SHOWN_TERMS = 3
_SHARES = (("Pieces per word", "pieces_per_word", ("vocab_size", "tokenizer_model", "casing")),
           ("Share of words kept whole", "whole_share", ()),
           ("Share of words unknown", "unknown_share", ()))
_COSTS = ("tokens", "tokens_per_1000_words", "relative_tokens", "corpus_tokens")
_PAIR_COLUMNS = {"shared": "shared", "jaccard": "Jaccard", "shared_share": "of the first",
                 "other_shared_share": "of the other", "shared_usage": "of the first's text",
                 "other_shared_usage": "of the other's text"}


def comparison_tables(lines: Sequence[JsonMapping]) -> Iterator[Table]:
    """Yield the tables of a comparison.

    Args:
        lines: as from `compare_vocab`.
    """
    scoped = [line for line in lines if "words" in line]
    scopes = list(dict.fromkeys(line["scope"] for line in scoped))
    # A type may hold a dot, which in a key reaches into objects; numbers do not.
    keys = {scope: str(number) for number, scope in enumerate(scopes)}
    for title, key, facts in _SHARES:
        if any(line[key] for line in scoped):
            rows = gather_rows(({**line, keys[line["scope"]]: line[key]} for line in scoped),
                               "vocabulary", (*facts, *keys.values()))
            yield title, ["vocabulary", *facts, *scopes], rows, 1
    costs = [line for line in scoped if line["scope"] == scopes[0]]
    columns = tuple(key for key in _COSTS if costs[0].get(key) is not None)
    yield (f"Tokens of {scopes[0]}", ["vocabulary", *(key.replace("_", " ") for key in columns)],
           gather_rows(costs, "vocabulary", columns), 1)
    # All types together are left out where each has rows of its own.
    together = {scope for scope in scopes if any(one.startswith(f"{scope}:") for one in scopes)}
    terms = [[line["scope"], line["vocabulary"], f"{one['term']}: {' '.join(one['pieces'])}",
              str(one["count"])]
             for line in scoped if line["scope"] not in together
             for one in line["costliest"][:_SHOWN_TERMS]]
    if terms:
        yield None, ["scope", "vocabulary", "broken up at most cost", "times"], terms, 3
    pairs = [[line["vocabulary"], line["other"], *(_cell(line[key]) for key in _PAIR_COLUMNS)]
             for line in lines if "other" in line]
    if pairs:
        yield "Tokens in common", ["vocabulary", "other", *_PAIR_COLUMNS.values()], pairs, 2


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


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
        axes, groups = figure.add_subplot(), list[Any]()
        for number, by_scope in enumerate(pieces_per_word.values()):
            heights = [by_scope.get(scope) for scope in scopes]
            bars = axes.bar(bar_places(len(scopes), number, count),
                            [height or 0 for height in heights], GROUP / count,
                            color=SERIES[number % len(SERIES)])
            axes.bar_label(bars, [f"{height:.2f}" if height else "" for height in heights],
                           fontsize="x-small", padding=2)
            groups.append(bars)
        axes.axhline(1, color=INK, linewidth=0.8, linestyle=":")
        axes.set_xticks(range(len(scopes)), [*map(printable, scopes)])
        axes.set_ylabel("pieces per word (1: all words whole)")
        figure.legend(groups, [*map(printable, pieces_per_word)], loc="outside lower center",
                      ncols=2, frameon=False)
