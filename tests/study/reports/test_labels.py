"""Spelling of names, ranks, probabilities and texts."""

from __future__ import annotations

import pytest

from bmtools.study.reports.labels import (
    Megabytes,
    Seconds,
    short,
    short_names,
    spell,
    words_of,
    wrap_name,
)


@pytest.mark.parametrize(("models", "names"), [
    (["runs/start/", "runs/a/model", "runs/b/model", "bert"],
     ["start", "a/model", "b/model", "bert"]),
    (["a/x", "a/x", "/"], ["x", "x (2)", "/"]),
    (["runs/a/start", "runs/a/model"], ["start", "model"]),
    (["m", "runs/m"], ["m", "runs/m"]), ([".", "x/y"], [".", "y"]),
    (["frequency of /a/m.jsonl", "/b/m"], ["frequency of m.jsonl", "m"]),
    (["/a/m", "b/a/m", "a/m"], ["/a/m", "b/a/m", "a/m"])])
def test_names_are_as_short_as_they_can_be(models: list[str], names: list[str]) -> None:
    assert short_names(models) == names


@pytest.mark.parametrize(("name", "wrapped"), [
    ("model", "model"), ("runs/model-large", "runs/model-\nlarge"), ("a" * 14, "aaaaaaaaaaaa\naa"),
    ("one two three four five six", "one two \n\u2026ur five six"), ("a\x1b", "a\ufffd")])
def test_names_have_two_lines_at_most(name: str, wrapped: str) -> None:
    assert wrap_name(name, 12) == wrapped


def test_numbers_of_axes_are_short() -> None:
    assert [*map(short, (1_500_000, 20_000, 0.25, 0, 3.1e9))] == [
        "1.5M", "20k", "0.25", "0", "3.1B"]


@pytest.mark.parametrize(("value", "words"), [
    (Seconds(0.0281), "0.028 s"), (Seconds(59.4), "59 s"), (Seconds(185), "3 min 5 s"),
    (Seconds(3599.7), "1 h 0 min"), (Seconds(200_000), "2 d 7 h"), (Megabytes(2.7), "2.7 MB"),
    (Megabytes(0.549), "549 kB"), (Megabytes(28_000), "28.0 GB"), (Megabytes(0), "0.0 kB"),
    (1234.5, "1234"), (None, "")])
def test_times_and_sizes_have_their_units(value: float | None, words: str) -> None:
    assert spell(value) == words


def test_names_of_metrics_are_spelled_as_in_papers() -> None:
    assert [*map(words_of, ("test_f1", "mrr", "warmup_ratio"))] == [
        "test F1", "MRR", "warmup ratio"]
