"""Declared power, grid and data centre, from options or environment variables."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import fields
from functools import cache

from bmtools.errors import require, suggestion
from bmtools.records import JsonObject
from bmtools.settings import Settings, option

VARIABLES = {"watts": "BMTOOLS_POWER_WATTS", "country": "BMTOOLS_COUNTRY",
             "grid": "BMTOOLS_GRID_G_PER_KWH", "pue": "BMTOOLS_PUE"}
"""Environment variables that all commands read, by field of `EnergyConfig`."""
DECLARED_GRID = "declared"


class EnergyConfig(Settings, title="Declared energy values"):
    """Declared values, which replace or complete measurements."""

    watts: float | None = option(None, "Mean power of the whole machine in watts.")
    country: str | None = option(
        None, "Country of the machine's grid, as a three-letter code of ISO 3166-1, such as ITA.")
    grid: float | None = option(
        None, "Emissions of the grid in grams of CO2 equivalents per kilowatt-hour. Default: the "
              "value of the country in the year of each step.")
    pue: float | None = option(None, "Power usage effectiveness of the data centre: its total "
                                     "energy, including cooling, divided by its machines' energy.")

    def __post_init__(self) -> None:
        for name, least in (("watts", 1), ("grid", 0), ("pue", 1)):
            value = getattr(self, name)
            require(value is None or (math.isfinite(value) and value >= least), name, value,
                    f"{least} or more")
        if self.country is not None and self.grid is None:
            known = read_grids()["g_per_kwh"]
            require(self.country in known, "country", repr(self.country),
                    f"a three-letter code of a country with a known grid, or another country with "
                    f"{VARIABLES['grid']} or --grid; {suggestion(self.country, sorted(known))}")

    def grid_in(self, year: int) -> JsonObject:
        """Return the grid's emissions with their source; empty without a declared grid.

        Args:
            year: year of the step; without a value for this year, the nearest year is used.
        """
        country = {"country": self.country} if self.country else {}
        if self.grid is not None:
            return {**country, "g_per_kwh": self.grid, "source": DECLARED_GRID}
        if not country:
            return {}
        content = read_grids()
        years = {int(one): value for one, value in content["g_per_kwh"][self.country].items()}
        nearest = min(years, key=lambda one: (abs(one - year), one))
        return {**country, "year": nearest, "g_per_kwh": years[nearest],
                "source": content["source"]}


def from_environment(variables: Mapping[str, str] = os.environ) -> EnergyConfig:
    """Read the declared values from environment variables.

    Raises:
        ValueError: names the variable, the value found and the value expected.
    """
    values: JsonObject = {}
    for field in fields(EnergyConfig):
        if text := variables.get(VARIABLES[field.name], "").strip():
            values[field.name] = text if field.name == "country" else _number(field.name, text)
    try:
        return EnergyConfig(**values)
    except ValueError as error:
        name, _, message = str(error).partition(":")
        raise ValueError(f"{VARIABLES[name.removeprefix('--')]}:{message}") from error


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{VARIABLES[name]}: found {text!r}, expected a number") from None


@cache
def read_grids() -> JsonObject:
    """Read the table of grids: `source`, `url`, and `g_per_kwh` by country and year."""
    import tomllib
    from importlib.resources import files

    return tomllib.loads(files(__package__).joinpath("grid.toml").read_text(encoding="utf-8"))
