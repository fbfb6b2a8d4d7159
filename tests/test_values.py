"""Values formatted for people."""

from __future__ import annotations

from typing import Any

import pytest

from bmtools.values import (
    format_estimate,
    format_figure,
    three_digits,
)


@pytest.mark.parametrize(("value", "text"), [
    (0.0, "0"), (1.0, "1.00"), (1.2345, "1.23"), (12.345, "12.3"), (123.45, "123"),
    (999.6, "1,000"), (1234.5, "1,234"), (53060991.2, "53,060,991"), (0.0123456, "0.0123"),
    (0.09999, "0.100"), (9.999, "10.0"), (-0.5, "-0.500"), (5e-05, "5e-05"),
    (float("inf"), "inf")])
def test_three_digits_are_kept(value: float, text: str) -> None:
    assert three_digits(value) == text


@pytest.mark.parametrize(("name", "value", "text"), [
    ("tokens", 1234567, "1,234,567"), ("best_seed", 2026, "2026"), ("accuracy", 0.12345, "12.3%"),
    ("dev.f1", 1.0, "100%"), ("mask_rate", 0.15, "15.0%"), ("learning_rate", 0.0004, "0.000400"),
    ("uncased", True, "yes"), ("pppl", None, "-"), ("pppl", float("nan"), "-"),
    ("wall_seconds", 75.2, "75 s"), ("model", "base", "base"),
    ("metric", "bits_per_character", "bits/char"), ("phases", ["a", "b"], "a, b"),
    ("types", {"DISEASE": 1187, "DRUG": 2}, "DISEASE 1,187, DRUG 2"),
    ("test_f1", {"mean": 0.4640, "deviation": 0.0547}, "46.4 ± 5.47%"),
    ("test_f1", {"mean": 0.4640, "deviation": None}, "46.4%")])
def test_values_are_formatted_by_their_names(name: str, value: Any, text: str) -> None:
    assert format_figure(name, value) == text


def test_an_estimate_has_its_interval() -> None:
    assert format_estimate("pppl", 1.234, [1.1, 1.4]) == "1.23 [1.10, 1.40]"
    assert format_estimate("accuracy", 0.5, [0.25, 0.75]) == "50.0% [25.0%, 75.0%]"
    assert format_estimate("pppl", 1.234, None) == "1.23"
