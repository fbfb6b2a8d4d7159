"""Replacement of masked tokens by the mask token, random tokens or themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bmtools.keyed_random import Purpose, bits_per_key, choices, to_uniform
from bmtools.masking.settings import Corruption
from bmtools.masking.token_batch import TokenBatch

IGNORED = -100


@dataclass(frozen=True, eq=False, slots=True)
class MaskedTokens:
    """Inputs and labels, (tokens,) each; labels are IGNORED on tokens that are not masked."""

    inputs: np.ndarray
    labels: np.ndarray


def corrupt(text: TokenBatch, masked: np.ndarray, mask_id: int, replacement_ids: np.ndarray,
            corruption: Corruption) -> MaskedTokens:
    """Replace masked tokens; each token draws its own replacement, also inside a word.

    Args:
        text: left untouched.
        masked: (tokens,) bool.
        mask_id: id of the mask token.
        replacement_ids: (ids,) that a random token is drawn from, each with the same probability.
        corruption: probabilities of the replacements.
    """
    positions = masked.nonzero()[0]
    drawn = bits_per_key(text.keys, positions.searchsorted(text.borders), Purpose.REPLACEMENT)
    chances = to_uniform(drawn)
    originals = text.ids.take(positions)
    replaced = originals.copy()
    replaced[chances < corruption.masked] = mask_id
    at_random = ((chances >= corruption.masked)
                 & (chances < corruption.masked + corruption.random))
    replaced[at_random] = replacement_ids[choices(drawn[at_random], len(replacement_ids))]
    inputs, labels = text.ids.copy(), np.full(len(text.ids), IGNORED, dtype=text.ids.dtype)
    inputs[positions], labels[positions] = replaced, originals
    return MaskedTokens(inputs, labels)
