"""Settings of resampling; importing this costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bmtools.errors import require, require_seed
from bmtools.settings import Settings, option


class StatisticsConfig(Settings, title="Confidence intervals and tests of differences"):
    """Confidence intervals and tests of differences."""

    resamples: int = option(
        1000, "Bootstrap resamples of sentences or documents behind an interval, of ten or more, "
              "and exchanges of two models' results behind a p-value; 0 for neither.")
    confidence: float = option(0.95, "Confidence level of intervals, such as 0.95.")
    seed: int = option(0, "Seed of the draws.")

    def __post_init__(self) -> None:
        require(self.resamples >= 0, "resamples", self.resamples, "0 or more")
        require(0 < self.confidence < 1, "confidence", self.confidence,
                "more than 0 and less than 1")
        require_seed(self.seed)


def split_settings(settings: Mapping[str, object], *kinds: Any) -> list[Any]:
    """Sort keyword settings into the dataclasses that have a field of their name.

    Returns:
        an instance of each dataclass; fields without a keyword keep their defaults.

    Raises:
        TypeError: a keyword that no dataclass has.
        ValueError: a value out of range.
    """
    known = [{field.name for field in fields(kind)} for kind in kinds]
    unknown = sorted(set(settings).difference(*known))
    if unknown:
        raise TypeError(f"found {', '.join(unknown)}, expected some of "
                        f"{', '.join(sorted(set().union(*known)))}")
    return [kind(**{name: settings[name] for name in names & set(settings)})
            for kind, names in zip(kinds, known, strict=True)]
