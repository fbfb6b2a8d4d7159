"""Outputs of a command compared with each other, its inputs and other commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.cli import outputs
from bmtools.io.unfinished import reserved

Run = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder of inputs."""
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text('{"id": "1", "text": "asma"}\n')
    Path("linked.jsonl").symlink_to("in.jsonl")
    os.link("in.jsonl", "hard.jsonl")
    Path("sub").mkdir()
    Path("sub/words").write_text("asma\n")
    Path("vocabulary").mkdir()
    return tmp_path


@pytest.mark.parametrize(("arguments", "message"), [
    ("import jsonl in.jsonl -o x --rejects x", "--rejects and --output are the same; give"),
    ("import jsonl in.jsonl -o x --rejects sub/../x",
     "--rejects and --output are the same, sub/../x and x; give another name for one of them"),
    ("import jsonl in.jsonl -o in.jsonl --overwrite", "FILES and --output are the same; give"),
    ("import jsonl in.jsonl -o ./in.jsonl", "FILES and --output are the same, in.jsonl and ./in"),
    ("import jsonl linked.jsonl -o in.jsonl --overwrite", "FILES and --output are the same, li"),
    ("import jsonl in.jsonl -o linked.jsonl --overwrite", "FILES and --output are the same, in"),
    ("import jsonl in.jsonl -o hard.jsonl --overwrite", "FILES and --output are the same, in"),
    ("import jsonl in.jsonl --rejects - -o /dev/stdout", "--rejects and --output are the same, -"),
    ("find-contexts in.jsonl --words sub/words --report sub/words", "--words and --report are"),
    ("compare-vocab in.jsonl --vocab a=vocabulary --vocab b=in.jsonl --plot hard.png",
     "--vocab and --plot are the same, in.jsonl and hard.png"),
    ("build-vocab sub/words -o sub --overwrite", "FILES: found sub/words, which writing sub would"),
    ("build-vocab in.jsonl -o sub --rejects sub/bad", "--rejects: found sub/bad, which writing"),
    ("build-vocab in.jsonl -o new --rejects new/bad", "--rejects: found new/bad, which writing"),
    ("pretrain in.jsonl --model m.kept/a --tokenizer sub -o m --overwrite",
     "--model: found m.kept/a, which writing m would remove"),
])
def test_outputs_that_would_overwrite_other_files_are_rejected(folder: Path, run: Run,
                                                               arguments: str,
                                                               message: str) -> None:
    os.link("in.jsonl", "hard.png")
    Path("m.kept/a").mkdir(parents=True)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    outcome = run(*arguments.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"bmtools: {message}") and outcome.err.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize("arguments", [
    "-o /dev/null --rejects /dev/null", "-o x --rejects sub/x", "-o in.jsonl.gz",
    "--rejects /dev/null"])
def test_outputs_that_differ_are_written(folder: Path, run: Run, arguments: str) -> None:
    outcome = run("import", "jsonl", "in.jsonl", *arguments.split())
    assert outcome.code == 0, outcome.err


def test_redirections_are_also_compared(folder: Path) -> None:
    bmtools = f"{sys.executable} -m bmtools import jsonl"
    for call, what in ((f"{bmtools} in.jsonl >> in.jsonl", "FILES and --output are the same, in"),
                       (f"{bmtools} < in.jsonl -o in.jsonl --overwrite",
                        "stdin and --output are the same, - and in.jsonl")):
        done = subprocess.run(call, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(f"bmtools: {what}")
    assert Path("in.jsonl").read_text() == '{"id": "1", "text": "asma"}\n'


@pytest.mark.parametrize(("command", "out"), [
    ("import jsonl in.jsonl --rejects bad", "out"), ("import jsonl in.jsonl -o x", "bad"),
    ("build-vocab in.jsonl --allow-fewer", "out")])
def test_a_second_command_for_one_output_is_rejected(folder: Path, run: Run, command: str,
                                                     out: str) -> None:
    target = folder / out
    flag = "--rejects" if out == "bad" else "-o"
    with reserved(target, folder):
        outcome = run(*command.split(), flag, out)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"bmtools: {target}: another process is writing it; ")
    assert outcome.err.endswith("wait for it, or give another name\n")
    assert not target.exists()
    assert run(*command.split(), flag, out).code == 0


def test_processes_of_one_command_share_its_outputs(folder: Path, run: Run,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[bool] = []
    monkeypatch.setenv("BMTOOLS_SUPERVISED", "1")
    monkeypatch.setattr(outputs, "keep_going_without_stdout", lambda: called.append(True))
    with reserved(folder / "out", folder):
        assert run("build-vocab", "in.jsonl", "--allow-fewer", "-o", "out").code == 0
    assert called, "a reader of its report that goes away ends none of them"


@pytest.mark.parametrize("command", ["import jsonl", "build-vocab --allow-fewer"])
def test_an_unneeded_new_directory_is_removed(folder: Path, run: Run, command: str) -> None:
    Path("bad.jsonl").write_text("nonsense\n")
    outcome = run(*command.split(), "bad.jsonl", "-o", "new/folder/out")
    assert outcome.code == 1
    assert not Path("new").exists()
    assert run(*command.split(), "in.jsonl", "-o", "new/folder/out").code == 0
    assert Path("new/folder/out").exists()
