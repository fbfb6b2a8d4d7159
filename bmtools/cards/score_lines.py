"""Lines of scores as score-pppl, score-mrr, score-tasks and score-suite write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

_NO_SCORES = frozenset({"mask_rate", "p", "p_holm"})


def find_model(name: str, models: Iterable[str]) -> str:
    """Find the model of a name: its path, or the one path that ends with it; empty without."""
    same = [path for path in models if Path(path) == Path(name)] or \
        [path for path in models if Path(path).name == Path(name).name]
    return same[0] if len(same) == 1 else ""


def metrics_of(line: Mapping[str, Any]) -> Iterator[tuple[str, float, Any]]:
    """Yield the metrics of a line with their intervals: the first number, others with intervals."""
    if "metric" in line:
        yield line["metric"], line["mean"], line.get("interval")
        return
    for group in ("scores", "averages"):
        for metric, value in line.get(group, {}).items():
            yield metric, value, None
    first = next((key for key, value in line.items()
                  if isinstance(value, float) and key not in _NO_SCORES), None)
    if first:
        yield first, line[first], line.get("interval")
    for metric, bounds in line.get("intervals", {}).items():
        yield metric, line[metric], bounds
