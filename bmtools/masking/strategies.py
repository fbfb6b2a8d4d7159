"""Masking strategies: tokens, whole words, spans of words, listed terms."""

from __future__ import annotations

from typing import Protocol, get_args

import numpy as np

from bmtools.errors import require, setting
from bmtools.masking.mask_units import MaskRates, mask_random_units
from bmtools.masking.settings import Masking
from bmtools.masking.spans import mask_spans
from bmtools.masking.terms import TermList
from bmtools.masking.token_batch import MaskUnits, TokenBatch


class MaskStrategy(Protocol):
    """Choice of the tokens to mask."""

    def __call__(self, text: TokenBatch, rates: MaskRates) -> np.ndarray:
        """Mark a share of each sample's maskable tokens, (tokens,) bool."""


def mask_tokens(text: TokenBatch, rates: MaskRates) -> np.ndarray:
    """Mask single tokens in random order until a share of each sample's tokens is masked.

    Source: Devlin et al. 2019 (BERT), section 3.1.

    Args:
        rates: share of maskable tokens to mask, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: rate outside 0 to 1.
    """
    begins = np.flatnonzero(text.maskable)
    units = MaskUnits(begins, np.ones_like(begins), begins.searchsorted(text.borders))
    return mask_random_units(text, units, rates)


def mask_words(text: TokenBatch, rates: MaskRates) -> np.ndarray:
    """Mask whole words in random order until a share of each sample's tokens is masked.

    Each word is as likely as any other to come next, so words of many tokens are masked as often
    as short ones. The rate is met on average, see `mask_units_by_rank`.

    Source: whole-word masking as in Gu et al. 2021 (PubMedBERT), section 2.3.

    Args:
        rates: share of maskable tokens to mask, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: rate outside 0 to 1.
    """
    return mask_random_units(text, text.words, rates)


def make_strategy(name: str, terms: TermList | None = None) -> MaskStrategy:
    """Make a masking strategy.

    Args:
        name: a `Masking`.
        terms: for masking of terms, which prefers them.

    Raises:
        ValueError: no such strategy, or no terms for it.
    """
    require(name in get_args(Masking), "masking", name, " or ".join(get_args(Masking)))
    if name == "terms":
        if terms is None:
            raise ValueError(f"{setting('masking')} terms: found no terms, "
                             f"expected {setting('terms')} as well")
        return terms.mask
    return {"tokens": mask_tokens, "words": mask_words, "spans": mask_spans}[name]
