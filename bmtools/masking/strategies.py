"""The ways of masking, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import numpy as np

from bmtools.masking.mask_units import Rates
from bmtools.masking.settings import Masking
from bmtools.masking.spans import mask_spans
from bmtools.masking.terms import TermMasking
from bmtools.masking.token_batch import TokenBatch
from bmtools.masking.tokens import mask_tokens
from bmtools.masking.words import mask_words


class MaskStrategy(Protocol):
    """Anything that says which tokens of a text are hidden."""

    def __call__(self, text: TokenBatch, rates: Rates) -> np.ndarray:
        """Pick a share of each sample's maskable tokens, (tokens,) bool."""


@dataclass(frozen=True)
class StrategyInfo:
    """A way of masking.

    Args:
        make: gives the function that picks, from what is needed.
        needs: `terms`, a `TermList`.
        sees_words: whether it matters where words begin.
    """

    make: Callable[..., MaskStrategy]
    needs: tuple[str, ...] = ()
    sees_words: bool = True


STRATEGIES = {
    "tokens": StrategyInfo(lambda: mask_tokens, sees_words=False),
    "words": StrategyInfo(lambda: mask_words),
    "spans": StrategyInfo(lambda: mask_spans),
    "terms": StrategyInfo(TermMasking, needs=("terms",)),
}
assert tuple(STRATEGIES) == get_args(Masking)


def make_strategy(name: str, **given: Any) -> MaskStrategy:
    """Give the function that picks by a strategy.

    Args:
        name: a `Masking`.
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
