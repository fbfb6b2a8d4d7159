"""Settings of resampling; importing this costs nothing."""

from __future__ import annotations

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
