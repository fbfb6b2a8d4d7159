"""Settings of vocabularies; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WordPieceSettings:
    """How a WordPiece vocabulary is learned.

    Args:
        size: number of tokens, the five special ones included.
        uncased: fold case before anything else.
        strip_accents: drop combining accents. BERT ties this to `uncased`; here it is apart and
            off, because in Italian, Spanish or French an accent tells words from one another.
        min_frequency: a pair seen less often is never merged.
        max_alphabet: characters kept; the rarest beyond that become unknown.
    """

    size: int = 30_000
    uncased: bool = False
    strip_accents: bool = False
    min_frequency: int = 2
    max_alphabet: int = 1_000

    def __post_init__(self) -> None:
        if self.size < 100:
            raise ValueError(f"--size: found {self.size}, expected at least 100")
        if self.min_frequency < 1:
            raise ValueError(f"--min-frequency: found {self.min_frequency}, expected at least 1")
        if self.max_alphabet < 1:
            raise ValueError(f"--max-alphabet: found {self.max_alphabet}, expected at least 1")
