"""Settings of shards; a light module."""

from __future__ import annotations

from bmtools.settings import Settings, option


class ShardConfig(Settings, title="Encoding of records into shards"):
    """Encoding of records into shards."""

    sentences: bool = option(False, "Also store where sentences begin, for sentence pairs; takes "
                                    "more than twice as long.")
    lang: str = option(
        "", "Default language of records, for sentence borders, such as it.", metavar="CODE")
    segmenter: str = option(
        "tokenizer", "Word segmentation: tokenizer (for languages with spaces), japanese, chinese, "
                     "thai, or one of an installed package.", metavar="NAME")
    shard_tokens: int = option(
        1 << 26, "Maximum tokens of a shard; a longer document gets its own shard.",
        least=1, most=1 << 31)
