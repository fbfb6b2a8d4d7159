"""Ranks of masked words under several models: gathered, counted and drawn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bmtools.study.reports.charts import Chart, Table
from bmtools.study.reports.labels import DASH
from bmtools.study.reports.ranks import count_flow, gather, level_names, rank_parts
from bmtools.study.reports.report import plot_lines

MODELS = ["runs/start", "runs/middle", "runs/end"]
# Ranks under three models, and how many maskings have them.
RANKS: dict[tuple[int | None, ...], int] = {
    (1, 1, 1): 3, (None, None, None): 2, (8, 9, 70): 4, (8, 3, 1): 5, (2, 2, 2): 1, (1, 5, None): 2,
    (4, 2, 3): 1}
SCORES = [{"model": model, "mrr": mrr, "interval": [mrr - 0.1, mrr + 0.1], "maskings": 18,
           "by": {"domain": {"Cuore": {"mrr": mrr, "maskings": 4}}}}
          for model, mrr in zip(MODELS, (0.3, 0.4, 0.5), strict=True)]


def details(rows: Sequence[Sequence[int | None]], models: Sequence[str] = MODELS,
            ) -> list[dict[str, Any]]:
    return [{"model": model, "id": str(number), "target": "cuore", "rank": rank,
             "reciprocal_rank": 1 / rank if rank and rank <= 5 else 0.0,
             "proposals": ["<mask>\x07", "cuore"], "probabilities": [0.5, 0.25]}
            for number, ranks in enumerate(rows) for model, rank in zip(models, ranks, strict=True)]


LINES = details([ranks for ranks, count in RANKS.items() for _ in range(count)])


@pytest.fixture(scope="module")
def parts() -> dict[str, Chart | Table]:
    return {(part.table if isinstance(part, Chart) else part).title: part
            for part in rank_parts(LINES, SCORES) if not isinstance(part, str)}  # type: ignore


@pytest.mark.parametrize(("top", "names"), [
    (5, ["1", "2", "3", "4", "5", "beyond"]), (2, ["1", "2", "beyond"]), (1, ["1", "beyond"]),
    (12, ["1", "2", "3", "4", "5", "6-10", "11-12", "beyond"]),
    (11, ["1", "2", "3", "4", "5", "6-10", "11", "beyond"])])
def test_levels_cover_the_ranks(top: int, names: list[str]) -> None:
    def level(rank: int | None) -> int:
        [(found, _)] = count_flow([(rank, rank)], top)
        return found

    labels = level_names(top)
    assert [name.replace(DASH, "-") for name in labels] == names
    for rank in range(1, top + 1):
        low, _, high = labels[level(rank)].partition(DASH)
        assert int(low) <= rank <= int(high or low)
    assert {level(rank) for rank in (None, top + 1, 10**6)} == {len(names) - 1}


def test_the_flow_counts_each_masking_once() -> None:
    rng = random.Random(3)
    pairs = [(one, other) for one, other in (
        rng.choices([1, 2, 3, 4, 5, 6, 70, None], k=2) for _ in range(200))]

    def capped(rank: int | None) -> int:
        return rank - 1 if rank is not None and rank < 6 else 5

    counts = count_flow(pairs, 5)
    assert counts == Counter((capped(one), capped(other)) for one, other in pairs)
    assert sum(counts.values()) == 200


@pytest.mark.parametrize("before", [0, 1])
def test_bands_are_as_wide_as_there_are_maskings(parts: dict[str, Chart], before: int) -> None:
    from matplotlib.figure import Figure

    one, other = (model.partition("/")[2] for model in MODELS[before:before + 2])
    chart = parts[f"Ranks from {one} to {other}"]
    axes = Figure().add_subplot()
    named = chart.draw(axes)
    widths = [np.ptp(path.vertices[np.isclose(path.vertices[:, 0], side)][:, 1])
              for band in axes.collections for path in band.get_paths() for side in (0, 1)]
    counted: Counter[tuple[int, int]] = Counter()
    for ranks, count in RANKS.items():
        levels = [rank if rank and rank <= 5 else 6 for rank in ranks[before:before + 2]]
        counted[levels[0], levels[1]] += count
    assert widths == pytest.approx(np.repeat([counted[key] for key in sorted(counted)], 2))
    assert [row[2] for row in chart.table.rows] == [counted[key] for key in sorted(counted)]
    assert [*named] == (["better 6", "same 10", "worse 2"] if before == 0
                        else ["better 5", "same 10", "worse 3"])
    texts = {text.get_text() for text in axes.texts}
    assert {"1: 5", "beyond: 11", "4: 1", "3: 5", "5: 2"} <= texts or before


def test_the_mean_is_that_of_scores_or_else_of_maskings(parts: dict[str, Chart]) -> None:
    chart = parts["Mean reciprocal rank over models"]
    assert chart.table.rows == [["start", 0.3, pytest.approx(0.2), pytest.approx(0.4)],
                                ["middle", 0.4, pytest.approx(0.3), pytest.approx(0.5)],
                                ["end", 0.5, pytest.approx(0.4), pytest.approx(0.6)]]
    unscored, *_ = rank_parts(LINES, [])
    assert isinstance(unscored, Chart)
    for row, model in zip(unscored.table.rows, range(3), strict=True):
        assert row[1] == pytest.approx(sum(
            count / ranks[model] for ranks, count in RANKS.items()
            if (ranks[model] or 9) <= 5) / 18)  # type: ignore[operator]


def test_changing_words_and_proposals_are_listed(parts: dict[str, Table]) -> None:
    changing = parts["Maskings whose rank changes, the greatest gains first"]
    assert [row[:4] for row in changing.rows] == [
        *[["cuore", 8, 3, 1]] * 5, ["cuore", 4, 2, 3], *[["cuore", 1, 5, DASH]] * 2]
    [shown] = [table for title, table in parts.items() if title.startswith("Proposals")]
    assert shown.rows == [["1", *["<mask>\x07 50.0%"] * 3], ["2", *["cuore 25.0%"] * 3],
                          ["rank", 8, 3, 1], ["reciprocal rank", 0.0, 1 / 3, 1.0]]


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".html"])
def test_each_format_is_written_and_repeats(tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for path in paths:
        plot_lines([*SCORES, *LINES], path)
    content, again = (path.read_bytes().replace(b"two", b"one") for path in paths)
    assert content == again
    assert content.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF",
                               ".html": b"<!DOCTYPE html>"}[suffix])
    if suffix == ".html":
        assert b"&lt;mask&gt;" in content and b"\x07" not in content
        assert "Mean reciprocal rank by domain" in content.decode()


def test_maskings_of_one_id_and_word_stay_apart() -> None:
    lines = [*details([(1, 2, 3)]), *details([(4, 5, None)]), *details([(1,)], MODELS[:1])]
    models, found = gather(lines)
    assert models == MODELS
    assert [[line["rank"] for line in row] for row in found] == [[1, 2, 3], [4, 5, None]]
