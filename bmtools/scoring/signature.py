"""Signatures of scores: their settings in one line to print beside them (after Post 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmtools.io.manifest import versions
from bmtools.vocab.tokenizer import is_uncased

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PACKAGES = ("bmtools", "torch", "transformers")
_SHOWN_DIGITS = 12


def signature(metric: str, variant: str, tokenizer: PreTrainedTokenizerBase,
                   **settings: object) -> str:
    """Write a metric, its settings and the versions it was computed with as one line.

    Scores compare where their signatures agree; scores per token also need one vocabulary, whose
    fingerprint is printed beside them.
    """
    fields = {metric: variant, **settings,
              "case": "folded" if is_uncased(tokenizer) else "kept",
              **{name: version for name, version in versions().items() if name in _PACKAGES}}
    shown = {True: "yes", False: "no"}
    return "|".join(f"{name}:{shown[value] if isinstance(value, bool) else value}"
                    for name, value in fields.items())


def short_fingerprint(fingerprint: str) -> str:
    """Shorten a vocabulary's fingerprint to the digits that messages show."""
    return fingerprint[:_SHOWN_DIGITS]
