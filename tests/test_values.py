"""Values formatted for people."""

from __future__ import annotations

from typing import Any

import pytest

from bmtools.values import (
    Megabytes,
    Seconds,
    format_cell,
    format_estimate,
    format_figure,
    heading,
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
    ("wall_seconds", 75.2, "1 min 15 s"), ("seconds", 0.04, "40 ms"),
    ("hours", 0.0503, "3 min 1 s"), ("model", "base", "base"),
    ("metric", "bits_per_character", "bits/char"), ("phases", ["a", "b"], "a, b"),
    ("types", {"DISEASE": 1187, "DRUG": 2}, "DISEASE 1,187, DRUG 2"),
    ("test_f1", {"mean": 0.4640, "deviation": 0.0547}, "46.4 ± 5.47%"),
    ("test_f1", {"mean": 0.4640, "deviation": None}, "46.4%")])
def test_values_are_formatted_by_their_names(name: str, value: Any, text: str) -> None:
    assert format_figure(name, value) == text


@pytest.mark.parametrize(("value", "words"), [
    (Seconds(0.0281), "28 ms"), (Seconds(59.4), "59 s"), (Seconds(185), "3 min 5 s"),
    (Seconds(3599.7), "1 h 0 min"), (Seconds(200_000), "2 d 7 h"), (Megabytes(2.7), "2.7 MB"),
    (Megabytes(0.549), "549 kB"), (Megabytes(28_000), "28.0 GB"), (Megabytes(0), "0.0 kB"),
    (1234.5, "1234"), (None, "")])
def test_times_and_sizes_have_their_units(value: float | None, words: str) -> None:
    assert format_cell(value) == words


def test_a_time_has_one_unit_and_no_name_of_a_unit() -> None:
    line = {"wall_seconds": 21.3, "seconds": 185, "seconds_left": 4000}
    assert [f"{heading(name)} {format_figure(name, value)}" for name, value in line.items()] == [
        "took 21 s", "took 3 min 5 s", "left 1 h 6 min"]


def test_an_estimate_has_its_interval() -> None:
    assert format_estimate("pppl", 1.234, [1.1, 1.4]) == "1.23 [1.10, 1.40]"
    assert format_estimate("accuracy", 0.5, [0.25, 0.75]) == "50.0% [25.0%, 75.0%]"
    assert format_estimate("pppl", 1.234, None) == "1.23"
