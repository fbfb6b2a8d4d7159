"""Numbers and units in sentences and their translations."""

from __future__ import annotations

import pytest

from bmtools.translation.quantities import (
    are_reordered,
    has_turned_comparisons,
    have_other_times,
    lost_numbers,
    lost_units,
)


@pytest.mark.parametrize(("source", "target", "lost"), [
    ("1,234 patients, 12.5%", "1.234 pazienti, il 12,5%", []),
    ("12 345 and 0.05", "12.345 e 0,05", []),
    ("12 345 and .05", "12 345 e ,05", []),
    ("1,234,567.8 cells", "1.234.567,8 cellule", []),
    ("2.50 mg", "2,5 mg", []),
    ("12.5 mg", "125 mg", ["12.5"]),
    ("12.5 mg", "1,25 mg", ["12.5"]),
    ("36 patients", "63 pazienti", ["36"]),
    ("days 1,8,15", "giorni 1, 8 e 15", []),
    ("2.4 mm", "2, 4 mm", []),
    ("2 arms, 1 dose", "due bracci, una dose", []),
    ("type 2", "tipo II", []),
    ("at 5:00 pm", "alle 17:00", []),
    ("at 5:00 am", "alle 17:00", ["5"]),
    ("10⁶ cells in m²", "10^6 cellule in m2", []),
    ("٢٥ mg", "25 mg", []),
    ("IL-6 and CD4", "IL-6 e CD8", ["4"]),
    ("between 3 and 4, 41 and 350", "tra tre e quattro, quarantuno e mille", ["350"]),
    ("7 mg in the first weeks", "70 mg nelle prime settimane", ["7"]),
    ("9 days, not 100", "giorni, non in centrale", ["9", "100"]),
    ("208 and 24", "duecentootto e ventiquattro", []),
    ("0 of 5", "nessuno di cinque", []),
])
def test_lost_numbers_are_found(source: str, target: str, lost: list[str]) -> None:
    assert lost_numbers(source, target, "it") == lost


def test_number_words_of_the_target_language_count() -> None:
    assert lost_numbers("8 days", "acht Tage", "de-AT") == []
    assert lost_numbers("8 days", "acht Tage", "it") == ["8"]
    assert lost_numbers("8 days", "acht", "xx") == ["8"]
    assert lost_numbers("208 eyes, 470 (ii)", "Two hundred eight eyes, Four hundred seventy (ii)",
                        "en") == []


@pytest.mark.parametrize(("language", "value", "words"), [
    ("en", 21, "twenty-first"), ("en", 106, "one hundred and six"), ("it", 33, "Trentatre"),
    ("fr", 71, "soixante et onze"), ("fr", 99, "quatre-vingt-dix-neuf"),
    ("fr", 80, "quatre-vingts"), ("fr", 92, "nonante-deux"), ("es", 24, "veinticuatro"),
    ("es", 33, "treinta y tres"),
    ("pt", 24, "vinte e quatro"), ("de", 34, "vierunddreißig"), ("de", 100, "hundert")])
def test_number_words_match_only_their_number(language: str, value: int, words: str) -> None:
    assert lost_numbers(f"{value}", words, language) == []
    for other in (value + 1, 10 * value):
        assert lost_numbers(f"{other}", words, language) == [f"{other}"]


@pytest.mark.parametrize(("source", "target", "is_turned"), [
    ("p<0.05", "p > 0,05", True), ("p<0.05", "p < 0,05", False), ("p<0.05", "p = 0,05", False),
    ("> or = 2 g", "≥ 2 g", False), ("< or =10.5 to > 10.5", "< o = 10,5 a > 10,5", False),
    ("IOP > /=65", "PIO ≤ 65", True), ("less than 5", "< 5", False)])
def test_turned_comparisons_are_found(source: str, target: str, is_turned: bool) -> None:
    assert has_turned_comparisons(source, target) is is_turned


def test_numbers_in_another_order_and_other_times_are_found() -> None:
    assert are_reordered("10 mg of A, 20 mg of B", "20 mg di A, 10 mg di B")
    assert not are_reordered("10 mg of A, 20 mg of B, 10 times", "A: 10 mg, B: 20 mg, 10 volte")
    assert have_other_times("24 hours, 24 h", "24 giorni", "en", "it")
    assert not have_other_times("for 24 hours on 3 days", "24 ore per 3 giorni", "en", "it")
    assert not have_other_times("24 hours", "24 giorni", "en", "xx")


@pytest.mark.parametrize(("source", "target", "lost"), [
    ("5 mg/kg in 10mL", "5 mg/kg in 10 ml", []),
    ("5 mg/kg", "5 mg", ["kg"]),
    ("20 mm Hg", "20 mmHg", []),
    ("20 IU/L", "20 UI/L", []),
    ("5 mcg", "5 \u03bcg", []),
    ("30%", "30 per cento", []),
    ("30%", "30", ["%"]),
    ("37 °C", "37 gradi", ["°C"]),
    ("mg, not a quantity", "milligrammi", []),
    ("5 genes", "5 geni", []),
    ("every 12 hours", "ogni 12", ["hours"]),
    ("a 3-day course", "un ciclo di tre giorni", []),
])
def test_lost_units_are_found(source: str, target: str, lost: list[str]) -> None:
    assert lost_units(source, target, "en", "it") == lost


def test_long_numbers_take_linear_time() -> None:
    """When patterns of units could begin with a digit, such a text took minutes."""
    assert not have_other_times("9" * 4000, "9" * 4000, "it", "it")
    assert have_other_times("una 17-enne", "17 mesi", "it", "it")
