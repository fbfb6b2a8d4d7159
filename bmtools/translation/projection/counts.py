"""Counts of a projection, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

EDGES = "edges corrected: "
"""Before the rule by which they were."""


def count_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield what was counted, the corrected edges together and last, the most frequent first."""
    rules = {name.removeprefix(EDGES): count for name, count in counts.items()
             if count and name.startswith(EDGES)}
    yield from (f"{name}: {count:,}" for name, count in counts.items()
                if count and not name.startswith(EDGES))
    if rules:
        each = ", ".join(f"{rule} {count:,}" for rule, count in sorted(
            rules.items(), key=lambda item: -item[1]))
        yield f"edges corrected by rules: {each}"
