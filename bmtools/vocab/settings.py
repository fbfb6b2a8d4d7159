"""Settings of vocabularies; importing this costs nothing."""

from __future__ import annotations

from typing import Literal

from bmtools.errors import LAST_SEED, DataError, setting
from bmtools.settings import Settings, option

TokenizerType = Literal["wordpiece", "bpe", "unigram"]
SpecialTokenStyle = Literal["bert", "roberta", "modernbert"]
UnicodeForm = Literal["nfc", "nfkc", "none"]


class VocabularyConfig(Settings, title="A vocabulary and of the text it is trained on"):
    """Settings of a vocabulary and of the text it is trained on."""

    size: int = option(30_000, "Number of tokens, special ones included.", least=100)
    uncased: bool = option(False, "Lower-case text before anything else.")
    strip_accents: bool = option(
        False, "Drop combining accents. BERT ties this to `uncased`; here it is apart and off, "
               "because in Italian, Spanish or French an accent tells words from one another.")
    min_frequency: int = option(2, "Pairs seen less often are never merged (wordpiece and bpe).",
                                least=1)
    max_alphabet: int = option(
        1_000, "Characters kept; the rarest beyond that become unknown. A bpe vocabulary spells "
               "every character by its bytes and needs no such limit.", least=1)
    tokenizer_type: TokenizerType = option(
        "wordpiece", "wordpiece, bpe (byte-level) or unigram (SentencePiece).")
    special_tokens: SpecialTokenStyle | None = option(
        None, "Model family whose special tokens and sequence templates are used; by default bert "
              "with wordpiece and roberta with the others.")
    unicode: UnicodeForm = option(
        "nfc", "Unicode normalization: nfc joins letters and their accents, nfkc also turns "
               "ligatures, full-width letters and raised digits into plain ones (exponents after a "
               "number with ^).")
    split_digits: bool = option(False, "Make every digit 0 to 9 a token of its own.")
    allow_fewer: bool = option(
        False, "Accept fewer tokens than `size` where the text supports no more.")
    sample_megabytes: float = option(
        1_000.0, "Text to train on, in millions of bytes of UTF-8, kept in a temporary file. "
                 "Longer input is sampled at random, document by document: the same seed samples "
                 "the same documents. 0 reads all of it in one pass.")
    seed: int = option(0, "Seed of the sample.", most=LAST_SEED)

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
