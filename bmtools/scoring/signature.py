"""How a score was made, in one line to print beside it (after Post 2018, sacreBLEU)."""

from __future__ import annotations

from typing import Any

from bmtools.io.manifest import versions
from bmtools.vocab.tokenizer import lower_cases

_PACKAGES = ("bmtools", "torch", "transformers")
_SHOWN_DIGITS = 12


def signature(metric: str, variant: str, tokenizer: Any, **settings: object) -> str:
    """Spell a metric, its settings and the versions it was computed with.

    Two scores may be compared where their signatures agree; scores per token also need one
    vocabulary, which is printed beside them.
    """
    parts = {metric: variant, **settings,
             "case": "folded" if lower_cases(tokenizer) else "kept",
             **{name: version for name, version in versions().items() if name in _PACKAGES}}
    return "|".join(f"{name}:{_spelled(value)}" for name, value in parts.items())


def short(fingerprint: str) -> str:
    """Shorten a vocabulary's fingerprint to what other messages show of it."""
    return fingerprint[:_SHOWN_DIGITS]


def _spelled(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
