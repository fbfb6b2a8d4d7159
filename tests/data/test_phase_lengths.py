"""Lengths in tokens and epochs, met by the run; caps of a mixture, checked before it begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bmtools.data.phase_lengths import attended_tokens, check_mixture_limits, resolve_steps
from bmtools.data.sampler import Sampler
from bmtools.data.samples import token_counts
from bmtools.data.shards import Corpus, EncodedDocument
from bmtools.errors import BmtoolsError, DataError
from bmtools.recipes.phases import MixtureWeight, Phase, Schedule
from bmtools.recipes.settings import BatchConfig, ObjectiveConfig, PhaseLengthConfig


def lasting(corpora: Any, phase: Phase, packed: bool) -> int:
    """Steps that a phase really takes before its text is used up."""
    stream = Sampler(corpora, Schedule([phase], [10_000]), packed, 0)
    for number in range(10_000):
        try:
            stream.batch(number)
        except DataError:
            return number
    raise AssertionError("it never ends")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("caps", [(1.0, 2.0), (0.5, 3.0)])
def test_it_speaks_up_about_where_the_text_ends(
        toy: Any, toy_phase: Callable[..., Phase], packed: bool, caps: tuple[float, float]) -> None:
    corpora = {name: toy.corpus([f"Il cuore pompa {'il sangue ' * ((n + k) % 30)}."
                                 for n in range(400)]) for k, name in enumerate(("a", "b"))}
    phase = replace(toy_phase(batch=BatchConfig(32, 4)), mixture=(
        MixtureWeight("a", 1.0, epochs=caps[0]), MixtureWeight("b", 3.0, epochs=caps[1])))
    most = lasting(corpora, phase, packed)
    check_mixture_limits(Schedule([phase], [most]), corpora, packed)
    with pytest.raises(BmtoolsError, match=r"phase .main.: mixture: found caps that allow about"):
        check_mixture_limits(Schedule([phase], [round(most * 1.05)]), corpora, packed)


def prose(seed: int, documents: int, longest: int) -> Corpus:
    """Documents of one to `longest` tokens, with sentences of about twelve."""
    rng = np.random.default_rng(seed)
    made = []
    for length in rng.integers(1, longest, documents):
        sentences = np.unique(np.append(0, np.nonzero(rng.random(length) < 1 / 12)[0]))
        made.append(EncodedDocument(np.zeros(length, int), np.ones(length, bool), sentences))
    return Corpus.of(made)


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
def test_tokens_and_epochs_are_those_asked_for(objective: str, packed: bool, text: str) -> None:
    corpora = {"text": prose(1, *TEXTS[text])}
    phase = Phase("main", PhaseLengthConfig(tokens=150_000), BatchConfig(64, 4),
                  ObjectiveConfig(objective))
    assert shown(corpora, phase, packed, 3)[0] == pytest.approx(150_000, rel=0.02)
    phase = replace(phase, length=PhaseLengthConfig(epochs=2))
    assert shown(corpora, phase, packed, 4)[1] / corpora["text"].tokens \
        == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("objective", ["masked+nsp", "masked+sop"])
@pytest.mark.parametrize("text", TEXTS)
def test_pairs_attend_to_both_segments(objective: Any, text: str) -> None:
    corpora = {"text": prose(1, *TEXTS[text])}
    phase = Phase("main", PhaseLengthConfig(epochs=1), BatchConfig(64, 4),
                  ObjectiveConfig(objective))
    schedule = resolve_steps([phase], corpora, False)
    sampler = Sampler(corpora, schedule, False, 5)
    lengths = np.concatenate([token_counts(sampler.batch(number).sequences.samples)
                              for number in range(schedule.steps)])
    assert attended_tokens(phase, corpora) \
        == pytest.approx((lengths**2).sum() / lengths.sum(), rel=0.03)


@pytest.mark.parametrize("end_weight", [None, 9.0])
def test_a_mixture_counts_by_its_weights(end_weight: float | None) -> None:
    """Short documents make shorter padded sequences, and more of them, than long ones."""
    corpora = {"short": prose(1, 150, 60), "long": prose(1, 10, 1000)}
    phase = Phase("main", PhaseLengthConfig(tokens=300_000), BatchConfig(64, 4), mixture=(
        MixtureWeight("short", 3.0), MixtureWeight("long", 1.0, end_weight)))
    assert shown(corpora, phase, False, 3)[0] == pytest.approx(300_000, rel=0.02)
    phase = replace(phase, length=PhaseLengthConfig(epochs=40))
    total = sum(corpus.tokens for corpus in corpora.values())
    assert shown(corpora, phase, False, 4)[1] / total == pytest.approx(40, rel=0.02)
