"""Readers of source formats, cleaning, duplicates, samples and splits.

The public functions are imported when first used.
"""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.corpus.cleaning.clean import clean as clean
    from bmtools.corpus.duplicates.decontaminate import decontaminate as decontaminate
    from bmtools.corpus.duplicates.dedup import dedup as dedup
    from bmtools.corpus.sampling.mix import mix as mix
    from bmtools.corpus.sampling.sample import sample as sample
    from bmtools.corpus.split import split as split

export(__name__, clean="bmtools.corpus.cleaning.clean",
       decontaminate="bmtools.corpus.duplicates.decontaminate",
       dedup="bmtools.corpus.duplicates.dedup", mix="bmtools.corpus.sampling.mix",
       sample="bmtools.corpus.sampling.sample", split="bmtools.corpus.split")
