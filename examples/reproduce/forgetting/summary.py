"""Compare the ways to continue training, and write results.jsonl and forgetting.svg.

    python summary.py OUT

All losses are in nats per masked token. `retained` is the loss on general text after training,
`forgotten` its increase by training, and `new` the loss on new text.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read(run: Path) -> dict[str, float]:
    """Read the scores of a run from its manifest."""
    manifest = json.loads((run / "bmtools.json").read_text(encoding="utf-8"))
    retained = manifest["results"]["retained"]
    return {"retained": retained["after"]["loss"], "forgotten": retained["cost"],
            "new": manifest["results"]["evaluate"]["evaluate"]["loss"],
            "seconds": manifest["wall_seconds"]}


def mean_and_deviation(values: Sequence[float]) -> dict[str, float]:
    """Return mean and standard deviation; the deviation of a single value is 0."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": round(statistics.mean(values), 4), "deviation": round(deviation, 4)}


def summarise(out: Path) -> list[dict[str, Any]]:
    """Return a line for the model before, then a line for each arm, best-retaining first."""
    arms: dict[str, list[dict[str, float]]] = defaultdict(list)
    for run in sorted((out / "arms").iterdir()):
        if (run / "bmtools.json").exists():
            arms[run.name.rpartition("-")[0]].append(read(run))
    lines = [{"model": name, "seeds": len(runs),
              **{key: mean_and_deviation([run[key] for run in runs]) for key in runs[0]}}
             for name, runs in arms.items()]
    base = read(out / "base")
    before = {"model": "before", "seeds": 1, "retained": mean_and_deviation([base["retained"]]),
              "forgotten": mean_and_deviation([0.0]), "new": mean_and_deviation([base["new"]]),
              "seconds": mean_and_deviation([base["seconds"]])}
    return [before, *sorted(lines, key=lambda line: line["retained"]["mean"])]


def plot(lines: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the loss on general text against the loss on new text."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print("matplotlib is missing; for a plot: pip install matplotlib", file=sys.stderr)
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5))
    for line in lines:
        axes.errorbar(line["new"]["mean"], line["retained"]["mean"],
                      xerr=line["new"]["deviation"], yerr=line["retained"]["deviation"],
                      fmt="o", capsize=3, label=line["model"])
    axes.set_xlabel("new text: nats per masked token")
    axes.set_ylabel("general text: nats per masked token")
    axes.set_title("Down and left is better")
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Summarise the folder from the command line."""
    out = Path(sys.argv[1])
    lines = summarise(out)
    (out / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines),
                                       encoding="utf-8")
    plot(lines, out / "forgetting.svg")


if __name__ == "__main__":
    main()
