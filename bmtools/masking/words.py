"""Whole-word masking."""

from __future__ import annotations

import numpy as np

from bmtools.masking.mask_units import Rates, draw_units, find_words
from bmtools.masking.token_batch import TokenBatch


def mask_words(text: TokenBatch, rates: Rates) -> np.ndarray:
    """Pick whole words in random order until a share of each sample's tokens is picked.

    Every word is as likely as any other to come next, so words of many tokens are picked as often
    as short ones. The rate is met on average, as `take` explains.

    Source: whole-word masking as in Gu et al. 2021 (PubMedBERT), section 2.3.

    Args:
        rates: share of maskable tokens to pick, 0 to 1: one, or (samples,).

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: rate outside 0 to 1.
    """
    return draw_units(text, find_words(text), rates)
