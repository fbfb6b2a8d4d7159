"""Settings of corpora; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ShardConfig:
    """How records become shards.

    Args:
        sentences: also note where sentences begin, which next-sentence prediction needs; takes
            more than twice as long.
        lang: language to find sentences in where a record names none, such as it.
        segmenter: what finds words: tokenizer (right where spaces are written), japanese,
            chinese, thai, or one that an installed package brings.
        shard_tokens: tokens of a shard at most; a document that is longer has one to itself.
    """

    sentences: bool = False
    lang: str = ""
    segmenter: str = "tokenizer"
    shard_tokens: int = 1 << 26

    def __post_init__(self) -> None:
        if not 1 <= self.shard_tokens <= 1 << 31:
            raise ValueError(f"--shard-tokens: found {self.shard_tokens}, expected 1 to {1 << 31}")
