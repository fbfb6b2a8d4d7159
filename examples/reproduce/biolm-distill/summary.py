"""Collect masked losses, reciprocal ranks and processor times of all rows in results.jsonl.

    python summary.py OUT

`loss` is in nats per masked token of held-out text. `mrr` is computed on masked words of entities.
`seconds` is the processor time of one core for the compared training only. `loss_against_longer`
and `mrr_against_longer` are differences from the row that was trained longer with the same seed.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROWS = ("student", "longer", "teacher", "distill", "align", "scratch")

Scores = dict[str, dict[str, float]]


def read(path: Path, score: Callable[[dict[str, Any]], float]) -> Scores:
    """Read the score of each checkpoint, by row and seed; a row without seeds has the seed ""."""
    scores: Scores = {}
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        name = Path(line.get("model", "")).name
        row, _, seed = name.rpartition("-") if "-" in name else (name, "", "")
        if row in ROWS:
            scores.setdefault(row, {})[seed] = score(line)
    return scores


def read_seconds(out: Path) -> Scores:
    """Read and add up processor times; a resumed run has several."""
    seconds: Scores = {}
    for path in (out / "models").glob("*.seconds"):
        row, _, seed = path.stem.rpartition("-")
        seconds.setdefault(row, {})[seed] = sum(map(float, path.read_text().split()))
    return seconds


def mean_and_deviation(values: Iterable[float]) -> dict[str, float]:
    """Return mean and standard deviation; the deviation of a single value is 0."""
    values = [*values]
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": round(statistics.mean(values), 4), "deviation": round(deviation, 4)}


def summarise(out: Path) -> list[dict[str, Any]]:
    """Return a line for each row, in the order of the paper's table."""
    measures = {"loss": read(out / "masked.jsonl", lambda line: float(line["nats_per_token"])),
                "mrr": read(out / "mrr.jsonl", lambda line: float(line["mrr"])),
                "seconds": read_seconds(out)}
    lines = []
    for row in (row for row in ROWS if row in measures["loss"]):
        line: dict[str, Any] = {"model": row, "seeds": len(measures["loss"][row])}
        for name, rows in measures.items():
            if row in rows:
                line[name] = mean_and_deviation(rows[row].values())
        for name in ("loss", "mrr"):
            own, longer = measures[name][row], measures[name].get("longer", {})
            if row != "longer" and own.keys() == longer.keys():
                line[f"{name}_against_longer"] = mean_and_deviation(
                    own[seed] - longer[seed] for seed in own)
        lines.append(line)
    return lines


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "results.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in summarise(folder)), encoding="utf-8")
