"""Bio-LM's table 6 in examples/reproduce/biolm-distill, whole but at toy size."""

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


def test_rows_are_summarised_over_seeds(load_script: Any, tmp_path: Path) -> None:
    found = {"student": (4.0, 0.1), "models/longer-0": (3.0, 0.2), "models/longer-1": (3.5, 0.2),
             "models/distill-0": (2.9, 0.3), "models/distill-1": (3.2, 0.5)}
    for name, key, number in (("masked", "nats_per_token", 0), ("mrr", "mrr", 1)):
        (tmp_path / f"{name}.jsonl").write_text("".join(
            json.dumps({"model": f"out/{model}", key: scores[number]}) + "\n"
            for model, scores in found.items()) + '{"compared": ["a", "b"]}\n')
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "longer-0.seconds").write_text("10.5 0.5\n3.0 1.0\n")
    student, longer, distill = load_script(FOLDER / "summary.py").summarise(tmp_path)
    assert (student["model"], longer["model"], distill["model"]) == ("student", "longer", "distill")
    assert student["seeds"] == 1 and "loss_against_longer" not in student
    assert longer["seconds"]["mean"] == 15.0 and longer["loss"]["deviation"] == 0.3536
    assert distill["loss_against_longer"] == {"mean": -0.2, "deviation": 0.1414}
    assert distill["mrr"] == {"mean": 0.4, "deviation": 0.1414}
