"""Masking strategies by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import numpy as np

from bmtools.errors import require, setting
from bmtools.masking.mask_units import MaskRates
from bmtools.masking.settings import Masking
from bmtools.masking.spans import mask_spans
from bmtools.masking.terms import TermMasking
from bmtools.masking.token_batch import TokenBatch
from bmtools.masking.tokens import mask_tokens
from bmtools.masking.words import mask_words


class MaskStrategy(Protocol):
    """Choice of the tokens to mask."""

    def __call__(self, text: TokenBatch, rates: MaskRates) -> np.ndarray:
        """Mark a share of each sample's maskable tokens, (tokens,) bool."""


@dataclass(frozen=True)
class StrategyInfo:
    """Registry entry of a masking strategy.

    Args:
        make: factory; takes the arguments that `needs` lists.
        needs: `terms`, a `TermList`.
        uses_words: whether word starts make a difference.
    """

    make: Callable[..., MaskStrategy]
    needs: tuple[str, ...] = ()
    uses_words: bool = True


STRATEGIES = {
    "tokens": StrategyInfo(lambda: mask_tokens, uses_words=False),
    "words": StrategyInfo(lambda: mask_words),
    "spans": StrategyInfo(lambda: mask_spans),
    "terms": StrategyInfo(TermMasking, needs=("terms",)),
}
assert tuple(STRATEGIES) == get_args(Masking)


def make_strategy(name: str, **given: Any) -> MaskStrategy:
    """Make a masking strategy.

    Args:
        name: a `Masking`.
        given: arguments of all strategies; this one uses those that it needs.

    Raises:
        ValueError: no such strategy, or a missing argument.
    """
    require(name in STRATEGIES, "masking", name, " or ".join(STRATEGIES))
    strategy = STRATEGIES[name]
    for need in strategy.needs:
        if given.get(need) is None:
            raise ValueError(f"{setting('masking')} {name}: found no {need}, "
                             f"expected {setting(need)} as well")
    return strategy.make(**{need: given[need] for need in strategy.needs})
