"""Whether a phase's text lasts, where its mixture caps how often each corpus is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from bmtools.data.phase_steps import resolve_steps
from bmtools.data.shards import Corpus
from bmtools.errors import BmtoolsError
from bmtools.recipes.phases import MixtureWeight, Phase
from bmtools.recipes.schedule import Schedule
from bmtools.recipes.settings import PhaseLengthConfig

_SLACK = 0.1  # where long documents are cut into short packed rows, they give more of them


def check_mixture_limits(timeline: Schedule, corpora: Mapping[str, Corpus], packed: bool) -> None:
    """Refuse a phase that would find its corpora used up, before it starts.

    Where one corpus of a mixture has no cap, it goes on alone when others are used up.

    Raises:
        BmtoolsError: the caps allow fewer steps than the phase takes.
    """
    for phase, steps in zip(timeline, timeline.steps_per_phase, strict=True):
        if not phase.mixture or any(math.isinf(one.epochs) for one in phase.mixture):
            continue
        most = sum(_steps_of(phase, one, corpora, packed) for one in phase.mixture)
        if steps > most * (1 + _SLACK):
            raise BmtoolsError(
                f"phase {phase.name!r}: mixture: found caps that allow about {most} steps of the "
                f"{steps} asked for; raise 'epochs' there or take fewer steps")


def _steps_of(phase: Phase, portion: MixtureWeight, corpora: Mapping[str, Corpus],
              packed: bool) -> int:
    """Count the steps that a corpus alone gives before it reaches its cap."""
    alone = replace(phase, length=PhaseLengthConfig(epochs=portion.epochs),
                    mixture=(replace(portion, weight=1.0, end_weight=None),))
    return resolve_steps([alone], corpora, packed).steps
