"""Settings of the search for duplicates and evaluation texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bmtools.errors import LAST_SEED, require
from bmtools.settings import Settings, option

Duplicates = Literal["near", "exact"]
_LEAST_RECALL = 0.95  # of pairs exactly at the threshold


class DedupConfig(Settings, title="Duplicates"):
    """Settings of duplicates."""

    duplicates: Duplicates = option(
        "near", "near finds equal texts and texts that share most of their words in order. exact "
                "finds only equal texts. Both ignore case and white space.")
    no_chains: bool = option(
        False, "Leave out only records that are similar to the record that is kept. By default, "
               "records similar to a record that is left out are also left out, and so on.")
    threshold: float = option(
        0.7, "Minimum similarity of near duplicates: Jaccard index of their runs of words.",
        above=0, most=1)
    ngram_words: int = option(5, "Number of words in a run; a shorter text is one run.", least=1)
    permutations: int = option(128, "Hashes per text, from which similarities are estimated. The "
                                    "standard error is at most 0.5 / sqrt(permutations).",
                                    least=16, most=1024)
    seed: int = option(0, "Seed of the hashes.", most=LAST_SEED)


@dataclass(frozen=True)
class Bands:
    """Bands of a signature: texts that agree in all rows of a band are candidates.

    Source: Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, section 3.4.

    Args:
        bands: number of bands.
        rows: number of hashes in each band.
    """

    bands: int
    rows: int

    @classmethod
    def of(cls, threshold: float, permutations: int) -> Bands:
        """Return the bands with most rows that still find nearly all pairs at the threshold."""
        found = [cls(permutations // rows, rows) for rows in range(1, permutations + 1)]
        return next((one for one in reversed(found)
                     if one.recall(threshold) >= _LEAST_RECALL), found[0])

    def recall(self, similarity: float) -> float:
        """Return the expected share of pairs with this similarity that become candidates."""
        return float(1 - (1 - similarity ** self.rows) ** self.bands)


class ContaminationConfig(Settings, title="Contamination"):
    """Settings of contamination."""

    ngram_words: int = option(13, "Words in a run that a record and an evaluation text share.",
                              least=1)
    least_words: int = option(
        8, "Minimum number of words in evaluation texts. A text shorter than a run is one run.",
        least=1)
    keys: str = option(
        "text,text_pair,question", "Keys of evaluation records with texts to search for, separated "
                                   "by commas. [MASK] is replaced by the masked word.",
        metavar="KEY,...")
    action: Literal["drop", "report"] = option(
        "drop", "drop leaves out records that share a run, report keeps them.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(all(self.key_list), "keys", repr(self.keys), "names of keys, such as text,question")

    @property
    def key_list(self) -> list[str]:
        """The keys as a list."""
        return [key.strip() for key in self.keys.split(",")]


def contaminated_texts(counts: Mapping[str, int]) -> int:
    """Return the number of evaluation records in the corpus, from the counts of the outcomes."""
    return len(counts.keys() - {"all", "contaminated"})
