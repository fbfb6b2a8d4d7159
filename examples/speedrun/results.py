"""Compare trials: mean and standard deviation over seeds, with baselines.

    python results.py OUT > results.jsonl

Lines with `given` are from other sources.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

GIVEN = (("run_mlm, its defaults", 0.0), ("by hand, 25 minutes", 0.160))


def mean_and_deviation(values: Sequence[float]) -> dict[str, Any]:
    """Return mean and, for several values, standard deviation."""
    mean = statistics.mean(values)
    if len(values) == 1:
        return {"mean": round(mean, 4), "text": f"{mean:.3f}"}
    deviation = statistics.stdev(values)
    return {"mean": round(mean, 4), "deviation": round(deviation, 4),
            "text": f"{mean:.3f} ± {deviation:.3f}"}


def summarise(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group trials that differ only by their seed, best first."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[line["model"], line.get("minutes"), line.get("token_budget"),
               line["threads"]].append(line)
    found = []
    for (name, minutes, tokens, threads), runs in groups.items():
        length = f"{minutes:g} minutes" if minutes else f"{tokens} tokens"
        found.append({"model": f"{name}, {length}", "threads": threads, "seeds": len(runs),
                      "mrr": mean_and_deviation([run["mrr"] for run in runs]),
                      "one_token": mean_and_deviation([run["mrr_one_token"] for run in runs]),
                      "hits_at_1": round(statistics.mean(run["hits_at_1"] for run in runs), 4),
                      "tokens": round(statistics.mean(run["tokens"] for run in runs)),
                      "seconds": round(max(run["seconds"] for run in runs))})
    return sorted(found, key=lambda line: -line["mrr"]["mean"])


def main() -> None:
    """Print the results of the folder from the command line."""
    out = Path(sys.argv[1])
    trials = [json.loads(line) for line in
              (out / "trials.jsonl").read_text(encoding="utf-8").splitlines()]
    baselines = []
    for name in ("counts", "frequencies"):
        path = out / f"{name}.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            score = json.loads(line)
            baselines.append({"model": score["model"], "mrr": mean_and_deviation([score["mrr"]]),
                              "hits_at_1": round(score["hits_at_1"], 4)})
    given = [{"model": f"{name} (given)", "given": True, "mrr": mean_and_deviation([mrr])}
             for name, mrr in GIVEN]
    for line in (*summarise(trials), *baselines, *given):
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
