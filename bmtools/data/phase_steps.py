"""How many steps phases take on a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bmtools.data.nsp_pairs import PAIR_SPECIALS, SINGLE_SPECIALS
from bmtools.data.sampler import count_pieces
from bmtools.data.shards import Corpus
from bmtools.recipes.phases import Phase
from bmtools.recipes.schedule import EpochSize, Schedule, make_schedule

_FILL = 0.995


def resolve_steps(phases: Sequence[Phase], corpora: Mapping[str, Corpus], packed: bool) -> Schedule:
    """Turn epochs and tokens into steps, exactly for padded rows and within a hundredth for others.

    Args:
        phases: in order.
        corpora: by name; an epoch shows all those of a phase's mixture.
        packed: whether documents share rows.
    """
    return make_schedule(phases, lambda phase: epoch_size(phase, corpora, packed))


def seen_tokens(phase: Phase, corpora: Mapping[str, Corpus]) -> int:
    """Tokens that a token attends to, on average: those of its document, up to a row."""
    lengths = np.minimum(_lengths(phase, corpora) + SINGLE_SPECIALS, phase.batch.max_length)
    return round(float((lengths.astype(np.float64)**2).sum() / lengths.sum()))


def _lengths(phase: Phase, corpora: Mapping[str, Corpus]) -> np.ndarray:
    names = [portion.corpus for portion in phase.mixture] or list(corpora)
    return np.concatenate([corpora[name].lengths for name in names]).astype(np.int64)


def epoch_size(phase: Phase, corpora: Mapping[str, Corpus], packed: bool) -> EpochSize:
    """Count what the text of a phase gives; arguments as for `resolve_steps`."""
    lengths = _lengths(phase, corpora)
    size = phase.batch.max_length
    if phase.objective.objective == "masked+nsp":
        # Each pair brings a random second segment, so an epoch is longer by about a quarter.
        rows = 1.25 * float(lengths.sum()) / ((size - PAIR_SPECIALS) * 0.9)
        return EpochSize(rows, size * 0.9)
    if packed:
        tokens = float(lengths.sum()) + SINGLE_SPECIALS * len(lengths)
        return EpochSize(tokens / (size * _FILL), size * _FILL)
    pieces = count_pieces(lengths, size - SINGLE_SPECIALS)
    rows = int(pieces.sum())
    return EpochSize(rows, float(lengths.sum()) / rows + SINGLE_SPECIALS)
