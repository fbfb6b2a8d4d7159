"""The ways of masking, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bmtools.masking.settings import MASKINGS
from bmtools.masking.spans import pick_spans
from bmtools.masking.terms import PickTerms
from bmtools.masking.text import Text
from bmtools.masking.tokens import pick_tokens
from bmtools.masking.units import Rates
from bmtools.masking.words import pick_words


class Pick(Protocol):
    """Anything that says which tokens of a text are hidden."""

    def __call__(self, text: Text, rates: Rates) -> np.ndarray:
        """Pick a share of each sample's maskable tokens, (tokens,) bool."""


@dataclass(frozen=True)
class Strategy:
    """A way of masking.

    Args:
        make: gives the function that picks, from what is needed.
        needs: `terms`, a `TermList`.
        sees_words: whether it matters where words begin.
    """

    make: Callable[..., Pick]
    needs: tuple[str, ...] = ()
    sees_words: bool = True


STRATEGIES = {
    "tokens": Strategy(lambda: pick_tokens, sees_words=False),
    "words": Strategy(lambda: pick_words),
    "spans": Strategy(lambda: pick_spans),
    "terms": Strategy(PickTerms, needs=("terms",)),
}
assert tuple(STRATEGIES) == MASKINGS


def make_pick(name: str, **given: Any) -> Pick:
    """Give the function that picks by a strategy.

    Args:
        name: one of `MASKINGS`.
        given: what strategies may need; what this one does not need is left unused.

    Raises:
        ValueError: no such strategy, or something that it needs is missing.
    """
    if name not in STRATEGIES:
        raise ValueError(f"--masking: found {name}, expected {' or '.join(STRATEGIES)}")
    strategy = STRATEGIES[name]
    for need in strategy.needs:
        if given.get(need) is None:
            raise ValueError(f"--masking {name}: found no {need}, expected --{need} as well")
    return strategy.make(**{need: given[need] for need in strategy.needs})
