"""Numbers and units kept in translations."""

from __future__ import annotations

import pytest

from bmtools.translation.quantities import lost_numbers, lost_units


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
])
def test_numbers_that_are_lost(source: str, target: str, lost: list[str]) -> None:
    assert lost_numbers(source, target, "it") == lost


def test_words_of_numbers_are_those_of_the_language() -> None:
    assert lost_numbers("8 days", "acht Tage", "de-AT") == []
    assert lost_numbers("8 days", "acht Tage", "it") == ["8"]
    assert lost_numbers("8 days", "acht", "xx") == ["8"]


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
])
def test_units_that_are_lost(source: str, target: str, lost: list[str]) -> None:
    assert lost_units(source, target) == lost
