"""Confidence of projected spans, and voting by methods."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import pytest

from bmtools.translation.projection.confidence import (
    WHOLE,
    Calibration,
    Vote,
    features,
    overlap,
    read_calibration,
    vote,
)
from bmtools.translation.projection.gold import calibration_error, fit_calibration
from bmtools.translation.projection.pairs import Projection, SentencePair

PAIR = SentencePair("No severe pain.", "Nessun dolore forte.", ((3, 14),))
PLACE = Projection(7, 19, 0.8)


def test_features_of_a_hand_worked_span() -> None:
    corrected = replace(PLACE, is_corrected=True)
    found = features(PAIR, 0, Vote(corrected, {"align": corrected, "exact": None,
                                               "encoder": Projection(7, 13, 0.9)}))
    assert found == pytest.approx({
        "agreeing": 0, "against": 1, "overlap": (1 + 12 / 18) / 2, "length": 0.2007, "short": 0,
        "words": 1.0986, "rules": 1, "align": 1, "align score": 1.3499, "clause": 0,
        "connective": 0, "function word": 0, "whole sentence": 0}, abs=1e-4)


def test_features_of_the_words_at_the_edges() -> None:
    pair = SentencePair("However, the pain of the knee was felt for many long days.",
                        "Tuttavia il dolore al ginocchio fu sentito per molti giorni.",
                        ((9, 57), (13, 17), (0, 58)))
    place = Projection(12, 18, 0.8, edge=0.5)

    def found(number: int, languages: tuple[str, str] = ("en", "it")) -> dict[str, float]:
        return features(pair, number, Vote(place, {"align": place}), languages)

    assert [found(number)["connective"] for number in range(3)] == [1, 0, 0]
    assert [found(number)["clause"] for number in range(3)] == [1, 0, 1]
    assert [found(number)["whole sentence"] for number in range(3)] == [0, 0, 1]
    # `il` is before the place; `the` is only before the second span.
    assert [found(number)["function word"] for number in range(3)] == [1, 0, 1]
    assert found(0, ("", ""))["function word"] == 0
    assert found(0)["align edge"] == pytest.approx(0)


def test_confidence_is_the_logistic_of_the_features() -> None:
    calibration = Calibration("x", 0.5, {"a": 2.0}, {}, 1)
    assert calibration.confidence({"a": -1.0, "unknown": 9}) == pytest.approx(1 / (1 + exp(1.5)))
    assert calibration.confidence({"a": 1e9}) == pytest.approx(1)


def test_the_shipped_calibration_prefers_agreement() -> None:
    shipped = read_calibration()
    assert shipped.errors["casimedicos"] <= 0.05 and shipped.errors["mentions"] <= 0.03
    assert shipped.error == shipped.errors["abstrct"] <= 0.11  # see docs/results.md on its gold
    alone = shipped.confidence(features(PAIR, 0, Vote(PLACE, {"align": PLACE, "exact": None})))
    agreed = shipped.confidence(features(PAIR, 0, Vote(PLACE, {"align": PLACE, "exact": PLACE})))
    doubtful = Projection(7, 19, 0.1)
    unsure = shipped.confidence(features(PAIR, 0, Vote(doubtful, {"align": doubtful})))
    assert unsure < alone < agreed


def test_fit_separates_right_from_wrong_and_leaves_each_set_out() -> None:
    samples = [(f"set{number % 2}", {"score": float(right)}, right)
               for number in range(40) for right in (True, False)]
    fitted = fit_calibration(samples, {"align": 0.91234}, "gold")
    assert (fitted.spans, fitted.origin, fitted.precisions) == (80, "gold", {"align": 0.9123})
    assert fitted.confidence({"score": 1.0}) > 0.8 > 0.2 > fitted.confidence({"score": 0.0})
    assert fitted.error is not None and 0 < fitted.error < 0.2
    assert fitted.errors.keys() == {"set0", "set1"}
    assert fitted.error == max(fitted.errors.values())
    single = fit_calibration([("one", {"score": 1.0}, True)] * 9, {}, "gold")
    assert single.error is None
    assert 0.8 < single.confidence({"score": 1.0}) < 1


def test_whole_sentences_have_a_separate_confidence() -> None:
    samples = [("one", {WHOLE: 1.0, "score": 0.0}, True)] * 97 + [
        ("one", {WHOLE: 1.0, "score": 0.0}, False)] + [("one", {"score": 1.0}, False)] * 9
    fitted = fit_calibration(samples, {}, "gold")
    assert (fitted.spans, fitted.whole) == (107, 0.98)
    assert fitted.confidence({WHOLE: 1.0, "score": 0.0}) == 0.98
    assert fitted.confidence({WHOLE: 0.0, "score": 1.0}) < 0.2
    earlier = Calibration("", 1.0, {}, {}, 1)
    assert earlier.confidence({WHOLE: 1.0}) == pytest.approx(1 / (1 + exp(-1)))


def test_calibration_error_of_a_hand_worked_set() -> None:
    # 0.9 is 0.7 / 3 above the share of right spans; 0.6 is 0.4 below it.
    assert calibration_error([(0.9, True), (0.9, True), (0.9, False), (0.6, True)]) == \
        pytest.approx((0.7 + 0.4) / 4)


LONG, SHORT, FAR = Projection(0, 10, 0.9), Projection(0, 8, 0.9), Projection(20, 30, 1.0)


def test_the_place_with_most_support_wins() -> None:
    precisions = {"a": 0.9, "b": 0.8, "c": 0.6}
    assert vote({"a": FAR, "b": SHORT, "c": LONG}, precisions).place == FAR
    assert vote({"a": LONG, "b": SHORT, "c": FAR}, precisions).place == LONG
    assert vote({"a": None, "b": SHORT, "c": FAR}, precisions).place == SHORT
    assert vote({"a": None}, {}).place is None


def test_unmeasured_methods_also_vote() -> None:
    assert vote({"new": SHORT, "a": None}, {"a": 0.9}).place == SHORT
    # Methods with a measured precision have a higher weight, unless the calibration differs.
    candidates = {"markers": SHORT, "embeddings": FAR}
    assert vote(candidates, {"a": 0.9}).place == SHORT
    assert vote(candidates, {"markers": 0.6}).place == FAR


@pytest.mark.parametrize(("one", "other", "expected"), [
    (LONG, LONG, 1), (LONG, SHORT, 16 / 18), (LONG, FAR, 0)])
def test_overlap_is_the_f1_of_characters(one: Projection, other: Projection,
                                         expected: float) -> None:
    assert overlap(one, other) == overlap(other, one) == pytest.approx(expected)
