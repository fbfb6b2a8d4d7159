"""Settings of the search for duplicates and for evaluation texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bmtools.errors import LAST_SEED, require
from bmtools.settings import Settings, option

Duplicates = Literal["near", "exact"]
_LEAST_RECALL = 0.95  # of pairs right at the threshold


class DedupConfig(Settings, title="Duplicates"):
    """Settings of duplicates."""

    duplicates: Duplicates = option(
        "near", "near finds texts that share most of their words in order, and equal ones; exact "
                "only equal ones, case and white space aside.")
    no_chains: bool = option(
        False, "Leave out only records that are similar to the record that stays; by default also "
               "those similar to a record that is left out, and so on.")
    threshold: float = option(
        0.7, "Least similarity of near duplicates: Jaccard index of their runs of words.",
        above=0, most=1)
    ngram_words: int = option(5, "Words of a run; shorter texts are one run.", least=1)
    permutations: int = option(128, "Hashes a text, from which similarities are estimated; the "
                                    "standard error is at most 0.5 / sqrt(permutations).",
                                    least=16, most=1024)
    seed: int = option(0, "Seed of the hashes.", most=LAST_SEED)


@dataclass(frozen=True)
class Bands:
    """Bands of a signature: texts that agree in all rows of one are candidates.

    Source: Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, section 3.4.

    Args:
        bands: how many.
        rows: hashes of each.
    """

    bands: int
    rows: int

    @classmethod
    def of(cls, threshold: float, permutations: int) -> Bands:
        """Take as many rows as still find nearly all pairs at the threshold, one at least."""
        found = [cls(permutations // rows, rows) for rows in range(1, permutations + 1)]
        return next((one for one in reversed(found)
                     if one.recall(threshold) >= _LEAST_RECALL), found[0])

    def recall(self, similarity: float) -> float:
        """Return the expected share of pairs of a similarity that become candidates."""
        return float(1 - (1 - similarity ** self.rows) ** self.bands)


class ContaminationConfig(Settings, title="Contamination"):
    """Settings of contamination."""

    ngram_words: int = option(13, "Words of a run that a record and an evaluation text share.",
                              least=1)
    least_words: int = option(
        8, "Of a shorter evaluation text the whole is looked for, if it has so many words.",
        least=1)
    keys: str = option(
        "text,text_pair,question", "Of the evaluation records whose texts are looked for, "
                                   "separated by commas; the word behind a [MASK] takes its place.",
        metavar="KEY,...")
    action: Literal["drop", "report"] = option(
        "drop", "drop leaves out records that share a run, report lets them pass.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(all(self.key_list), "keys", repr(self.keys), "names of keys, as text,question")

    @property
    def key_list(self) -> list[str]:
        """The keys, one by one."""
        return [key.strip() for key in self.keys.split(",")]


def contaminated_texts(counts: Mapping[str, int]) -> int:
    """Count the evaluation records that are in the corpus, from the counts of the outcomes."""
    return len(counts.keys() - {"all", "contaminated"})
