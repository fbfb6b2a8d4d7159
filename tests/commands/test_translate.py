"""`bmtools translate` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
NOTES = [{"id": "a", "text": "No pain.  Fever.", "lang": "en", "kept": [1]},
         {"id": "b", "text": "fever"}]
ITALIAN = ["Nessun dolore.  Febbre.", "febbre"]
PAIR = ("--source-lang", "en", "--target-lang", "it")


@pytest.fixture
def memory(tmp_path: Path) -> tuple[str, ...]:
    """Options for a small translation memory."""
    path = tmp_path / "memory.tsv"
    path.write_text("doc\ten\tit\n1\tNo pain.\tNessun dolore.\n1\tFever.\tFebbre.\n"
                    "1\tfever\tfebbre\n", encoding="utf-8")
    return ("translate", *PAIR, "--engine", "memory", "--memory", str(path))


def test_sentences_do_not_end_at_user_abbreviations(run: Run, memory: tuple[str, ...],
                                                    write_lines: Callable[..., Path],
                                                    tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("pain. ...\n")
    notes = write_lines("notes.jsonl", NOTES[0])
    outcome = run(*memory, notes, "--missing", "keep", "--abbreviations", tmp_path / "own.txt")
    assert outcome.code == 0, outcome.err
    assert outcome.records[0]["meta"]["translation"]["sentences"] == 1


def test_a_stage_that_fails_midway_leaves_one_line_and_no_file(
        run: Run, write_lines: Callable[..., Path], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that lists its modes and then fails replaces Apertium here."""
    program = tmp_path / "bin" / "apertium"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n[ \"$1\" = -l ] && echo eng-ita && exit 0\n"
                       "echo 'out of order' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    path = write_lines("notes.jsonl", *NOTES)
    outcome = run("translate", *PAIR, "--engine", "apertium", path, "-o", tmp_path / "out.jsonl")
    assert outcome.code == 1
    assert outcome.err == ("bmtools: apertium eng-ita ended with code 3: out of order; "
                           "try: echo test | apertium -z -f none eng-ita\n")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bin", "notes.jsonl"]


def test_an_unreachable_server_is_one_line_and_no_file(run: Run, write_lines: Callable[..., Path],
                                                       tmp_path: Path) -> None:
    path = write_lines("notes.jsonl", *NOTES)
    outcome = run("translate", *PAIR, "--engine", "http", "--url", "http://127.0.0.1:9/v1",
                  "--served-model", "x", "--set", "retries=0", path, "-o", tmp_path / "out.jsonl")
    assert outcome.code == 1
    assert outcome.err.startswith("bmtools: http://127.0.0.1:9/v1/chat/completions: ")
    assert "Connection refused" in outcome.err and "start the server" in outcome.err
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("to_file", [False, True])
def test_a_question_that_loses_its_answers_does_not_end_the_run(run: Run,
                                                                write_lines: Callable[..., Path],
                                                                tmp_path: Path,
                                                                to_file: bool) -> None:
    path = write_lines("q.jsonl", *({"id": one, "text": "It was p16INK4.", "question": "What?",
                                     "answers": [{"text": one, "start": 7}]}
                                    for one in ("p16", "p16INK4")))
    out = tmp_path / "out.jsonl"
    outcome = run("translate", *PAIR, "--engine", "command", "--command", "cat", "--checks", "none",
                  "--project", "--method", "exact", path, *(("-o", out) if to_file else ()))
    assert outcome.code == 0, outcome.err
    assert "questions left out, they lost all answers: 1" in outcome.err
    [line] = out.read_text().splitlines() if to_file else outcome.out.splitlines()
    assert '"id":"p16INK4"' in line
