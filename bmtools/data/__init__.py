"""Tokenized shards, packing, sampling, sentence pairs and batches.

The public function is imported when first used.
"""

from bmtools.lazy import export

export(__name__, tokenize="bmtools.data.tokenize")
