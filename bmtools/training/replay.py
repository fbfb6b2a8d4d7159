"""Experience replay: batches of an earlier corpus in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from bmtools.data.batches import Batches
from bmtools.data.sampler import Sampler
from bmtools.data.shards import Corpus
from bmtools.recipes.schedule import Schedule
from bmtools.training.loop import StepResult, Trainer

MakeBatches = Callable[[Sampler, Mapping[str, Corpus]], Batches]


class Replay:
    """An extra update on an earlier corpus after every n-th step.

    Source: Buonocore et al. 2023 (BioBIT), "Catastrophic Forgetting Mitigation".

    Args:
        every: steps between replayed batches.
        corpora: the earlier corpus, by its name.
        schedule: of the run; a replayed batch has the size and masking of its phase.
        packed: whether documents share sequences.
        seed: of the sampler.
        make_batches: makes the batches of a sampler and its corpora.
    """

    def __init__(self, every: int, corpora: Mapping[str, Corpus], schedule: Schedule,
                 packed: bool, seed: int, make_batches: MakeBatches) -> None:
        self._every = every
        phases, steps, before = [], [], 0
        for phase, length in zip(schedule.phases, schedule.steps_per_phase, strict=True):
            replayed = (before + length) // every - before // every
            before += length
            if replayed:
                phases.append(replace(phase, mixture=()))
                steps.append(replayed)
        self._batches = make_batches(Sampler(corpora, Schedule(phases, steps), packed, seed),
                                     corpora)

    def after(self, step: StepResult, trainer: Trainer) -> StepResult | None:
        """Update once more where it is due."""
        if step.number % self._every:
            return None
        accelerator = trainer.accelerator
        batch = self._batches.batch(step.number // self._every - 1, accelerator.process_index,
                                    accelerator.num_processes)
        return trainer.step(step.number - 1, batch, turn=1)
