"""Names that are not UTF-8 are rejected with a one-line message."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
NAME = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize("arguments", [
    ("import", "text", f"{NAME}.txt"), ("import", "text", "in.txt", "-o", f"{NAME}/out.jsonl"),
    ("score-pppl", "--model", NAME), ("import", "text", f"--source={NAME}", "in.txt"), (NAME,)])
def test_an_argument_that_is_not_utf8_is_rejected(run: Run, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch,
                                                  arguments: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("asma\n")
    Path(f"{NAME}.txt").write_text("asma\n")
    outcome = run(*arguments)
    Path(f"{NAME}.txt").unlink()
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("bmtools: found ") and outcome.err.count("\n") == 1
    assert r"caf\xe9" in outcome.err and "which is not UTF-8" in outcome.err
