"""Settings of masking; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bmtools.errors import require, setting

Masking = Literal["tokens", "words", "spans", "terms"]
MaskRateCurve = Literal["fixed", "steps", "linear", "cosine"]
SEGMENTERS = ("tokenizer", "japanese", "chinese", "thai")


@dataclass(frozen=True)
class Corruption:
    """Shares of masked tokens that become the mask token, a random token, or stay the same.

    Source: Devlin et al. 2019, section 3.1 (80, 10 and 10 percent).

    Args:
        masked: share that becomes the mask token.
        random: share that becomes a random token; the rest stays the same.
    """

    masked: float = 0.8
    random: float = 0.1

    def __post_init__(self) -> None:
        # Sums of decimal shares may miss 1 by a rounding.
        require(self.masked >= 0 and self.random >= 0 and self.masked + self.random <= 1 + 1e-9,
                f"{setting('mask_replace_prob')} and {setting('random_replace_prob')}",
                f"{self.masked} and {self.random}", "shares that add up to 1 at most")
