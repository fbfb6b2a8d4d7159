"""What the model sees in place of a masked token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

IGNORED = -100


@dataclass(frozen=True)
class Corruption:
    """Shares of picked tokens that become the mask token, a random token, or stay themselves.

    Source: Devlin et al. 2019, section 3.1 (80, 10 and 10 percent).
    """

    masked: float = 0.8
    random: float = 0.1

    def __post_init__(self) -> None:
        if min(self.masked, self.random) < 0 or self.masked + self.random > 1:
            raise ValueError(f"corruption: found {self.masked} masked and {self.random} random, "
                             "expected shares that add up to 1 at most")


@dataclass(frozen=True, slots=True)
class Masked:
    """A batch to restore: inputs and labels, (batch, tokens); IGNORED where nothing is asked."""

    inputs: np.ndarray
    labels: np.ndarray


def corrupt(ids: np.ndarray, picked: np.ndarray, mask_id: int, replacements: np.ndarray,
            corruption: Corruption, rng: np.random.Generator) -> Masked:
    """Hide the picked tokens; each token draws its own fate, also inside a word.

    Args:
        ids: (batch, tokens) ids; left untouched.
        picked: (batch, tokens) bool.
        mask_id: id of the mask token.
        replacements: ids that a random token may come from.
        corruption: shares of the fates.
        rng: the source of all randomness.
    """
    fate = rng.random(ids.shape)
    strangers = replacements[rng.integers(len(replacements), size=ids.shape)]
    inputs = np.where(picked & (fate < corruption.masked), mask_id, ids)
    swapped = picked & (fate >= corruption.masked) & (fate < corruption.masked + corruption.random)
    inputs = np.where(swapped, strangers, inputs)
    return Masked(inputs, np.where(picked, ids, IGNORED))
