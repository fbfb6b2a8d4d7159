"""Whole-word masking."""

from __future__ import annotations

import numpy as np

from bmtools.masking.text import Text
from bmtools.masking.units import Rates, draw, words_of


def pick_words(text: Text, rates: Rates) -> np.ndarray:
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
    return draw(text, words_of(text), rates)
