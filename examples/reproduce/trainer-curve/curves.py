"""Collect the losses of all runs in curves.jsonl and a plot, and the last ones in results.jsonl.

    python curves.py OUT
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RUNS = ("trainer", "bmtools", "default")
LAST = 0.1
"""Share of the last tokens over which a run's loss is averaged."""


def read(path: Path) -> list[dict[str, Any]]:
    """Read JSON Lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def curve(name: str, lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reduce metrics from Trainer or bmtools to tokens, loss and seconds."""
    points: list[dict[str, Any]] = []
    tokens, seconds = 0, 0.0
    for line in lines:
        if "loss" not in line:
            continue
        if "tokens_per_second" in line:
            seconds += (line["tokens_seen"] - tokens) / max(line["tokens_per_second"], 1)
        tokens = line["tokens_seen"]
        points.append({"model": name, "tokens": tokens, "loss": line["loss"],
                       "seconds": round(line.get("seconds", seconds), 2)})
    return points


def end_of(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the last point of a run, with its loss averaged over the end."""
    last = points[-1]
    tail = [point["loss"] for point in points if point["tokens"] > (1 - LAST) * last["tokens"]]
    return {"model": last["model"], "tokens": last["tokens"],
            "loss": round(sum(tail) / len(tail), 4), "seconds": last["seconds"],
            "tokens_per_second": round(last["tokens"] / last["seconds"])}


def plot(curves: Sequence[Sequence[dict[str, Any]]], path: Path) -> None:
    """Draw loss against tokens, and against seconds."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print("matplotlib is missing; for a plot: pip install matplotlib", file=sys.stderr)
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for points in curves:
        losses = [point["loss"] for point in points]
        left.plot([point["tokens"] for point in points], losses, label=points[0]["model"])
        right.plot([point["seconds"] for point in points], losses, label=points[0]["model"])
    left.set_xlabel("tokens")
    right.set_xlabel("seconds")
    left.set_ylabel("nats per masked token")
    left.legend()
    figure.savefig(path)


def main() -> None:
    """Read the runs in the folder from the command line, and write the results."""
    out = Path(sys.argv[1])
    curves = [curve(name, read(out / name / "metrics.jsonl")) for name in RUNS]
    pppl = {Path(line["model"]).name: line["pppl"] for line in read(out / "pppl.jsonl")
            if "model" in line}
    results = [{**end_of(points), "pppl": pppl[points[0]["model"]]} for points in curves]
    for name, lines in (("curves", [point for points in curves for point in points]),
                        ("results", results)):
        (out / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines),
                                           encoding="utf-8")
    plot(curves, out / "curves.svg")


if __name__ == "__main__":
    main()
