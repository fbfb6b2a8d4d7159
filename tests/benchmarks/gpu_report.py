"""Goals on a GPU compared with the measurements of `gpu_check.py`, as Markdown.

`python tests/benchmarks/gpu_report.py gpu-check.json` prints an earlier check again.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import table

Record = Mapping[str, Any]
Results = Mapping[str, Mapping[str, Any]]
"""What each benchmark reported, by its name."""


@dataclass(frozen=True)
class Goal:
    """Goal of a benchmark or a test.

    Args:
        what: description of the measured value.
        part: part of the check that measures it.
        read: returns the value from the benchmarks' results; None if it is missing.
        least: minimum value.
        most: maximum value.
        form: format of the value.
        card: pattern of the cards that the goal applies to; empty for all cards.
    """

    what: str
    part: str
    read: Callable[[Results], float | None]
    least: float
    most: float = float("inf")
    form: str = "{:.1f}"
    card: str = ""

    def expected(self) -> str:
        """Return the expected value as text."""
        least, most = (self.form.format(value) for value in (self.least, self.most))
        on = f" on an {self.card}" if self.card else ""
        return (f"{least} or more" if self.most == float("inf") else f"{least} to {most}") + on


def _faster(size: str) -> Callable[[Results], float | None]:
    """Return the speed relative to Trainer, both without compilation."""

    def read(results: Results) -> float | None:
        found = results.get(f"test_pretrain_on_a_gpu[{size}]", {}).get("times_faster", {})
        ratio = found.get("packed", {}).get("trainer", {}).get("median")
        return None if ratio is None else float(ratio)

    return read


def _best(size: str, of: Callable[[Mapping[str, Any]], Mapping[str, Any]],
          ) -> Callable[[Results], float | None]:
    """Return the highest value for packed documents, compiled or not."""

    def read(results: Results) -> float | None:
        known = [value for test in ("test_pretrain_on_a_gpu", "test_compiled_pretraining_on_a_gpu")
                 for name, value in of(results.get(f"{test}[{size}]", {})).items()
                 if name.startswith("packed") and value is not None]
        return max(map(float, known), default=None)

    return read


def _rates(info: Mapping[str, Any]) -> dict[str, Any]:
    return {name: side["tokens_per_second"] for name, side in info.get("sides", {}).items()}


def _shares(info: Mapping[str, Any]) -> Mapping[str, Any]:
    shares: Mapping[str, Any] = info.get("share_of_peak", {})
    return shares


def _value(test: str, *keys: str) -> Callable[[Results], float | None]:
    def read(results: Results) -> float | None:
        found: Any = results.get(test)
        for key in keys:
            found = None if found is None else found.get(key)
        return None if found is None else float(found)

    return read


_PREFLIGHT = "test_preflight_against_what_came"
GOALS = (
    Goal("BERT-base, 128: times Trainer", "pretrain, bert-base-128", _faster("bert-base-128"), 3),
    Goal("BERT-base, 512: times Trainer", "pretrain, bert-base-512", _faster("bert-base-512"), 3),
    Goal("ModernBERT-base, 1,024: times Trainer", "pretrain, modernbert-base-1024",
         _faster("modernbert-base-1024"), 3),
    Goal("BERT-base, 512: useful tokens a second", "pretrain, bert-base-512",
         _best("bert-base-512", _rates), 500_000, form="{:,.0f}", card="H200"),
    Goal("BERT-base, 512: share of the card's peak (MFU)", "pretrain, bert-base-512",
         _best("bert-base-512", _shares), 0.30, form="{:.0%}"),
    Goal("ModernBERT-base, 1,024: useful tokens a second", "pretrain, modernbert-base-1024",
         _best("modernbert-base-1024", _rates), 304_000, form="{:,.0f}", card="H100"),
    Goal("share of the time in which the card is busy", "busy",
         _value("test_the_gpu_is_busy", "busy"), 0.95, form="{:.0%}"),
    Goal("score-pppl without start-up: times minicons", "scoring",
         _value("test_pppl_on_a_gpu", "without_start", "exact"), 20),
    Goal("preflight: memory forecast, as a share of what came", "preflight",
         _value(_PREFLIGHT, "memory"), 1.0, 1.5, "{:.2f}"),
    Goal("preflight: speed forecast, as a share of what came", "preflight",
         _value(_PREFLIGHT, "speed"), 0.9, 1.1, "{:.2f}"),
)
_EXACT = "test_a_deterministic_gpu_resumes_with_the_same_bytes"
_EXACT_GOAL = "a killed run resumes with the same bytes (`--set deterministic=true`)"


def judge(record: Record) -> Iterator[tuple[str, str, str, str]]:
    """Yield each goal, its expected value, the measured value, and whether it is met.

    Args:
        record: record of a check.
    """
    results = {one["name"]: one["extra_info"] for part in record["parts"]
               for one in part["benchmarks"]}
    parts = {part["name"]: part for part in record["parts"]}
    for goal in GOALS:
        found = goal.read(results)
        if found is None:
            yield goal.what, goal.expected(), "", _why_not(parts.get(goal.part))
            continue
        verdict = "met" if goal.least <= found <= goal.most else "missed"
        if not re.search(rf"\b{goal.card}\b", record["machine"]["card"]):
            verdict = "another card"
        yield goal.what, goal.expected(), goal.form.format(found), verdict
    exact = [status for part in record["parts"] for name, status in part["tests"].items()
             if name.startswith(_EXACT) and status != "skipped"]
    passed = exact.count("passed")
    verdict = _why_not(parts.get("tests")) if not exact else \
        "met" if passed == len(exact) else "missed"
    yield _EXACT_GOAL, "all cases", f"{passed} of {len(exact)}" if exact else "", verdict


def _why_not(part: Mapping[str, Any] | None) -> str:
    """Return the reason for a missing value."""
    if part is None:
        return "not measured: the part did not run"
    detail = part["detail"] or "it reported no figure"
    return f"not measured: {part['status']}, {detail}"


def markdown(record: Record) -> str:
    """Return a record as a page."""
    machine = record["machine"]
    software = [f"driver {machine['driver'] or 'unknown'}", f"CUDA {machine['cuda']}",
                f"Python {machine['python']}",
                *(f"{name} {version}" for name, version in machine["versions"].items())]
    seconds = sum(part["seconds"] for part in record["parts"])
    lines = [
        "# GPU check", "",
        f"{machine['cards']} x {machine['card']}, {machine['memory_gib']} GiB, compute capability "
        f"{machine['compute_capability']}; {', '.join(software)}; {record['date']}; "
        f"{seconds / 60:.0f} minutes.", "",
        "## Goals", "",
        *_rows(("goal", "expected", "measured", ""), judge(record)), "",
        "## Parts", "",
        *_rows(("part", "result", "seconds", "limit"), (
            (part["name"], part["status"] + (part["detail"] and f": {part['detail']}"),
             f"{part['seconds']:.0f}", f"{part['limit_seconds']:.0f}")
            for part in record["parts"])), ""]
    timed = [one for part in record["parts"] for one in part["benchmarks"]]
    if timed:
        facts = next(part["machine"] for part in record["parts"] if part["benchmarks"])
        lines += ["## Benchmarks", "", table({"machine_info": facts, "datetime": record["date"],
                                              "benchmarks": timed}), ""]
    return "\n".join(lines)


def _rows(headings: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    for row in (headings, ["---"] * len(headings), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
