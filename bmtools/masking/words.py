"""Whole-word masking."""

from __future__ import annotations

import numpy as np

from bmtools.masking.mask_units import MaskRates, mask_random_units
from bmtools.masking.token_batch import TokenBatch


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
