"""Settings of resampling; importing this costs nothing."""

from __future__ import annotations

from dataclasses import replace

from bmtools.errors import LAST_SEED
from bmtools.settings import Settings, option

_LEAST_EXCHANGES = 100  # for each comparison: the least p-value after Holm's correction is 0.01


class StatisticsConfig(Settings, title="Confidence intervals and tests of differences"):
    """Confidence intervals and tests of differences."""

    resamples: int = option(
        1000, "Bootstrap resamples behind an interval, of ten units or more, and exchanges of two "
              "models' results behind a p-value: at least 100 for each two models, so that p_holm "
              "can fall to 0.01; 0 for neither.")
    confidence: float = option(0.95, "Confidence level of intervals, such as 0.95.",
                               above=0, below=1)
    seed: int = option(0, "Seed of the draws.", most=LAST_SEED)
    unit: str | None = option(
        None, "Key of the records whose values are drawn as units, such as meta.patient or id: "
              "scores within one depend on each other. By default the document: meta.document, "
              "otherwise the id up to the sentence (DOC-s3), otherwise the record.", metavar="KEY")

    def for_comparisons(self, comparisons: int) -> StatisticsConfig:
        """Raise the number of exchanges to what Holm's correction for comparisons needs."""
        least = _LEAST_EXCHANGES * comparisons - 1
        return replace(self, resamples=max(self.resamples, least)) if self.resamples else self
