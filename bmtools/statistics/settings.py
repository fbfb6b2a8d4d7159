"""Settings of resampling; importing this module is fast."""

from __future__ import annotations

from dataclasses import replace

from bmtools.errors import LAST_SEED
from bmtools.settings import Settings, option

_LEAST_EXCHANGES = 100  # per comparison: the minimum p-value after Holm's correction is 0.01


class StatisticsConfig(Settings, title="Confidence intervals and tests of differences"):
    """Confidence intervals and tests of differences."""

    resamples: int = option(
        1000, "Bootstrap resamples for an interval (over ten units or more) and exchanges of two "
              "models' results for a p-value: at least 100 per pair of models, so that p_holm can "
              "be 0.01; 0 for no intervals and p-values.")
    confidence: float = option(0.95, "Confidence level of intervals, such as 0.95.",
                               above=0, below=1)
    seed: int = option(0, "Seed of resamples and exchanges.", most=LAST_SEED)
    unit: str | None = option(
        None, "Key of the records whose values are resampled as units, such as meta.patient or id: "
              "scores within a unit depend on each other. Default: the document, which is "
              "meta.document, the id without its sentence (DOC-s3), or the record.", metavar="KEY")

    def for_comparisons(self, comparisons: int) -> StatisticsConfig:
        """Increase the number of exchanges as needed for Holm's correction of these comparisons."""
        least = _LEAST_EXCHANGES * comparisons - 1
        return replace(self, resamples=max(self.resamples, least)) if self.resamples else self
