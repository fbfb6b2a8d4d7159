"""The steps of a tokenizer, as `tokenizer.json` names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_INNER = ("normalizers", "pretokenizers", "decoders", "processors")


def flat_components(step: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Lay nested sequences of steps out; none where there is no step."""
    if step is None:
        return
    if step["type"] == "Sequence":
        for key in _INNER:
            for inner in step.get(key, ()):
                yield from flat_components(inner)
    else:
        yield step


def component_types(step: Mapping[str, Any] | None) -> set[str]:
    """Name the types of a step, or of those within it."""
    return {one["type"] for one in flat_components(step)}
