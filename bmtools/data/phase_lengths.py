"""Lengths of phases: steps for an epoch of text, and caps that end a mixture's text early."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bmtools.data.samples import PAIR_SPECIALS, SINGLE_SPECIALS, count_parts
from bmtools.data.shards import Corpus
from bmtools.errors import BmtoolsError
from bmtools.recipes.phases import Phase
from bmtools.recipes.schedule import Schedule, count_steps
from bmtools.recipes.settings import PhaseLengthConfig

_PACKED_FILL = 0.995
_PAIR_FILL = 0.9
_CAP_SLACK = 0.1  # long documents that are cut into short packed sequences make more of them


def resolve_steps(phases: Sequence[Phase], corpora: Mapping[str, Corpus], packed: bool) -> Schedule:
    """Turn epochs and tokens into steps: exactly for padded sequences, else within a hundredth.

    Args:
        phases: of the run.
        corpora: by name.
        packed: whether documents share sequences.
    """
    return Schedule(phases, [count_steps(phase, *epoch_size(phase, corpora, packed))
                             for phase in phases])


def epoch_size(phase: Phase, corpora: Mapping[str, Corpus], packed: bool) -> tuple[float, float]:
    """Count the sequences of a phase's epoch, and the average tokens of a full sequence.

    Arguments are those of `resolve_steps`.
    """
    lengths = _lengths(phase, corpora)
    max_length = phase.batch.max_length
    if phase.objective.objective == "masked+nsp":
        # Each pair brings a random second segment, so an epoch is longer by about a quarter.
        room = (max_length - PAIR_SPECIALS) * _PAIR_FILL
        return 1.25 * float(lengths.sum()) / room, max_length * _PAIR_FILL
    if packed:
        tokens = float(lengths.sum()) + SINGLE_SPECIALS * len(lengths)
        return tokens / (max_length * _PACKED_FILL), max_length * _PACKED_FILL
    sequences = int(count_parts(lengths, max_length - SINGLE_SPECIALS).sum())
    return sequences, float(lengths.sum()) / sequences + SINGLE_SPECIALS


def attended_tokens(phase: Phase, corpora: Mapping[str, Corpus]) -> int:
    """Average the tokens that a token attends to: those of its document, up to a sequence."""
    lengths = np.minimum(_lengths(phase, corpora) + SINGLE_SPECIALS, phase.batch.max_length)
    return round(float((lengths.astype(np.float64)**2).sum() / lengths.sum()))


def check_mixture_limits(schedule: Schedule, corpora: Mapping[str, Corpus], packed: bool) -> None:
    """Refuse a phase that would use its corpora up, before it starts.

    A corpus of a mixture without a cap goes on alone when others are used up.

    Raises:
        BmtoolsError: the caps allow fewer steps than the phase takes.
    """
    for phase, steps in zip(schedule.phases, schedule.steps_per_phase, strict=True):
        if not phase.mixture or any(math.isinf(one.epochs) for one in phase.mixture):
            continue
        # The steps that each corpus alone lasts up to its cap.
        alone = [replace(phase, length=PhaseLengthConfig(epochs=one.epochs),
                         mixture=(replace(one, weight=1.0, end_weight=None),))
                 for one in phase.mixture]
        most = resolve_steps(alone, corpora, packed).steps
        if steps > most * (1 + _CAP_SLACK):
            raise BmtoolsError(
                f"phase {phase.name!r}: mixture: found caps that allow about {most} steps, "
                f"expected {steps}; raise 'epochs' there or take fewer steps")


def _lengths(phase: Phase, corpora: Mapping[str, Corpus]) -> np.ndarray:
    names = [one.corpus for one in phase.mixture] or list(corpora)
    return np.concatenate([corpora[name].lengths for name in names]).astype(np.int64)
