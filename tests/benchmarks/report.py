"""A table of results: `python tests/benchmarks/report.py bench.json`.

`make bench` writes that file. The rows of docs/performance.md are written by hand from this table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def rows_of(benchmarks: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each benchmark; skip benchmarks without a measurement."""
    for one in benchmarks:
        found = dict(one["extra_info"])
        if found:
            faster = found.pop("times_faster", "")
            name = one["name"].partition("[")[0].removeprefix("test_").replace("_", " ")
            what = [name, *(f"{key} {value}" for key, value in (one["params"] or {}).items())]
            yield ", ".join(what), _shown(faster), _shown(found)


def _shown(found: object) -> str:
    if isinstance(found, Mapping):
        inner = ((name, _shown(one), isinstance(one, Mapping)) for name, one in found.items())
        return "; ".join(f"{name} ({text})" if is_group else f"{name} {text}"
                         for name, text, is_group in inner)
    return f"{found:,}" if isinstance(found, int | float) else str(found)


def table(measured: Mapping[str, Any]) -> str:
    """Return a line about the machine and a Markdown table for a file of pytest-benchmark."""
    machine = measured["machine_info"]
    gpus = {one["extra_info"]["gpu"] for one in measured["benchmarks"]
            if "gpu" in one["extra_info"]}
    parts = [*(sorted(gpus) or [machine["cpu"].get("brand_raw", machine["machine"])]),
             *(f"{name} {version}" for name, version in machine.get("versions", {}).items()),
             measured["datetime"][:10]]
    rows = [("what", "times faster", "measured"), ("---", "---:", "---"),
            *rows_of(measured["benchmarks"])]
    return "\n".join([", ".join(parts), "", *("| " + " | ".join(row) + " |" for row in rows)])


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
