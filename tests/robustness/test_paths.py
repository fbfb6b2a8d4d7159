"""Names that are not UTF-8 are refused in one line, but for directories where nothing is built."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands.test_battery import CASES, Kit, kit_paths  # noqa: F401

Run = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("one_thread")
NAME = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize("arguments", [
    ("import", "text", f"{NAME}.txt"), ("import", "text", "in.txt", "-o", f"{NAME}/out.jsonl"),
    ("score-pppl", "--model", NAME), ("import", "text", f"--source={NAME}", "in.txt"), (NAME,)])
def test_an_argument_that_is_not_utf8_is_refused(
        run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        arguments: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("asma\n")
    Path(f"{NAME}.txt").write_text("asma\n")
    outcome = run(*arguments)
    Path(f"{NAME}.txt").unlink()
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("bmtools: found ") and outcome.err.count("\n") == 1
    assert r"caf\xe9" in outcome.err and "which is not UTF-8" in outcome.err


@pytest.mark.parametrize("name", CASES)
def test_a_working_directory_that_is_not_utf8(
        name: str, kit_paths: dict[str, Path], tmp_path: Path, run: Run,  # noqa: F811
        monkeypatch: pytest.MonkeyPatch, corpus_records: list[dict[str, Any]]) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    monkeypatch.chdir(folder)
    case = CASES[name]
    case = case if case.records else replace(case, records=tuple(corpus_records))
    paths = {one: Path((shutil.copytree if path.is_dir() else shutil.copy)(path, one))
             for one, path in kit_paths.items() if one in case.arguments}
    kit = Kit(name, case, Path(), paths, run, run)
    outcome = kit.on(kit.good())
    if kit.writes_directory:
        assert outcome.code == 1 and not Path("out").exists()
        assert outcome.err.startswith("bmtools: out: found '") and outcome.err.count("\n") == 1
        assert r"caf\xe9/out', which is not UTF-8" in outcome.err
    else:
        assert outcome.code == 0, outcome.err
    shutil.rmtree(folder)
