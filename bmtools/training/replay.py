"""Experience replay: now and then a batch of what the model learned before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bmtools.data.batches import Batches
from bmtools.data.sampler import Sampler
from bmtools.data.shards import Corpus
from bmtools.recipes.schedule import Schedule
from bmtools.training.loop import StepResult, Trainer

MakeBatches = Callable[[Sampler, Mapping[str, Corpus]], Batches]


class Replay:
    """An extra update on the old text after every n-th step.

    Source: Buonocore et al. 2023 (BioBIT), "Catastrophic Forgetting Mitigation".

    Args:
        every: steps between.
        corpora: the old text, by its name.
        timeline: of the run; rows and masking of the replayed batch are those of its phase.
        packed: whether documents share rows.
        seed: seed of its order.
        make_batches: gives batches of a sampler and its corpora.
    """

    def __init__(self, every: int, corpora: Mapping[str, Corpus], timeline: Schedule,
                 packed: bool, seed: int, make_batches: MakeBatches) -> None:
        self._every = every
        turns = _turns(timeline, every)
        phases = [replace(phase, mixture=()) for phase, count in zip(timeline, turns, strict=True)
                  if count]
        own = Schedule(phases, [count for count in turns if count])
        self._batches = make_batches(Sampler(corpora, own, packed, seed), corpora)

    def after(self, step: StepResult, trainer: Trainer) -> StepResult | None:
        """Update once more where it is time, and tell how that went."""
        if step.number % self._every:
            return None
        accelerator = trainer.accelerator
        share = self._batches.batch(step.number // self._every - 1, accelerator.process_index,
                                    accelerator.num_processes)
        return trainer.step(step.number - 1, share, turn=1)


def _turns(timeline: Schedule, every: int) -> Sequence[int]:
    """Count the replayed batches of each phase."""
    turns, before = [], 0
    for steps in timeline.steps_per_phase:
        turns.append((before + steps) // every - before // every)
        before += steps
    return turns
