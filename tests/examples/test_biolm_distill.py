"""Bio-LM's table 6 in examples/reproduce/biolm-distill, complete but at toy size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "reproduce" / "biolm-distill"
TEXTS = {"en/corpus/pubmed-drug-reviews.jsonl.gz": 40, "en/corpus/pubmed-case-reports.jsonl.gz": 4}
PAIRS = "en/re/chemprot"


@pytest.mark.data
@pytest.mark.slow
def test_rows_are_trained_and_compared(data: Path, tmp_path: Path, copy_lines: Any,
                                       run_script: Any, read: Any) -> None:
    small, out = tmp_path / "data", tmp_path / "out"
    for name, most in TEXTS.items():
        (small / name).parent.mkdir(parents=True, exist_ok=True)
        copy_lines(data / name, small / name, most)
    (small / PAIRS).mkdir(parents=True)
    for part in ("train.txt", "dev.txt", "test.txt"):
        copy_lines(data / PAIRS / part, small / PAIRS / part, 12)
    sizes = {"DATA": str(small), "OUT": str(out), "SEEDS": "0", "SETS": "ChemProt",
             "ROWS": "longer align scratch", "START": "2", "STEPS": "2", "RATIO": "1.5",
             "RECORDS": "12", "HELD_OUT": "3",
             "TEACHER_SET": "--set short.tokens=2000 --set long.tokens=2000 --set batch_size=4 "
                            "--architecture bert-1x64"}
    table = run_script(FOLDER / "run.sh", **sizes)
    lines = {line["model"]: line for line in read(out / "results.jsonl")}
    assert set(lines) == {"longer", "align", "scratch"}
    assert all(f"| {row} " in table for row in lines)
    assert "loss_against_longer" in lines["align"]
    manifests = {row: json.loads((out / "models" / f"{row}-0" / "bmtools.json").read_text())
                 for row in lines}
    assert {row: manifest["results"]["steps"] for row, manifest in manifests.items()} == {
        "longer": 3, "align": 2, "scratch": 5}
    scores = [line for line in read(out / "suite.jsonl") if "model" in line]
    assert [line["model"] for line in scores] == ["longer", "align", "scratch"]
    before = (out / "models" / "align-0" / "bmtools.json").stat().st_mtime_ns
    (out / "predictions" / "ChemProt" / "longer-0.jsonl").unlink()
    run_script(FOLDER / "run.sh", **sizes)
    assert (out / "models" / "align-0" / "bmtools.json").stat().st_mtime_ns == before
    assert {line["model"] for line in read(out / "results.jsonl")} == set(lines)
