"""`bmtools table` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
LINES = ({"model": "base", "pppl": 12.3456, "tokens": 70},
         {"rows": 8},
         {"model": "small", "pppl": 23456.7, "tokens": 70},
         {"model": "base", "test_f1": {"mean": 0.81239, "deviation": 0.01}})


@pytest.fixture
def scores(write_lines: Callable[..., Path]) -> Path:
    return write_lines("scores.jsonl", *LINES)


def cells(out: str) -> list[list[str]]:
    """Parse the table: one row for the header and one for each name."""
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in out.splitlines() if line.startswith("| ")]


def test_lines_with_one_name_share_a_row(run: Run, scores: Path) -> None:
    outcome = run("table", scores, "--columns", "pppl, tokens,test_f1.mean", "--title", "Scores")
    assert (outcome.code, outcome.err) == (0, "")
    assert "Scores" in outcome.out.splitlines()[0]
    assert cells(outcome.out) == [["model", "pppl", "tokens", "test_f1.mean"],
                                  ["base", "12.35", "70", "0.812"],
                                  ["small", "23,457", "70", ""]]


def test_a_csv_file_has_the_command_that_imports_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("model,f1\na,0.5\n")
    outcome = run("table", tmp_path / "scores.csv")
    assert (outcome.code, outcome.err) == (1, (
        f"bmtools: {tmp_path}/scores.csv:1: found a table of 2 columns (model, f1); type bmtools "
        f"import table {tmp_path}/scores.csv --columns text=COLUMN\n"))


def test_bars_are_proportional_to_the_numbers(run: Run, write_lines: Run) -> None:
    path = write_lines("scores.jsonl", {"model": "a", "f1": 0.4}, {"model": "b", "f1": 0.8},
                       {"model": "c", "f1": 0}, {"model": "d", "loss": 2}, {"model": "a", "n": 1})
    outcome = run("table", path, "--bars", "f1")
    assert outcome.code == 0
    assert cells(outcome.out) == [["model", "f1", ""], ["a", "0.400", "█" * 10],
                                  ["b", "0.800", "█" * 20], ["c", "0", ""], ["d", "", ""]]
    outcome = run("table", path, "--bars", "F1")
    assert (outcome.code, outcome.out) == (1, "") and "'F1'" in outcome.err


def test_names_with_dots_are_columns(run: Run, write_lines: Run) -> None:
    averages = {"Mean (Seq. Lab.)": 60.5, "Mean (all)": {"v. 1.5": 55}}
    path = write_lines("suite.jsonl", {"model": "base", "averages": averages})
    header = ["model", "averages.Mean (Seq. Lab.)", "averages.Mean (all).v. 1.5"]
    assert cells(run("table", path).out) == [header, ["base", "60.5", "55"]]
    assert cells(run("table", path, "--columns", header[1]).out) == [header[:2], ["base", "60.5"]]


def test_cells_are_not_truncated_or_read_as_markup(run: Run, write_lines: Run) -> None:
    names = ["runs/" + 40 * "long/", "[bold]b[/bold]", "[/none]", ":smile:", "[MASK]"]
    keys = [f"score_number_{n}" for n in range(12)]
    path = write_lines("s.jsonl", *({"model": name, **dict.fromkeys(keys, "x [i]")}
                                    for name in names))
    outcome = run("table", path, "--columns", ",".join(keys), "--title", "[none] of [/all]")
    assert outcome.code == 0, outcome.err
    assert "[none] of [/all]" in outcome.out
    assert cells(outcome.out) == [["model", *keys], *([name] + ["x [i]"] * 12 for name in names)]


def test_empty_input_is_a_one_line_error(run: Run, write_lines: Run) -> None:
    path = write_lines("none.jsonl")
    outcome = run("table", path, "--columns", "pppl")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"bmtools: {path}: found no lines, expected at least one\n"
    outcome = run("table", write_lines("words.jsonl", {"model": "base"}))
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "bmtools: no line has 'model' and a number; choose another key with --key\n")


def test_a_mistyped_column_gets_a_suggestion(run: Run, write_lines: Run) -> None:
    scores = write_lines("scores.jsonl", {"model": "base", "test_f1": {"mean": 0.5}})
    for column, meant in (("test_f1.maen", "test_f1.mean"), ("test-f1", "test_f1")):
        assert run("table", scores, "--columns", column).err == (
            f"bmtools: no line has both 'model' and {column!r}; did you mean {meant!r}?\n")
