"""Masking of single tokens."""

from __future__ import annotations

import numpy as np

from bmtools.masking.mask_units import MaskRates, mask_random_units
from bmtools.masking.token_batch import MaskUnits, TokenBatch


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
    units = MaskUnits(begins, np.ones_like(begins), text.borders_among(begins))
    return mask_random_units(text, units, rates)
