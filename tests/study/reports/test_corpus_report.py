"""Plots of descriptions: what is drawn, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bmtools.study.reports.corpus_report import plot_corpora

LINE: dict[str, Any] = {
    "records": 10, "frequency_bands": {"1-9": 5, "10-99": 1200, "100+": 0},
    "words_per_record": {"median": 0}, "length_histogram": {"0": 6, "1": 3, "2": 0, "4": 1}}


def svg(path: Path, *lines: dict[str, Any]) -> str:
    plot_corpora(lines, path)
    return path.read_text()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plot.svg"


def test_a_panel_for_each_count_with_several_values(path: Path) -> None:
    content = svg(path, {**LINE, "corpus": "notes $x$", "languages": {"it": 10},
                         "topics": {"none": 7, "Heart": 2, "Kidney": 1}},
                  {**LINE, "corpus": "other", "years": {"1999": 4, "2001": 6, "unstated": 1}},
                  {"corpus": "a", "other": "b", "bands": {}})
    for part in ("notes $x$ (10 records)", "other (10 records)", "Topics", "Heart", "Years",
                 "1,200", "Words in a record (dotted: median)", "10-99", "1,000"):
        assert f">{part}<" in content, part
    assert "Languages" not in content
    # Those with a name first, by their shares.
    places = [content.index(f">{name}<") for name in ("Heart", "Kidney", "none")]
    assert places == sorted(places)


def test_one_corpus_gives_the_same_bytes(path: Path) -> None:
    line = {**LINE, "corpus": "notes", "sources": {f"source {n}": 50 - n for n in range(50)}}
    content = svg(path, line)
    assert ">source 34<" in content and ">source 35<" not in content
    assert svg(path, line) == content
