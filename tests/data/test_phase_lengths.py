"""Caps of a mixture, checked before the run begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bmtools.data.phase_lengths import check_mixture_limits
from bmtools.data.sampler import Sampler
from bmtools.errors import BmtoolsError, DataError
from bmtools.recipes.phases import MixtureWeight, Phase
from bmtools.recipes.schedule import Schedule
from bmtools.recipes.settings import BatchConfig


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
        check_mixture_limits(Schedule([phase], [round(most * 1.16)]), corpora, packed)


def test_one_text_without_a_cap_lasts_for_ever(toy: Any, toy_phase: Callable[..., Phase]) -> None:
    corpora = {name: toy.corpus(["Il cuore pompa il sangue."] * 8) for name in ("a", "b")}
    phase = replace(toy_phase(), mixture=(MixtureWeight("a", 1.0, epochs=1), MixtureWeight("b",
                                                                                           1.0)))
    check_mixture_limits(Schedule([phase, toy_phase(name="all")], [10**6, 10**6]), corpora, False)
