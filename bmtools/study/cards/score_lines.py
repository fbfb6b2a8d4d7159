"""Lines of scores as score-pppl, score-mrr, score-tasks and score-suite write them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from bmtools.records import JsonMapping

_NO_SCORES = frozenset({"mask_rate", "p", "p_holm"})


def find_model(name: str, models: Collection[str]) -> str:
    """Find the model of a name: its path, or the one whose end agrees with it in most parts; empty
    without, or where several do."""
    same = [path for path in models if Path(path) == Path(name)]
    parts = {path: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(
        reversed(Path(path).parts), reversed(Path(name).parts), strict=False))) for path in models}
    most = max(parts.values(), default=0)
    same = same or [path for path, number in parts.items() if number == most > 0]
    return same[0] if len(same) == 1 else ""


def metrics_of(line: JsonMapping) -> Iterator[tuple[str, float, Sequence[float] | None]]:
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
