"""Lines of scores: signatures (after Post 2018), rounded numbers, groups by a key of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmtools.installation import versions
from bmtools.statistics.lines import FINGERPRINT_DIGITS, Line
from bmtools.vocab.tokenizer import is_uncased, strips_accents

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PACKAGES = ("torch", "transformers")
_SHOWN = {True: "yes", False: "no"}


def signed(metric: str, variant: str, tokenizer: PreTrainedTokenizerBase, vocabulary: str,
           **settings: object) -> Line:
    """Make the last keys of a line: the vocabulary, and how and with which versions it was made.

    Scores compare where their signatures agree; scores per token also need one vocabulary.
    Settings that are None are left out.

    Returns:
        `vocabulary`: its short fingerprint; `signature`: metric, settings and versions, one line.
    """
    fields = {metric: variant, **settings, **text_fields(tokenizer), **versions(*_PACKAGES)}
    shown = (f"{name}:{_SHOWN[value] if isinstance(value, bool) else value}"
             for name, value in fields.items() if value is not None)
    return {"vocabulary": vocabulary[:FINGERPRINT_DIGITS], "signature": "|".join(shown)}


def text_fields(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """Say what a tokenizer drops of a text before it is read: its case, and its accents."""
    return {"case": "folded" if is_uncased(tokenizer) else "kept",
            "accents": "stripped" if strips_accents(tokenizer) else "kept"}
