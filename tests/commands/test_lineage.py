"""`bmtools lineage` on the command line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.study.lineages.lineage import trace

Run = Callable[..., Any]


@pytest.fixture
def scores(run: Run, write_lines: Run, tiny_checkpoint: Path, tmp_path: Path,
           monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make scores of a model on a corpus made from notes."""
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("Il paziente ha la febbre.\nNon ha dolore.\n")
    shutil.copytree(tiny_checkpoint, "model")
    for line in ("import text notes.txt --lang it -o notes.jsonl",
                 "sample notes.jsonl --records 1 --seed 7 -o one.jsonl",
                 "score-pppl one.jsonl --model model --baseline notes.jsonl -o pppl.jsonl"):
        outcome = run(*line.split())
        assert outcome.code == 0, outcome.err
    return Path("pppl.jsonl")


def test_a_tree_shows_each_content_once(run: Run, scores: Path) -> None:
    outcome = run("lineage", scores)
    assert outcome.code == 0
    hashes = {node.name: node.id[:8] for node in trace([scores]).nodes}
    lines = outcome.out.splitlines()
    assert [line for line in lines if " · " not in line][:-1] == [
        f"pppl.jsonl  file {hashes['pppl.jsonl']}",
        f"├── notes.jsonl  file {hashes['notes.jsonl']}",
        f"│   └── notes.txt  {hashes['notes.txt']}",
        f"├── one.jsonl  file {hashes['one.jsonl']}",
        f"│   └── notes.jsonl  file {hashes['notes.jsonl']}, above",
        f"└── model  checkpoint {hashes['model']}", ""]
    assert re.search(r"^│   sample · \d{4}-\d\d-\d\d \d\d:\d\d · .* m?s · seed 7 · bmtools ",
                     outcome.out, re.MULTILINE)
    assert re.fullmatch(r"\d steps, .+", lines[-1])


def test_json_has_all_records(run: Run, scores: Path) -> None:
    [found] = run("lineage", scores, "--format", "json").records
    lineage = trace([scores])
    assert [node["id"] for node in found["nodes"]] == [node.id for node in lineage.nodes]
    assert found["edges"] == [vars(edge) for edge in lineage.edges]
    assert found["totals"] == lineage.totals()
    assert found["nodes"][0]["record"] == json.loads(Path("pppl.jsonl.bmtools.json").read_text())
    assert run("lineage", scores, "--format", "json", "-o", "l.json").code == 0
    assert json.loads(Path("l.json").read_text()) == found


def test_missing_inputs_are_named_with_their_hashes(run: Run, scores: Path, tmp_path: Path) -> None:
    (id,) = [node.id for node in trace([scores]).nodes if node.name == "notes.txt"]
    (tmp_path / "elsewhere").mkdir()
    Path("notes.txt").rename(tmp_path / "elsewhere" / "notes.txt")
    outcome = run("lineage", scores)
    assert f"notes.txt  {id[:8]}, not found here" in outcome.out
    assert outcome.out.endswith(f"not found here: notes.txt (SHA-256 {id})\n")
    assert "1 not found, search more with --search DIR" in outcome.err
    assert "not found" not in run("lineage", scores, "--search", "elsewhere").out
