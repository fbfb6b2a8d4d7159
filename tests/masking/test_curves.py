"""Masking rates over a phase."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from bmtools.masking.curves import RateCurve
from bmtools.masking.settings import MaskRateCurve


def test_stairs_are_those_of_the_paper() -> None:
    curve = RateCurve("steps", 0.05, 0.25, stairs=5)
    for progress, rate in [(0, 0.05), (0.19, 0.05), (0.2, 0.1), (0.39, 0.1), (0.41, 0.15),
                           (0.61, 0.2), (0.79, 0.2), (0.8, 0.25), (1, 0.25)]:
        assert curve.rate(progress) == pytest.approx(rate)


@pytest.mark.parametrize(("shape", "rates"), [
    ("fixed", [0.15, 0.15, 0.15, 0.15, 0.15]),
    ("linear", [0.15, 0.2, 0.25, 0.3, 0.35]),
    ("cosine", [0.15, 0.1792893, 0.25, 0.3207107, 0.35]),
    ("steps", [0.15, 0.2, 0.25, 0.3, 0.35])])
def test_rates_by_hand(shape: str, rates: list[float]) -> None:
    curve = RateCurve(shape, 0.15, None if shape == "fixed" else 0.35)
    assert [curve.rate(progress) for progress in (0, 0.25, 0.5, 0.75, 1)] == pytest.approx(rates)


@pytest.mark.parametrize("shape", get_args(MaskRateCurve)[1:])
def test_a_curve_may_fall_and_meets_its_ends(shape: str) -> None:
    curve = RateCurve(shape, 0.3, 0.15)
    rates = [curve.rate(step / 1000) for step in range(1001)]
    assert rates[0] == 0.3 and rates[-1] == 0.15
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("shape", get_args(MaskRateCurve)[1:])
def test_what_is_outside_counts_as_the_nearer_end(shape: str) -> None:
    curve = RateCurve(shape, 0.3, 0.15)
    assert curve.rate(-0.001) == 0.3
    assert curve.rate(1.0000001) == 0.15


@pytest.mark.parametrize(("options", "message"), [
    ({"shape": "wave"}, "shape: found wave, expected fixed or steps or linear or cosine"),
    ({"start": 1.5}, "mask_rate: found 1.5, expected 0 to 1"),
    ({"start": float("nan")}, "mask_rate: found nan, expected 0 to 1"),
    ({"shape": "linear", "end": -1.0}, "mask_rate_end: found -1.0, expected 0 to 1"),
    ({"shape": "linear"}, "mask_rate_end: found None, expected 0 to 1 for mask_curve linear"),
    ({"end": 0.3}, "mask_rate_end: found 0.3, expected none, or a mask_curve"),
    ({"shape": "steps", "end": 0.3, "stairs": 1},
     "mask_rate_steps: found 1, expected 2 or more")])
def test_wrong_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RateCurve(**options)
