"""Pictures and tables that commands make of their own lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bmtools.errors import DataError
from bmtools.study.reports.report import plot_lines, tables_of
from bmtools.tasks.metrics.errors import calibrate

CORPUS: dict[str, Any] = {
    "records": 10, "frequency_bands": {"1-9": 5, "10-99": 1200, "100+": 0},
    "words_per_record": {"median": 0}, "length_histogram": {"0": 6, "1": 3, "2": 0, "4": 1}}
VOCABULARIES = [{"vocabulary": name, "scope": scope, "pieces_per_word": pieces}
                for name, scope, pieces in (("BERT", "text", 1.36), ("BERT", "terms", 2.94),
                                            ("_own $30k$", "text", 1.03))]


def words(lines: list[dict[str, Any]], path: Path) -> list[str]:
    plot_lines(lines, path)
    return ["".join(node.itertext()).strip() for node in ElementTree.parse(path).iter()
            if node.tag.endswith("}text")]


def test_a_chart_for_each_count_with_several_values(tmp_path: Path) -> None:
    lines = [{**CORPUS, "corpus": "notes $x$", "languages": {"it": 10},
              "topics": {"none": 7, "Heart": 2, "Kidney": 1}},
             {**CORPUS, "corpus": "other", "years": {"1999": 4, "2001": 6, "unstated": 1},
              "sources": {f"source {number}": 50 - number for number in range(50)}}]
    found = words(lines, tmp_path / "plot.svg")
    assert {"notes $x$", "other", "Topics", "Years", "distinct words", "10-99"} <= {*found}
    assert "Languages" not in found and "source 34" in found and "source 35" not in found
    # Those with a name first, by their shares.
    places = [found.index(name) for name in ("Heart", "Kidney", "none")]
    assert places == sorted(places)
    tables = {table.title: table.rows for table in tables_of(lines)}
    assert tables["Frequency bands"] == [["1-9", 5, 5], ["10-99", 1200, 1200], ["100+", 0, 0]]
    assert tables["Languages"] == [["it", 10, None]]


def test_names_are_no_formulas(tmp_path: Path) -> None:
    found = words(VOCABULARIES, tmp_path / "p.svg")
    assert {"BERT", "_own $30k$", "text", "terms", "pieces per word"} <= {*found}


def test_reliability_of_scores(tmp_path: Path) -> None:
    line = {"task": "ner", "f1": 0.5, **calibrate([0.15, 0.95, 0.97], [False, True, True])}
    found = words([{**line, "model": "vote"}, {"model": "none", "task": "ner", "f1": 0.4},
                   {**line, "model": "other"}], tmp_path / "p.svg")
    assert {"vote, error 0.077", "other, error 0.077", "Reliability of scores (ner)"} <= {*found}


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="plot: found nothing to draw"):
        plot_lines([{"compared": ["a", "b"], "metric": "f1", "difference": 0.1}],
                   tmp_path / "plot.svg")
    assert not [*tmp_path.iterdir()]


def test_no_display_is_needed_or_touched(tmp_path: Path) -> None:
    code = ("import sys\nfrom pathlib import Path\n"
            "from bmtools.study.reports.report import plot_lines\n"
            "assert not {'matplotlib', 'torch'} & sys.modules.keys()\n"
            f"plot_lines({VOCABULARIES!r}, Path({str(tmp_path / 'p.png')!r}))\n"
            "assert 'matplotlib.pyplot' not in sys.modules\n")
    subprocess.run([sys.executable, "-c", code], check=True, env={"DISPLAY": ""})
