"""Settings of the search for contexts; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

UNITS = ("sentence", "record")


@dataclass(frozen=True)
class ContextConfig:
    """What is drawn.

    Args:
        most: sentences drawn for a word at most (BIOptimus: 1 to 20).
        unit: sentence, or record for records that are sentences already and are not split.
        lang: language of records that do not say it; sentences are split by it.
        seed: seed of the sample.
    """

    most: int = 20
    unit: str = "sentence"
    lang: str = "en"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"--most: found {self.most}, expected 1 or more")
        if self.unit not in UNITS:
            raise ValueError(f"--unit: found {self.unit!r}, expected {' or '.join(UNITS)}")
        if not self.lang:
            raise ValueError("--lang: found nothing, expected a language code such as en")
