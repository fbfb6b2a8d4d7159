"""How the masking rate changes over a phase of training; importing this costs nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bmtools.errors import check_choices, require, setting
from bmtools.masking.settings import MaskRateCurve


@dataclass(frozen=True)
class RateCurve:
    """The masking rate as a function of progress; it falls where `end` is below `start`.

    Source: steps from 5 % to 25 % in five stairs are in Gu et al. 2021 (BLURB), section 2.3.

    Args:
        shape: fixed, steps (equal stairs, each lasting as long), linear, or cosine (slow at both
            ends).
        start: share of tokens that is masked at the beginning, 0 to 1.
        end: the same at the end; not given for a fixed curve.
        stairs: rates that steps go through, the first and the last one included.
    """

    shape: MaskRateCurve = "fixed"
    start: float = 0.15
    end: float | None = None
    stairs: int = 5

    def __post_init__(self) -> None:
        check_choices(self)
        require(0 <= self.start <= 1, "mask_rate", self.start, "0 to 1")
        require(self.stairs >= 2, "mask_rate_steps", self.stairs, "2 or more")
        if self.shape == "fixed":
            require(self.end in (None, self.start), "mask_rate_end", self.end,
                    f"none, or a {setting('mask_curve')} that is not fixed")
        else:
            require(self.end is not None and 0 <= self.end <= 1, "mask_rate_end", self.end,
                    f"0 to 1 for {setting('mask_curve')} {self.shape}")

    def rate(self, progress: float) -> float:
        """Give the rate at a point of the phase.

        Args:
            progress: 0 at the beginning, 1 at the end; what is outside counts as the nearer.
        """
        share = self._share(min(max(progress, 0.0), 1.0))
        end = self.start if self.end is None else self.end
        # The end itself is met exactly.
        return end if share == 1 else self.start + (end - self.start) * share

    def _share(self, progress: float) -> float:
        """How much of the way from start to end is gone."""
        if self.shape == "steps":
            return min(math.floor(progress * self.stairs), self.stairs - 1) / (self.stairs - 1)
        if self.shape == "linear":
            return progress
        if self.shape == "cosine":
            return (1 - math.cos(math.pi * progress)) / 2
        return 0.0
