"""Comparisons of models: which pairs, which sentences, which measures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bmtools.scoring.settings import StatisticsConfig
from bmtools.scoring.statistics import RatioMetric, compare_models

SETTINGS = StatisticsConfig(resamples=200)


def tally(name: str, values: list[float], counts: list[float] | None = None,
          vocabulary: str = "") -> Any:
    """A model whose measure `loss` has these sums."""
    measure = RatioMetric(np.array(values), np.array(counts or [1.0] * len(values)), vocabulary)
    return SimpleNamespace(predictor=SimpleNamespace(name=name),
                           metrics=lambda: {"loss": measure})


def test_every_two_models_on_the_sentences_that_both_took() -> None:
    one = tally("one", [1, 2, 3, 9], [1, 1, 1, 0])
    two = tally("two", [2, 3, 9, 5], [1, 1, 0, 1])
    three = tally("three", [1, 2, 3, 4])
    lines = compare_models([one, two, three], SETTINGS)
    assert [line["compared"] for line in lines] == [
        ["one", "two"], ["one", "three"], ["two", "three"]]
    first, second, _ = lines
    assert (first["difference"], first["sentences"]) == (-1, 2)
    assert first["interval"] == [-1, -1]
    assert (second["difference"], second["sentences"], second["p"]) == (0, 3, 1)


def test_p_values_are_adjusted_for_the_number_of_comparisons() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=40)
    models = [tally(name, (noise + shift).tolist()) for name, shift in
              (("a", 0.0), ("b", 0.0), ("c", 2.0))]
    lines = compare_models(models, SETTINGS)
    assert all(line["p_holm"] >= line["p"] for line in lines)
    assert lines[1]["p_holm"] == pytest.approx(3 / 201, abs=1e-6)
    assert lines[0]["p_holm"] == 1


def test_measures_of_other_vocabularies_are_not_compared() -> None:
    same = compare_models([tally("a", [1, 2], vocabulary="x"), tally("b", [2, 2], vocabulary="x")],
                          SETTINGS)
    other = compare_models([tally("a", [1, 2], vocabulary="x"), tally("b", [2, 2], vocabulary="y")],
                           SETTINGS)
    assert (len(same), len(other)) == (1, 0)


def test_one_model_or_no_resamples_compare_nothing() -> None:
    assert compare_models([tally("a", [1, 2])], SETTINGS) == []
    assert compare_models([tally("a", [1, 2]), tally("b", [1, 2])],
                          StatisticsConfig(resamples=0)) == []
