"""`bmtools clean` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
LINE = "Questo foglio illustrativo è stato approvato."


def test_rules_are_counted_and_dropped_records_have_a_reason(run: Run,
                                                             write_lines: Callable[..., Path],
                                                             tmp_path: Path) -> None:
    corpus = write_lines("c.jsonl", {"id": "a", "text": "Il  cuore\r\npompa (ABSTRACT TRUNCATED)"},
                         {"id": "b", "text": "Il cuore", "meta": {"year": 2001}},
                         {"id": "c", "text": "Scrivere a a.b@example.org  ora"})
    outcome = run("clean", corpus, "--min-words", 3, "--personal-data", "mask", "--dropped",
                  tmp_path / "d.jsonl")
    assert outcome.records == [{"id": "a", "text": "Il cuore\npompa"},
                               {"id": "c", "text": "Scrivere a [EMAIL] ora"}]
    assert "bmtools: 2 of 3 records; dropped: min-words 1; changed: " \
        "line-ends 1 (places 1), truncation-marks 1 (places 1), white-space 2 (places 2); " \
        "found: email 1 (places 1) in " \
        in outcome.err
    assert json.loads((tmp_path / "d.jsonl").read_text()) == {
        "id": "b", "text": "Il cuore",
        "meta": {"year": 2001, "dropped": {"rule": "min-words", "found": 2}}}


@pytest.mark.parametrize(("pattern", "message"), [
    ("(a", "own:1: found '(a' (missing ), unterminated subpattern at position 0), expected a"),
    ("[[a]", "own:1: found '[[a]' (Possible nested set at position 1), expected a"),
    ("a*", "own:1: found 'a*', which matches the empty text; write")])
def test_wrong_patterns(run: Run, corpus: Path, tmp_path: Path, pattern: str,
                        message: str) -> None:
    (tmp_path / "own").write_text(pattern)
    outcome = run("clean", corpus, "--remove", tmp_path / "own")
    assert (outcome.code, outcome.out) == (1, "")
    assert message in outcome.err


@pytest.mark.data
def test_real_licences(run: Run, data: Path, tmp_path: Path) -> None:
    outcome = run("clean", data / "en/corpus/pubmed-case-reports.jsonl.gz", "--licences",
                  "commercial", "--repairs", "none", "-o", tmp_path / "kept.jsonl")
    assert "4,526 of 5,500 records" in outcome.err
