"""Tables of result lines: lines that share one, columns that fit, and layout."""

from __future__ import annotations

import re
import sys

import click
import pytest

from bmtools.cli import tables
from bmtools.cli.results import as_tables, report_printer
from bmtools.cli.step import CommandStep
from bmtools.cli.tables import fitting_columns, flattened, print_lines

SCORES = [
    {"model": "base", "pppl": 256.41, "interval": [245.7, 266.4], "sentences": 1090,
     "by": {"domain": {"heart": {"pppl": 12.0, "interval": [11.0, 13.0], "sentences": 7}}},
     "signature": "pppl:original|unit:token"},
    {"model": "bio", "pppl": 158.52, "interval": [128.1, 195.3], "sentences": 1090, "by": {},
     "signature": "pppl:original|unit:token"},
    {"compared": ["base", "bio"], "metric": "bits_per_character", "difference": 1.1868,
     "interval": [1.07, 1.29], "p": 0.000999, "sentences": 1090}]

LONG = {"model": "frequency of corpus.jsonl", "mrr": 0.153387, "interval": [0.10215, 0.205475],
        "hits_at_1": 0.101604, "hits_at_5": 0.262032, "hits_at_10": 0.374332, "maskings": 187,
        "mean_rank": 51.774566, "ranked": 173, "sentences": 56}


def make_terminal(monkeypatch: pytest.MonkeyPatch, width: int = 80) -> None:
    """Make stdout a terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(tables, "terminal_width", lambda *_: width)
    monkeypatch.setenv("COLUMNS", str(width))


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines on stdout without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


def test_values_are_joined_with_their_intervals() -> None:
    assert flattened({"mask_rate": 0.15, "mrr": 0.129, "interval": [0.079, 0.182], "empty": {},
                      "dev": {"f1": 0.5, "found": 12}, "types": {"A": 1}}) == {
        "mask_rate": "15.0%", "mrr": "0.129 [0.0790, 0.182]", "dev.f1": "50.0%",
        "dev.found": "12", "types": "A 1"}
    assert flattened({"f1": 0.5, "interval": [0.4, 0.6], "recall": 0.2, "precision": 0.1,
                      "intervals": {"recall": [0.1, 0.3]}}) == {
        "f1": "50.0% [40.0%, 60.0%]", "recall": "20.0% [10.0%, 30.0%]", "precision": "10.0%"}


@pytest.mark.parametrize(("width", "columns"), [
    (30, ["model", "pppl"]), (45, ["model", "pppl", "records"]),
    (200, ["model", "odd", "pppl", "records"])])
def test_important_columns_come_first(width: int, columns: list[str]) -> None:
    row = {"model": "base", "odd": "x" * 30, "pppl": "123 [110, 140]", "records": "1,090",
           "signature": "s"}
    assert fitting_columns([row], width)[:len(columns)] == columns
    assert "signature" not in fitting_columns([row], width)


def test_lines_of_a_kind_share_a_table(monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    make_terminal(monkeypatch)
    print_lines(SCORES)
    lines = shown(capsys)
    assert max(map(len, lines)) <= 80
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines if line]
    assert cells[0] == ["model", "pppl", "sentences"]
    assert cells[2:4] == [["base", "256 [246, 266]", "1,090"], ["bio", "159 [128, 195]", "1,090"]]
    assert ["base", "heart", "12.0 [11.0, 13.0]", "7"] in cells
    assert ["base - bio", "bits/char", "1.19 [1.07, 1.29]", "0.000999", "1,090"] in cells
    assert "--json shows more: signature" in lines


def test_a_single_line_is_printed_as_names_and_values(monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    make_terminal(monkeypatch)
    print_lines([{"tokenizer": "[bold]out", "vocab_size": 30000,
                  "sample": {"documents": 80, "bytes": 4096}, "vocabulary": "beef"}])
    assert [line.rstrip() for line in shown(capsys)] == [
        "tokenizer   [bold]out", "vocab size  30,000", "sample      documents 80, bytes 4,096",
        "vocabulary  beef"]


def test_a_pipe_gets_markdown_without_escape_codes(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    print_lines(SCORES[:2])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.splitlines()[0].startswith("| model | ") and "|---" in out.splitlines()[1]


@pytest.mark.parametrize("width", range(80, 132, 8))
def test_cells_are_not_truncated(monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str], width: int) -> None:
    make_terminal(monkeypatch, width)
    print_lines([LONG, {**LONG, "model": "model"}])
    heading, _, *rows = shown(capsys)
    names = re.split(r" {2,}", heading.strip())
    assert set(names) <= {name.replace("_", " ") for name in LONG}
    assert [len(re.split(r" {2,}", row.strip())) for row in rows[:2]] == [len(names)] * 2
    assert all(len(line) <= width for line in (heading, *rows))


def test_reports_of_a_run_are_names_and_values_that_fit(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make_terminal(monkeypatch)
    step = CommandStep(click.Context(click.Command("pretrain")))
    as_tables(step)
    report_printer(step)({"step": 1, "of": 2, "phase": "causal", "loss": 6.0, "seconds_left": 9.5,
                          "signature": "x" * 80})
    assert shown(capsys) == ["step 1  phase causal  loss 6.00  left 9.5 s"]


@pytest.mark.parametrize("is_tty", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_names_contain_no_terminal_or_direction_codes(monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str],
                                                      is_tty: bool, count: int) -> None:
    if is_tty:
        make_terminal(monkeypatch)
    line = {"model": "a\x1b]0;b\x07\u202ec\nd", "pppl\u202e": 1.5, "text": "عربي \u200fx"}
    print_lines([line] * count)
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "a\ufffd]0;b\ufffd\ufffdc d" in text and "pppl\ufffd" in text
    assert "عربي \u200fx" in text
    assert not set(text) & set("\x1b\x07\u202e")
