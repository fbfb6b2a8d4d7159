"""Declared values: grids with their sources, by country and year, and their limits."""

from __future__ import annotations

from typing import Any

import pytest

from bmtools.io.energy.settings import EnergyConfig, from_environment, read_grids


def test_every_grid_has_a_country_years_and_a_source() -> None:
    content = read_grids()
    assert content["source"].startswith("Ember (2026)") and content["licence"] == "CC-BY-4.0"
    for country, years in content["g_per_kwh"].items():
        assert len(country) == 3 and country.isupper() and years
        assert all(2022 <= int(year) <= 2025 and 0 < grams < 1500
                   for year, grams in years.items()), country


@pytest.mark.parametrize(("country", "year", "grams"), [
    # From another copy of the source: a list of the European Union's countries for 2024.
    ("AUT", 2024, 103.48), ("BEL", 2024, 126.96), ("BGR", 2024, 278.85), ("HRV", 2024, 170.70),
    ("CYP", 2024, 511.23), ("CZE", 2024, 414.23), ("DNK", 2024, 131.77), ("EST", 2024, 343.45),
    ("FIN", 2024, 66.63), ("FRA", 2024, 40.48), ("DEU", 2024, 336.38), ("GRC", 2024, 321.65),
    ("HUN", 2024, 184.47), ("IRL", 2024, 270.91), ("ITA", 2024, 281.40), ("LVA", 2024, 134.28),
    ("LTU", 2024, 116.37), ("LUX", 2024, 132.45), ("MLT", 2024, 488.58), ("NLD", 2024, 250.72),
    ("NOR", 2024, 29.66), ("POL", 2024, 608.18), ("PRT", 2024, 110.64), ("ROU", 2024, 251.33),
    ("SVK", 2024, 96.55), ("SVN", 2024, 230.40), ("ESP", 2024, 146.22), ("SWE", 2024, 34.91)])
def test_grids_equal_another_copy_of_their_source(country: str, year: int, grams: float) -> None:
    assert EnergyConfig(country=country).grid_in(year) == {
        "country": country, "year": year, "g_per_kwh": grams, "source": read_grids()["source"]}


@pytest.mark.parametrize(("year", "taken"), [(2019, 2022), (2023, 2023), (2031, 2025)])
def test_a_missing_year_is_replaced_by_the_nearest_and_reported(year: int, taken: int) -> None:
    grid, years = EnergyConfig(country="ITA").grid_in(year), read_grids()["g_per_kwh"]["ITA"]
    assert (grid["year"], grid["g_per_kwh"]) == (taken, years[str(taken)])


def test_a_declared_grid_needs_no_country_and_accepts_any() -> None:
    assert EnergyConfig().grid_in(2024) == {}
    assert EnergyConfig(grid=55).grid_in(2024) == {"g_per_kwh": 55, "source": "declared"}
    assert EnergyConfig(grid=55, country="SMR").grid_in(2024)["country"] == "SMR"
    with pytest.raises(ValueError, match="'SMR', expected a three-letter code of a country"):
        EnergyConfig(country="SMR")


def test_all_commands_read_the_environment() -> None:
    variables: dict[str, Any] = {"BMTOOLS_POWER_WATTS": " 350", "BMTOOLS_COUNTRY": "ITA",
                                 "BMTOOLS_PUE": "1.4", "BMTOOLS_GRID_G_PER_KWH": ""}
    assert from_environment(variables) == EnergyConfig(350, "ITA", None, 1.4)
