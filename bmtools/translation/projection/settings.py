"""Settings of projection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from bmtools.errors import check_choices, require, require_names

Method = Literal["align", "exact"]
Pairing = Literal["id", "order"]
Lost = Literal["drop", "reject"]
Occurrences = Literal["given", "all"]
LinkRule = Literal["softmax", "argmax", "itermax", "match"]
SOURCE = "translated_from"
"""Key of a translated record, up to its projection: what it was made of."""


@dataclass(frozen=True)
class ProjectionConfig:
    """How annotations are carried to a translation.

    Args:
        methods: that look for places, the most trusted one first.
        edges: whether rules correct where a span begins and ends.
        min_confidence: of the spans that stay, 0 to 1.
        lost: drop an annotation without a place, or reject its record.
        pairing: of records and translations, by their ids or by their order.
        confidence: file of a calibration of one's own; the one that is shipped by default.
    """

    methods: tuple[str, ...] = ("align", "exact")
    edges: bool = True
    min_confidence: float = 0.0
    lost: Lost = "drop"
    pairing: Pairing = "id"
    confidence: Path | None = None

    def __post_init__(self) -> None:
        check_choices(self)
        require(bool(self.methods), "method", "none", "one or more")
        require_names("method", self.methods, get_args(Method))
        require(0 <= self.min_confidence <= 1, "min_confidence", self.min_confidence, "0 to 1")
