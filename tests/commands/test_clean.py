"""`bmtools clean` as people call it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.installation import install_command

Run = Callable[..., Any]
LINE = "Questo foglio illustrativo è stato approvato."


def test_rules_are_counted_and_what_is_left_out_keeps_its_reason(
        run: Run, write_lines: Callable[..., Path], tmp_path: Path) -> None:
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


def test_rules_come_from_a_toml_file(run: Run, write_lines: Callable[..., Path],
                                     tmp_path: Path) -> None:
    corpus = write_lines("c.jsonl", {"id": "a", "text": "Pag. 3\nIl  cuore"},
                         {"id": "b", "text": "Il"})
    (tmp_path / "own").write_text("^Pag\\. \\d+$\n")
    (tmp_path / "rules.toml").write_text(
        f'[clean]\nmin-words = 2\nrepairs = "white-space"\nremove = "{tmp_path}/own"\n')
    outcome = run("clean", corpus, "--config", tmp_path / "rules.toml")
    assert outcome.records == [{"id": "a", "text": "Il cuore"}]
    assert "dropped: min-words 1; changed: remove 1" in outcome.err


@pytest.mark.parametrize(("pattern", "message"), [
    ("(a", "own:1: found '(a' (missing ), unterminated subpattern at position 0), expected a"),
    ("[[a]", "own:1: found '[[a]' (Possible nested set at position 1), expected a"),
    ("a*", "own:1: found 'a*', which matches an empty text, expected")])
def test_wrong_patterns(run: Run, corpus: Path, tmp_path: Path, pattern: str,
                        message: str) -> None:
    (tmp_path / "own").write_text(pattern)
    outcome = run("clean", corpus, "--remove", tmp_path / "own")
    assert (outcome.code, outcome.out) == (1, "")
    assert message in outcome.err


@pytest.mark.parametrize(("arguments", "package", "needed_by"), [
    (("--repairs", "unicode"), "ftfy", "--repairs unicode"),
    (("--languages", "it"), "py3langid", "--languages")])
def test_packages_of_the_extra_are_asked_for(
        run: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...],
        package: str, needed_by: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    outcome = run("clean", corpus, *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (f"bmtools: {needed_by} needs the package {package}: "
                           f"{install_command('cleaning')}\n")


def test_licences_without_a_known_name_are_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": "1", "text": "Asma.", "licence": "own notes"}\n')
    outcome = run("clean", tmp_path / "in.jsonl", "--licences", "CC-YB,own notes,CCBY,commercial")
    assert [line.split("'")[1] for line in outcome.err.splitlines()[:2]] == ["CC-YB", "own notes"]
    assert "is no licence known by name" in outcome.err
    assert "bmtools: 1 of 1 record " in outcome.err


@pytest.mark.data
def test_real_licences(run: Run, data: Path, tmp_path: Path) -> None:
    outcome = run("clean", data / "en/corpus/pubmed-case-reports.jsonl.gz", "--licences",
                  "commercial", "--repairs", "none", "-o", tmp_path / "kept.jsonl")
    assert "4,526 of 5,500 records" in outcome.err
