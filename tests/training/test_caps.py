"""Caps of a mixture, counted before the run instead of met amid it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bmtools.errors import BmtoolsError, DataError
from bmtools.training.caps import check_caps
from bmtools.training.phases import Phase, Portion
from bmtools.training.settings import RowSettings
from bmtools.training.stream import Stream
from bmtools.training.timeline import Timeline


def lasting(corpora: Any, phase: Phase, packed: bool) -> int:
    """Steps that a phase really takes before its text is used up."""
    stream = Stream(corpora, Timeline([phase], [10_000]), packed, 0)
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
    phase = replace(toy_phase(rows=RowSettings(32, 4)), mixture=(
        Portion("a", 1.0, epochs=caps[0]), Portion("b", 3.0, epochs=caps[1])))
    most = lasting(corpora, phase, packed)
    check_caps(Timeline([phase], [most]), corpora, packed)
    with pytest.raises(BmtoolsError, match=r"phase .main.: mixture: found caps that allow about"):
        check_caps(Timeline([phase], [round(most * 1.16)]), corpora, packed)


def test_one_text_without_a_cap_lasts_for_ever(toy: Any, toy_phase: Callable[..., Phase]) -> None:
    corpora = {name: toy.corpus(["Il cuore pompa il sangue."] * 8) for name in ("a", "b")}
    phase = replace(toy_phase(), mixture=(Portion("a", 1.0, epochs=1), Portion("b", 1.0)))
    check_caps(Timeline([phase, toy_phase(name="all")], [10**6, 10**6]), corpora, False)
