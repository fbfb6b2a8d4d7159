"""How many steps phases take on a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bmtools.corpus.shards import Corpus
from bmtools.training.pairs import PAIR_SPECIALS, SINGLE_SPECIALS
from bmtools.training.phases import Phase
from bmtools.training.stream import count_pieces
from bmtools.training.timeline import Timeline, Yield, resolve

_FILL = 0.995


def measure(phases: Sequence[Phase], corpora: Mapping[str, Corpus], packed: bool) -> Timeline:
    """Turn epochs and tokens into steps, exactly for padded rows and within a hundredth for others.

    Args:
        phases: in order.
        corpora: by name; an epoch shows all those of a phase's mixture.
        packed: whether documents share rows.
    """
    return resolve(phases, lambda phase: yield_of(phase, corpora, packed))


def seen_tokens(phase: Phase, corpora: Mapping[str, Corpus]) -> int:
    """Tokens that a token attends to, on average: those of its document, up to a row."""
    lengths = np.minimum(_lengths(phase, corpora) + SINGLE_SPECIALS, phase.rows.row_tokens)
    return round(float((lengths.astype(np.float64)**2).sum() / lengths.sum()))


def _lengths(phase: Phase, corpora: Mapping[str, Corpus]) -> np.ndarray:
    names = [portion.corpus for portion in phase.mixture] or list(corpora)
    return np.concatenate([corpora[name].lengths for name in names]).astype(np.int64)


def yield_of(phase: Phase, corpora: Mapping[str, Corpus], packed: bool) -> Yield:
    """Count what the text of a phase gives; arguments as for `measure`."""
    lengths = _lengths(phase, corpora)
    size = phase.rows.row_tokens
    if phase.task.objective == "masked+nsp":
        # Each pair brings a random second segment, so an epoch is longer by about a quarter.
        rows = 1.25 * float(lengths.sum()) / ((size - PAIR_SPECIALS) * 0.9)
        return Yield(rows, size * 0.9)
    if packed:
        tokens = float(lengths.sum()) + SINGLE_SPECIALS * len(lengths)
        return Yield(tokens / (size * _FILL), size * _FILL)
    pieces = count_pieces(lengths, size - SINGLE_SPECIALS)
    rows = int(pieces.sum())
    return Yield(rows, float(lengths.sum()) / rows + SINGLE_SPECIALS)
