"""Lengths in tokens and epochs, which the run matches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from toy_corpora import EncodedDocument, corpus_of

from bmtools.data.phase_lengths import attended_tokens, resolve_steps
from bmtools.data.sampler import Sampler
from bmtools.data.samples import token_counts
from bmtools.data.shards import Corpus
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import BatchConfig, ObjectiveConfig, PhaseLengthConfig


def prose(seed: int, documents: int, longest: int) -> Corpus:
    """Documents of one to `longest` tokens, with sentences of about twelve."""
    rng = np.random.default_rng(seed)
    made = []
    for length in rng.integers(1, longest, documents):
        sentences = np.unique(np.append(0, np.nonzero(rng.random(length) < 1 / 12)[0]))
        made.append(EncodedDocument(np.zeros(length, int), np.ones(length, bool), sentences))
    return corpus_of(made)


def shown(corpora: dict[str, Corpus], phase: Phase, packed: bool, seed: int) -> tuple[int, int]:
    """Tokens in all sequences of a phase, and tokens of text that it goes through."""
    schedule = resolve_steps([phase], corpora, packed, seed)
    sampler = Sampler(corpora, schedule, packed, seed)
    samples = np.concatenate([sampler.batch(number).sequences.samples
                              for number in range(schedule.steps)])
    random = samples["second_document"] != samples["document"]
    read = samples["length"] + np.where(random, 0, samples["second_length"])
    return int(token_counts(samples).sum()), int(read.sum())


TEXTS = {"short": (1500, 60), "long": (40, 2000)}


@pytest.mark.parametrize("objective", ["masked", "masked+nsp", "masked+sop", "causal"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_tokens_and_epochs_match_the_settings(objective: str, packed: bool, text: str) -> None:
    corpora = {"text": prose(1, *TEXTS[text])}
    phase = Phase("main", PhaseLengthConfig(tokens=150_000), BatchConfig(64, 4),
                  ObjectiveConfig(objective))
    assert shown(corpora, phase, packed, 3)[0] == pytest.approx(150_000, rel=0.02)
    phase = replace(phase, length=PhaseLengthConfig(epochs=2))
    assert shown(corpora, phase, packed, 4)[1] / corpora["text"].tokens \
        == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("objective", ["masked", "masked+nsp"])
def test_tokens_attend_to_their_document_or_pair(objective: Any) -> None:
    corpora = {"text": prose(1, *TEXTS["long"])}
    phase = Phase("main", PhaseLengthConfig(epochs=1), BatchConfig(64, 4),
                  ObjectiveConfig(objective))
    schedule = resolve_steps([phase], corpora, False)
    sampler = Sampler(corpora, schedule, False, 5)
    lengths = np.concatenate([token_counts(sampler.batch(number).sequences.samples)
                              for number in range(schedule.steps)])
    assert attended_tokens(phase, corpora) \
        == pytest.approx((lengths**2).sum() / lengths.sum(), rel=0.15)


def test_a_mixture_counts_by_its_weights() -> None:
    """Short documents make shorter padded sequences, and more of them, than long ones."""
    corpora = {"short": prose(1, 150, 60), "long": prose(1, 10, 1000)}
    phase = Phase("main", PhaseLengthConfig(tokens=300_000), BatchConfig(64, 4),
                  mixture={"short": 3.0, "long": 1.0})
    assert shown(corpora, phase, False, 3)[0] == pytest.approx(300_000, rel=0.02)
    phase = replace(phase, length=PhaseLengthConfig(epochs=40))
    total = sum(corpus.tokens for corpus in corpora.values())
    assert shown(corpora, phase, False, 4)[1] / total == pytest.approx(40, rel=0.02)
