"""Settings of the search for duplicates and for evaluation texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bmtools.errors import check_choices, require, require_at_least, require_seed

Duplicates = Literal["near", "exact", "bytes"]
_LEAST_RECALL = 0.95  # of pairs right at the threshold


@dataclass(frozen=True)
class DedupConfig:
    """Settings of duplicates.

    Args:
        duplicates: near finds texts that share most of their words in order, and equal ones;
            exact only equal ones, case and white space aside; bytes only the very same.
        threshold: least similarity of near duplicates: Jaccard index of their runs of words.
        ngram_words: words of a run; shorter texts are one run.
        permutations: hashes a text, from which similarities are estimated; the standard error is
            at most 0.5 / sqrt(permutations).
        seed: seed of the hashes.
        keep: which one of several duplicates stays; those of other corpora stay in any case.
    """

    duplicates: Duplicates = "near"
    threshold: float = 0.7
    ngram_words: int = 5
    permutations: int = 128
    seed: int = 0
    keep: Literal["first", "last", "longest"] = "first"

    def __post_init__(self) -> None:
        check_choices(self)
        require_at_least(self, ngram_words=1, permutations=16)
        require(0 < self.threshold <= 1, "threshold", self.threshold, "above 0, at most 1")
        require(self.permutations <= 1024, "permutations", self.permutations, "1024 or fewer")
        require_seed(self.seed)


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


@dataclass(frozen=True)
class ContaminationConfig:
    """Settings of contamination.

    Args:
        ngram_words: words of a run that a record and an evaluation text share.
        least_words: of a shorter evaluation text the whole is looked for, if it has so many words.
        least_share: share of the runs of an evaluation text that a record must have; 0 for one run.
        keys: of the evaluation records whose texts are looked for, separated by commas; the word
            behind a [MASK] takes its place.
        action: drop leaves out records that share a run, report lets them pass.
    """

    ngram_words: int = 13
    least_words: int = 8
    least_share: float = 0.0
    keys: str = "text,text_pair,question"
    action: Literal["drop", "report"] = "drop"

    def __post_init__(self) -> None:
        check_choices(self)
        require_at_least(self, ngram_words=1, least_words=1)
        require(0 <= self.least_share <= 1, "least_share", self.least_share, "0 to 1")
        require(all(self.key_list), "keys", repr(self.keys), "names of keys, as text,question")

    @property
    def key_list(self) -> list[str]:
        """The keys, one by one."""
        return [key.strip() for key in self.keys.split(",")]


def contaminated_texts(counts: Mapping[str, int]) -> int:
    """Count the evaluation records that are in the corpus, from the counts of the outcomes."""
    return len(counts.keys() - {"all", "contaminated"})
