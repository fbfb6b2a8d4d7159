"""Spelling of names, ranks, probabilities and texts."""

from __future__ import annotations

import pytest

from bmtools.study.reports.labels import short, short_names, words_of, wrap_name


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


def test_names_of_metrics_are_spelled_as_in_papers() -> None:
    assert [*map(words_of, ("test_f1", "mrr", "warmup_ratio"))] == [
        "test F1", "MRR", "warmup ratio"]
