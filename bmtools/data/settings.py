"""Settings of shards; importing this is cheap."""

from __future__ import annotations

from dataclasses import dataclass

from bmtools.errors import require


@dataclass(frozen=True)
class ShardConfig:
    """Encoding of records into shards.

    Args:
        sentences: also store where sentences begin, for sentence pairs; takes more than
            twice as long.
        lang: language of records that name none, for sentence borders; such as it.
        segmenter: word segmentation: tokenizer (for languages with spaces), japanese, chinese,
            thai, or one of an installed package.
        shard_tokens: most tokens of a shard; a longer document has a shard of its own.
    """

    sentences: bool = False
    lang: str = ""
    segmenter: str = "tokenizer"
    shard_tokens: int = 1 << 26

    def __post_init__(self) -> None:
        require(1 <= self.shard_tokens <= 1 << 31, "shard_tokens", self.shard_tokens,
                f"1 to {1 << 31}")
