"""Values of energy: kinds that are reported separately, sums, and emissions."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum, log10

from bmtools.io.energy.settings import EnergyConfig
from bmtools.records import JsonMapping, JsonObject

Figures = JsonMapping
KINDS = ("measured", "allotted", "declared")
"""Kinds of values: energy of whole devices from counters, the share of it that a process used, and
a declared power over time. They describe the same work and are never added to each other."""
_HOURS = ("hours", "machine_hours", "gpu_hours", "cpu_hours", "machine_cpu_hours")
_DIGITS = 6


def add(parts: Iterable[Figures]) -> JsonObject:
    """Add up the values of parts, such as processes, sessions or steps, each kind separately.

    Emissions of a kind are included only if all parts with this kind have emissions.
    """
    parts = [part for part in parts if part]
    total: JsonObject = {name: _sum(part.get(name) for part in parts) for name in _HOURS
                         if any(name in part for part in parts)}
    for kind in KINDS:
        found = [part[kind] for part in parts if kind in part]
        if found:
            total[kind] = {name: _sum(one.get(name) for one in found)
                           for name in ("kwh", "gpu_kwh", "cpu_kwh", "hours")
                           if any(name in one for one in found)}
            total[kind] |= _common(found, "watts", "of")
    if by := {name for part in parts for name in part.get("measured", {}).get("by", ())}:
        total["measured"]["by"] = sorted(by)
    if (whole := total.get("allotted", {}).get("of")) in total:
        _set_share(total["allotted"], total[whole])
    if hardware := list(dict.fromkeys(part["hardware"] for part in parts if "hardware" in part)):
        total["hardware"] = "; ".join(hardware)
    emissions = {kind: [part.get("kg_co2eq", {}).get(kind) for part in parts if kind in part]
                 for kind in KINDS}
    if known := {kind: _sum(found) for kind, found in emissions.items()
                 if found and None not in found}:
        total["kg_co2eq"] = known
    return total | _common(parts, "grid", "pue")


def declare(figures: Figures, config: EnergyConfig, year: int) -> JsonObject:
    """Add declared values, and emissions by kind, to the values of a step.

    Args:
        figures: values with `hours`; declared values in them are replaced.
        config: the declared values; None keeps the present value.
        year: year of the step.
    """
    done = dict(figures)
    hours, cores = done.get("machine_hours", done.get("hours")), done.get("machine_cpu_hours")
    if config.watts is not None and hours:
        declared = {"kwh": rounded(config.watts * hours / 1000), "watts": config.watts,
                    "hours": hours}
        done["declared"] = declared
        # On a machine with GPUs the share of cores is not the share of the power.
        if "measured" not in done and cores and not done.get("gpu_hours"):
            done["allotted"] = {"kwh": rounded(
                declared["kwh"] * min(done["cpu_hours"] / cores, 1)), "hours": hours,
                "of": "declared"}
            _set_share(done["allotted"], declared)
    if grid := config.grid_in(year) or done.get("grid"):
        done["grid"] = grid
        pue = config.pue or done.get("pue") or 1
        done |= {"pue": pue} if pue > 1 else {}
        emissions = {kind: rounded(done[kind]["kwh"] * pue * grid["g_per_kwh"] / 1000)
                     for kind in KINDS if kind in done}
        done |= {"kg_co2eq": emissions} if emissions else {}
    return done


def rounded(value: float) -> float:
    """Round to six significant digits."""
    return round(value, _DIGITS - 1 - int(log10(value) // 1)) if value > 0 else 0.0


def _set_share(allotted: JsonObject, whole: Figures) -> None:
    if whole["kwh"]:
        allotted["share"] = round(allotted["kwh"] / whole["kwh"], _DIGITS)


def _sum(values: Iterable[float | None]) -> float:
    return rounded(fsum(value for value in values if value is not None))  # independent of the order


def _common(parts: Iterable[Figures], *names: str) -> JsonObject:
    """Return the values that are equal in all parts."""
    found = {}
    for name in names:
        values = [part[name] for part in parts if name in part]
        if values and all(value == values[0] for value in values):
            found[name] = values[0]
    return found
