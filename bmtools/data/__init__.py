"""Tokenized shards, packing, sampling, sentence pairs and batches.

The public function is imported when first used.
"""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.data.tokenize import tokenize as tokenize

export(__name__, tokenize="bmtools.data.tokenize")
