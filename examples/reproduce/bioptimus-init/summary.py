"""Compare the initial weights, and write results.jsonl and losses.svg.

    python summary.py OUT

The losses are on held-out abstracts, in nats per masked token: `initial` before the first step,
`early` at the first evaluation, `end` after the last step. `seconds` is the time of `init-weights`.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bmtools.installation import install_command

Curve = dict[int, float]
"""Loss by step; step 0 is before training."""


def read(out: Path, name: str) -> tuple[Curve, float]:
    """Read a run's losses from its manifest and metrics, and the seconds of its initialisation."""
    run = out / "arms" / name
    manifest = json.loads((run / "bmtools.json").read_text(encoding="utf-8"))
    curve = {0: manifest["results"]["retained"]["before"]["loss"]}
    for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        if "evaluate" in found:
            curve[found["step"]] = found["evaluate"]["loss"]
    initialised = (out / "initialised" / name / "bmtools.json").read_text(encoding="utf-8")
    return curve, json.loads(initialised)["wall_seconds"]


def mean_and_deviation(values: Sequence[float]) -> dict[str, float]:
    """Return mean and standard deviation; the deviation of a single value is 0."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": round(statistics.mean(values), 4), "deviation": round(deviation, 4)}


def summarise(out: Path) -> list[dict[str, Any]]:
    """Return a line for each initialisation, sorted by the loss at the first evaluation."""
    arms: dict[str, list[tuple[Curve, float]]] = defaultdict(list)
    for run in sorted((out / "arms").iterdir()):
        if (run / "bmtools.json").exists():
            arms[run.name.rpartition("-")[0]].append(read(out, run.name))
    lines = [_line(name, runs) for name, runs in arms.items()]
    return sorted(lines, key=lambda line: line["early"]["mean"])


def _line(name: str, runs: Sequence[tuple[Curve, float]]) -> dict[str, Any]:
    curves = {step: mean_and_deviation([curve[step] for curve, _ in runs])
              for step in sorted(runs[0][0])}
    steps = list(curves)
    return {"model": name, "seeds": len(runs), "initial": curves[0], "early": curves[steps[1]],
            "end": curves[steps[-1]], "steps": curves,
            "seconds": mean_and_deviation([seconds for _, seconds in runs])}


def plot(lines: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw losses over steps."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print(f"matplotlib is missing; for a plot: {install_command('plot')}", file=sys.stderr)
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5))
    for line in lines:
        means = [point["mean"] for point in line["steps"].values()]
        spread = [point["deviation"] for point in line["steps"].values()]
        axes.errorbar(list(line["steps"]), means, yerr=spread, capsize=3, label=line["model"])
    axes.set_xlabel("steps")
    axes.set_ylabel("nats per masked token of held-out abstracts")
    axes.legend()
    figure.savefig(path)
    pyplot.close(figure)


def main() -> None:
    """Summarise the folder from the command line."""
    out = Path(sys.argv[1])
    lines = summarise(out)
    (out / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines),
                                       encoding="utf-8")
    plot(lines, out / "losses.svg")


if __name__ == "__main__":
    main()
