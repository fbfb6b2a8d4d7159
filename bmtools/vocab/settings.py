"""Settings of vocabularies; fast to import."""

from __future__ import annotations

from typing import Literal

from bmtools.errors import LAST_SEED, DataError, setting
from bmtools.settings import Settings, option

TokenizerType = Literal["wordpiece", "bpe", "unigram"]
SpecialTokenStyle = Literal["bert", "roberta", "modernbert"]
UnicodeForm = Literal["nfc", "nfkc", "none"]


class VocabularyConfig(Settings, title="A vocabulary and its training text"):
    """Settings of a vocabulary and of the text it is trained on."""

    size: int = option(30_000, "Number of tokens, including special tokens.", least=100)
    uncased: bool = option(False, "Lower-case text before anything else.")
    strip_accents: bool = option(
        False, "Drop combining accents. BERT ties this to `uncased`. Here it is separate and off, "
               "because in Italian, Spanish or French an accent can distinguish two words.")
    min_frequency: int = option(2, "Pairs seen less often are never merged (wordpiece and bpe).",
                                least=1)
    max_alphabet: int = option(
        1_000, "Characters kept; rarer characters become unknown. A bpe vocabulary spells every "
               "character with its bytes and needs no limit.", least=1)
    tokenizer_type: TokenizerType = option(
        "wordpiece", "wordpiece, bpe (byte-level) or unigram (SentencePiece).")
    special_tokens: SpecialTokenStyle | None = option(
        None, "Model family whose special tokens and sequence templates are used. Default: bert "
              "with wordpiece, roberta with bpe and unigram.")
    unicode: UnicodeForm = option(
        "nfc", "Unicode normalization: nfc joins letters and their accents. nfkc also converts "
               "ligatures, full-width letters and raised digits to plain ones (and writes "
               "exponents after a number with ^).")
    split_digits: bool = option(False, "Make every digit from 0 to 9 a separate token.")
    allow_fewer: bool = option(
        False, "Accept fewer tokens than `size` if the text does not support more.")
    sample_megabytes: float = option(
        1_000.0, "Text to train on, in millions of UTF-8 bytes, kept in a temporary file. "
                 "Documents of longer input are sampled at random; the same seed samples the same "
                 "documents. 0 reads all input in one pass.")
    seed: int = option(0, "Seed of the sample.", most=LAST_SEED)

    @property
    def special_token_style(self) -> SpecialTokenStyle:
        """Style of the special tokens; by default the usual style of the tokenizer type."""
        return self.special_tokens or ("bert" if self.tokenizer_type == "wordpiece" else "roberta")

    def require_size(self, found: int, addition: str = "") -> None:
        """Raise an error for a vocabulary that is smaller than requested, unless that is allowed.

        Args:
            found: number of tokens that the text supports.
            addition: addition to the message about these tokens.

        Raises:
            DataError: the vocabulary is too small; the message states the possible size.
        """
        if found < self.size and not self.allow_fewer:
            size = setting("size")
            raise DataError(
                f"{size}: found {self.size}, but the text supports {found} tokens{addition}; "
                f"set {size} {found} or less, add text, or set {setting('allow_fewer')} to "
                "accept fewer")
