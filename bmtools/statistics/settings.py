"""Settings of resampling; importing this costs nothing."""

from __future__ import annotations

from bmtools.errors import LAST_SEED
from bmtools.settings import Settings, option


class StatisticsConfig(Settings, title="Confidence intervals and tests of differences"):
    """Confidence intervals and tests of differences."""

    resamples: int = option(
        1000, "Bootstrap resamples of sentences or documents behind an interval, of ten or more, "
              "and exchanges of two models' results behind a p-value; 0 for neither.")
    confidence: float = option(0.95, "Confidence level of intervals, such as 0.95.",
                               above=0, below=1)
    seed: int = option(0, "Seed of the draws.", most=LAST_SEED)
