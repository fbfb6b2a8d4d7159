"""What the model sees in place of a masked token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bmtools.keyed_random import Purpose, bits_per_key, choices, to_uniform
from bmtools.masking.settings import Corruption
from bmtools.masking.token_batch import TokenBatch

IGNORED = -100


@dataclass(frozen=True, eq=False, slots=True)
class MaskedTokens:
    """A text to restore: inputs and labels, (tokens,) each; IGNORED where nothing is asked."""

    inputs: np.ndarray
    labels: np.ndarray


def corrupt(text: TokenBatch, picked: np.ndarray, mask_id: int, replacements: np.ndarray,
            corruption: Corruption) -> MaskedTokens:
    """Hide the picked tokens; each token draws its own fate, also inside a word.

    Args:
        text: left untouched.
        picked: (tokens,) bool.
        mask_id: id of the mask token.
        replacements: (ids,) that a random token may come from, each as likely as any other.
        corruption: shares of the fates.
    """
    places = picked.nonzero()[0]
    drawn = bits_per_key(text.keys, text.borders_among(places), Purpose.FATE)
    fates = to_uniform(drawn)
    asked = text.ids.take(places)
    shown = asked.copy()
    shown[fates < corruption.masked] = mask_id
    swapped = (fates >= corruption.masked) & (fates < corruption.masked + corruption.random)
    shown[swapped] = replacements[choices(drawn[swapped], len(replacements))]
    inputs, labels = text.ids.copy(), np.full(len(text), IGNORED, dtype=text.ids.dtype)
    inputs[places], labels[places] = shown, asked
    return MaskedTokens(inputs, labels)
