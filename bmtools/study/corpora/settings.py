"""Settings of the description of a corpus."""

from __future__ import annotations

from itertools import pairwise

from bmtools.errors import require
from bmtools.settings import Settings, option

OTHERS, UNSTATED, NO_TOPIC = "others", "unstated", "none"
"""Names in a description for other values, missing values, and records without a topic."""


class DescribeConfig(Settings, title="The description of a corpus"):
    """Settings of the description of a corpus."""

    bands: str = option("10,100,1000", "Frequencies at which the second and further bands of words "
                                       "begin. The default bands are 1 to 9, 10 to 99, 100 to 999 "
                                       "and 1,000 or more.", metavar="N,...")
    uncased: bool = option(False, "Ignore case when counting words.")
    keys: str = option("", "Further keys whose values are counted, separated by commas: "
                           "meta.journal ...", metavar="KEY,...")
    most: int = option(20, "Number of most frequent values to list for each key.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(min(self.bounds) > 1 and all(low < high for low, high in pairwise(self.bounds)),
                "bands", repr(self.bands), "increasing whole numbers above 1, such as 10,100,1000")

    @property
    def bounds(self) -> list[int]:
        """The bands as integers, with 0 for entries that are not integers."""
        return [int(one) if one.strip().isdecimal() else 0 for one in self.bands.split(",")]

    @property
    def key_list(self) -> list[str]:
        """The further keys as a list."""
        return [key.strip() for key in self.keys.split(",") if key.strip()]
