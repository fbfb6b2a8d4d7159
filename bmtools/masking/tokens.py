"""Masking of single tokens."""

from __future__ import annotations

import numpy as np

from bmtools.masking.mask_units import MaskUnits, Rates, draw_units
from bmtools.masking.token_batch import TokenBatch


def mask_tokens(text: TokenBatch, rates: Rates) -> np.ndarray:
    """Pick single tokens in random order until a share of each sample's tokens is picked.

    Source: Devlin et al. 2019 (BERT), section 3.1.

    Args:
        rates: share of maskable tokens to pick, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: rate outside 0 to 1.
    """
    begins = np.flatnonzero(text.maskable)
    return draw_units(text, MaskUnits(begins, np.ones_like(begins), text.borders_among(begins)),
                      rates)
