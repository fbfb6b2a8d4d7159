"""Settings of the description of a corpus."""

from __future__ import annotations

from itertools import pairwise

from bmtools.errors import require
from bmtools.settings import Settings, option

OTHERS, UNSTATED, NO_TOPIC = "others", "unstated", "none"
"""Names in a description of values that are not named, not stated, and of no topic."""


class DescribeConfig(Settings, title="The description of a corpus"):
    """Settings of the description of a corpus."""

    bands: str = option("10,100,1000", "Frequencies at which bands of words begin, the first band "
                                       "aside: words that occur 1 to 9, 10 to 99, 100 to 999 and "
                                       "1,000 times or more.", metavar="N,...")
    uncased: bool = option(False, "Count words without regard to case.")
    keys: str = option("", "Further keys whose values are counted, separated by commas: "
                           "meta.journal ...", metavar="KEY,...")
    most: int = option(20, "Number of values named of each key, the most frequent ones.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
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
