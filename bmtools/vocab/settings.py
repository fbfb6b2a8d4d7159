"""Settings of vocabularies; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bmtools.errors import require

KINDS = ("wordpiece", "bpe", "unigram")
LAYOUTS = ("bert", "roberta", "modernbert")
FORMS = ("nfc", "nfkc", "none")
AUTO = 0
"""The size that stands for one chosen by data."""
_LEAST_SIZE = 100
_LAYOUT_OF = {"wordpiece": "bert", "bpe": "roberta", "unigram": "roberta"}


@dataclass(frozen=True)
class VocabularyConfig:
    """What vocabulary is learned, and from how much.

    Args:
        size: number of tokens, special ones included; `auto` chooses it by data.
        uncased: fold case before anything else.
        strip_accents: drop combining accents. BERT ties this to `uncased`; here it is apart and
            off, because in Italian, Spanish or French an accent tells words from one another.
        min_frequency: a pair seen less often is never merged (wordpiece and bpe).
        max_alphabet: characters kept; the rarest beyond that become unknown. A bpe vocabulary
            spells every character by its bytes and needs no such limit.
        kind: wordpiece, bpe (byte-level) or unigram (SentencePiece).
        layout: names of special tokens and what stands around a text: bert, roberta or
            modernbert; empty for bert with wordpiece and roberta with the others.
        unicode: form that characters are brought to: nfc joins letters and their accents, nfkc
            also turns ligatures, full-width letters and raised digits into plain ones.
        split_digits: make every digit 0 to 9 a token of its own.
        spell_greek: write Greek letters out, as in TNF-alpha; the letter mu and the micro sign
            become u before a Latin letter, as in ug. Not for text in Greek.
        at_most: accept fewer tokens than `size` where the text supports no more.
        sample_megabytes: text learned from and held in memory, in millions of bytes of UTF-8;
            of longer input, documents are drawn at random. 0 counts all of it as it goes by.
        seed: decides which documents are drawn, and which held out.
    """

    size: int = 30_000
    uncased: bool = False
    strip_accents: bool = False
    min_frequency: int = 2
    max_alphabet: int = 1_000
    kind: str = "wordpiece"
    layout: str = ""
    unicode: str = "nfc"
    split_digits: bool = False
    spell_greek: bool = False
    at_most: bool = False
    sample_megabytes: float = 1_000.0
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.size == AUTO or self.size >= _LEAST_SIZE, "--size", self.size,
                f"at least {_LEAST_SIZE}")
        require(self.min_frequency >= 1, "--min-frequency", self.min_frequency, "at least 1")
        require(self.max_alphabet >= 1, "--max-alphabet", self.max_alphabet, "at least 1")
        require(self.kind in KINDS, "--kind", self.kind, ", ".join(KINDS))
        require(self.layout in ("", *LAYOUTS), "--layout", self.layout, ", ".join(LAYOUTS))
        require(self.unicode in FORMS, "--unicode", self.unicode, ", ".join(FORMS))
        require(self.sample_megabytes >= 0, "--sample-megabytes", self.sample_megabytes,
                "0 or more")

    @property
    def frame(self) -> str:
        """The layout, that of the kind where none is named."""
        return self.layout or _LAYOUT_OF[self.kind]


WordPieceConfig = VocabularyConfig
"""What Python calls it where only WordPiece is meant."""


@dataclass(frozen=True)
class SizeSearchConfig:
    """How `--size auto` chooses.

    Args:
        candidates: sizes to compare, by commas; those that the text does not support are left
            out.
        held_out: share of the documents that sizes are judged by and nothing is learned from.
        terms: file of terms, one a line, that sizes are judged by as well.
        width: numbers in a token's embedding, for what a size costs in parameters.
    """

    candidates: str = "4000,8000,12000,16000,24000,32000,48000,64000"
    held_out: float = 0.05
    terms: str = ""
    width: int = 768

    def __post_init__(self) -> None:
        sizes = self.sizes()
        require(len(sizes) >= 3 and sizes[0] >= _LEAST_SIZE, "--candidates", self.candidates,
                f"three whole numbers or more by commas, each at least {_LEAST_SIZE}")
        require(0 < self.held_out < 1, "--held-out", self.held_out, "a share between 0 and 1")
        require(self.width >= 1, "--width", self.width, "at least 1")

    def sizes(self) -> list[int]:
        """The candidates in rising order; none where they cannot be read."""
        try:
            return sorted({int(size) for size in self.candidates.split(",")})
        except ValueError:
            return []
