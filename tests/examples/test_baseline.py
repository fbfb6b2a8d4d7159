"""The baseline without a model writes predictions that score-tasks reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BASELINE = Path(__file__).parents[2] / "examples/baseline.py"


def entity(text: str, mention: str) -> dict[str, Any]:
    start = text.index(mention)
    return {"start": start, "end": start + len(mention), "type": "Disease", "text": mention}


def sentence(number: int, text: str, *mentions: str) -> dict[str, Any]:
    return {"id": str(number), "text": text, "entities": [entity(text, one) for one in mentions]}


@pytest.mark.parametrize(("train", "test", "metric", "expected"), [
    ([sentence(1, "Asthma and heart failure", "Asthma", "heart failure"), sentence(2, "Failure")],
     [sentence(1, "No asthma", "asthma"), sentence(2, "Failure of the left heart", "heart")],
     "f1", 2 / 3),
    ([{"id": str(n), "text": "a", "label": label} for n, label in enumerate("yyn")],
     [{"id": str(n), "text": "b", "label": label} for n, label in enumerate("yn")],
     "accuracy", 1 / 2)])
def test_score_of_a_baseline(run: Any, write_lines: Any, tmp_path: Path, train: Any, test: Any,
                             metric: str, expected: float) -> None:
    files = [write_lines("train.jsonl", *train), write_lines("test.jsonl", *test)]
    command = [sys.executable, str(BASELINE), *map(str, files)]
    predicted = tmp_path / "predicted.jsonl"
    predicted.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    line = run("score-tasks", files[1], predicted, "--json").records[0]
    assert line[metric] == pytest.approx(expected)
