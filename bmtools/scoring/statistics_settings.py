"""Settings of intervals and tests; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bmtools.errors import require


@dataclass(frozen=True)
class StatisticsConfig:
    """How sure scores and their differences are said to be.

    Args:
        resamples: draws of sentences behind an interval, and exchanges of two checkpoints' results
            behind a p-value; 0 for neither.
        confidence: how often intervals shall hold the true value, such as 0.95.
        seed: seed of the draws.
    """

    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.resamples >= 0, "--resamples", self.resamples, "0 or more")
        require(0 < self.confidence < 1, "--confidence", self.confidence,
                "more than 0 and less than 1")
        require(self.seed >= 0, "--seed", self.seed, "0 or more")
