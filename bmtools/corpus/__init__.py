"""Readers of source formats, cleaning, duplicates, samples and splits.

The public functions are imported when first used.
"""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.corpus.cleaning.clean import clean as clean
    from bmtools.corpus.duplicates.contamination import decontaminate as decontaminate
    from bmtools.corpus.duplicates.deduplicate import dedup as dedup
    from bmtools.corpus.sampling.mix import mix as mix
    from bmtools.corpus.sampling.sample import sample as sample
    from bmtools.corpus.splits import split as split

export(__name__, clean="bmtools.corpus.cleaning.clean",
       decontaminate="bmtools.corpus.duplicates.contamination",
       dedup="bmtools.corpus.duplicates.deduplicate", mix="bmtools.corpus.sampling.mix",
       sample="bmtools.corpus.sampling.sample", split="bmtools.corpus.splits")
