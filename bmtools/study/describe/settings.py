"""Settings of the description of a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from bmtools.errors import require, require_at_least


@dataclass(frozen=True)
class DescribeConfig:
    """Settings of the description of a corpus.

    Args:
        bands: frequencies at which bands of words begin, the first band aside: words that occur
            1 to 9, 10 to 99, 100 to 999 and 1,000 times or more.
        uncased: count words without regard to case.
        keys: further keys whose values are counted, separated by commas: meta.journal ...
        most: number of values named of each key, the most frequent ones.
    """

    bands: str = "10,100,1000"
    uncased: bool = False
    keys: str = ""
    most: int = 20

    def __post_init__(self) -> None:
        require_at_least(self, most=1)
        require(min(self.bounds) > 1 and all(low < high for low, high in pairwise(self.bounds)),
                "bands", repr(self.bands), "rising whole numbers above 1, as 10,100,1000")

    @property
    def bounds(self) -> list[int]:
        """The bands as numbers; 0 for what is none."""
        return [int(one) if one.strip().isdecimal() else 0 for one in self.bands.split(",")]

    @property
    def key_list(self) -> list[str]:
        """The further keys as a list."""
        return [key.strip() for key in self.keys.split(",") if key.strip()]
