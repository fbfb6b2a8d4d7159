"""Counts of a projection."""

from __future__ import annotations

from bmtools.translation.counts import EDGES, count_lines


def test_edges_are_counted_by_rule_in_one_line() -> None:
    counts = {f"{EDGES}bracket": 2, "annotations projected": 1234, "relations lost": 0,
              f"{EDGES}punctuation": 35, f"{EDGES}sentence": 0}
    assert list(count_lines(counts)) == [
        "annotations projected: 1,234", "edges corrected by rules: punctuation 35, bracket 2"]
    assert list(count_lines({})) == []
