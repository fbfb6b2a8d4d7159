"""Settings of vocabularies; importing this costs nothing."""

from __future__ import annotations

from typing import Literal

from bmtools.errors import DataError, check_choices, require, require_seed, setting
from bmtools.settings import Settings, option

TokenizerType = Literal["wordpiece", "bpe", "unigram"]
SpecialTokenStyle = Literal["bert", "roberta", "modernbert"]
UnicodeForm = Literal["nfc", "nfkc", "none"]
AUTO = 0
"""The size for one that data choose."""
MIN_SIZE = 100


class VocabularyConfig(Settings, title="A vocabulary and of the text it is trained on"):
    """Settings of a vocabulary and of the text it is trained on."""

    size: int = option(
        30_000, "Number of tokens, special ones included; `auto` chooses it by data.")
    uncased: bool = option(False, "Lower-case text before anything else.")
    strip_accents: bool = option(
        False, "Drop combining accents. BERT ties this to `uncased`; here it is apart and off, "
               "because in Italian, Spanish or French an accent tells words from one another.")
    min_frequency: int = option(2, "Pairs seen less often are never merged (wordpiece and bpe).")
    max_alphabet: int = option(
        1_000, "Characters kept; the rarest beyond that become unknown. A bpe vocabulary spells "
               "every character by its bytes and needs no such limit.")
    tokenizer_type: TokenizerType = option(
        "wordpiece", "wordpiece, bpe (byte-level) or unigram (SentencePiece).")
    special_tokens: SpecialTokenStyle | None = option(
        None, "Model family whose special tokens and sequence templates are used; by default bert "
              "with wordpiece and roberta with the others.")
    unicode: UnicodeForm = option(
        "nfc", "Unicode normalization: nfc joins letters and their accents, nfkc also turns "
               "ligatures, full-width letters and raised digits into plain ones.")
    split_digits: bool = option(False, "Make every digit 0 to 9 a token of its own.")
    spell_greek: bool = option(
        False, "Write Greek letters out, as in TNF-alpha; the letter mu and the micro sign become "
               "u before a Latin letter, as in ug. Not for text in Greek.")
    allow_fewer: bool = option(
        False, "Accept fewer tokens than `size` where the text supports no more.")
    sample_megabytes: float = option(
        1_000.0, "Text to train on, held in memory, in millions of bytes of UTF-8; longer input is "
                 "sampled at random, document by document. 0 reads all of it in one pass.")
    seed: int = option(0, "Seed of the sample and of the held-out documents.")

    def __post_init__(self) -> None:
        require(self.size == AUTO or self.size >= MIN_SIZE, "size", self.size,
                f"at least {MIN_SIZE}")
        require(self.min_frequency >= 1, "min_frequency", self.min_frequency, "at least 1")
        require(self.max_alphabet >= 1, "max_alphabet", self.max_alphabet, "at least 1")
        check_choices(self)
        require(self.sample_megabytes >= 0, "sample_megabytes", self.sample_megabytes, "0 or more")
        require_seed(self.seed)

    @property
    def special_token_style(self) -> SpecialTokenStyle:
        """Style of the special tokens, the tokenizer type's usual one by default."""
        return self.special_tokens or ("bert" if self.tokenizer_type == "wordpiece" else "roberta")

    def require_size(self, found: int, beside: str = "") -> None:
        """Raise an error for a vocabulary that is smaller than requested, unless that is allowed.

        Args:
            found: tokens that the text supports.
            beside: addition to the message about these tokens.

        Raises:
            DataError: names the size that the text supports.
        """
        if found < self.size and not self.allow_fewer:
            size = setting("size")
            raise DataError(
                f"{size}: found {self.size}, but the text supports {found} tokens{beside}; "
                f"expected {size} {found} or less, more text, or {setting('allow_fewer')} to take "
                "what there is")


class SizeSearchConfig(Settings, title="The search for a size"):
    """Settings of the search for a size (`size` auto)."""

    candidates: str = option(
        "4000,8000,12000,16000,24000,32000,48000,64000",
        "Sizes to compare, separated by commas; those that the text does not support are left out.",
        metavar="N,...")
    held_out_ratio: float = option(
        0.05, "Share of the documents that sizes are judged by instead of trained on.")
    terms: str = option(
        "", "File of terms, one a line, that sizes are judged by as well.", metavar="FILE")
    hidden_size: int = option(
        768, "Dimensions of the model's embeddings, to count a size's parameters.")

    def __post_init__(self) -> None:
        sizes = self.sizes()
        require(len(sizes) >= 3 and sizes[0] >= MIN_SIZE, "candidates", self.candidates,
                f"three whole numbers or more by commas, each at least {MIN_SIZE}")
        require(0 < self.held_out_ratio < 1, "held_out_ratio", self.held_out_ratio,
                "a share between 0 and 1")
        require(self.hidden_size >= 1, "hidden_size", self.hidden_size, "at least 1")

    def sizes(self) -> list[int]:
        """Return the candidates in rising order; none where they cannot be parsed."""
        try:
            return sorted({int(size) for size in self.candidates.split(",")})
        except ValueError:
            return []
