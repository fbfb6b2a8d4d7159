"""Settings of weight transfer; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

METHODS = ("random", "average", "contextual")


@dataclass(frozen=True)
class TransferSettings:
    """How tokens that the base model lacks get their embeddings.

    Args:
        method: random (drawn anew), average (mean of the base's pieces) or contextual (mean of
            the base's last-layer states at those pieces, in sentences of the corpus).
        rescale: shrink contextual embeddings, all by one factor, to the mean length of the base's
            own. A departure from the paper: states are longer than embeddings, by ten times or
            more in small models, so a tied output layer starts out far worse than chance.
        max_sentences: most sentences sampled for a token.
        batch_tokens: tokens run through the base model at a time.
        seed: seed of the sample and of random embeddings.
    """

    method: str = "contextual"
    rescale: bool = False
    max_sentences: int = 20
    batch_tokens: int = 4_096
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"--method: found {self.method!r}, expected {' or '.join(METHODS)}")
        if self.max_sentences < 1:
            raise ValueError(f"--max-sentences: found {self.max_sentences}, expected 1 or more")
        if self.batch_tokens < 1:
            raise ValueError(f"--batch-tokens: found {self.batch_tokens}, expected 1 or more")
