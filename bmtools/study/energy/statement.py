"""Statement of environmental impact, in the words in which papers make it, with its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bmtools.io.energy.figures import KINDS

_METHODS = {"nvml": "GPUs by NVML", "nvml, sampled power": "GPUs by power that NVML sampled",
            "rapl": "processors and memory by RAPL"}
_MEANINGS = {"measured": "counters of whole devices, whoever used them",
             "allotted": "the share of a machine that the commands used",
             "declared": "stated power over the hours of the clock"}
_GRAMS = 1000


def statement(lines: Sequence[Mapping[str, Any]]) -> str:
    """Write the statement of a study.

    Source: the form of Lacoste et al. 2019 (ML CO2 Impact) and the statement of BioBIT (Buonocore
    et al. 2023), which follows Luccioni et al. 2022.

    Args:
        lines: from `totals.total`.
    """
    *commands, whole = lines
    return "\n\n".join(filter(None, [
        " ".join(_sentences(whole)),
        "\n".join(_arithmetic(whole)),
        "Hours by command: " + ", ".join(
            f"{line['command']} {_number(line.get('hours', 0))} ({line['steps']})"
            for line in commands) + ".",
        _without(whole)])) + "\n"


def _sentences(whole: Mapping[str, Any]) -> Iterator[str]:
    grids = [term["grid"] for term in whole["terms"] if "grid" in term]
    if grids:
        yield f"Experiments were conducted using electricity of {_listed(map(_grid, grids))}."
    gpu_hours = f" ({_number(whole['gpu_hours'])} GPU-hours)" if whole.get("gpu_hours") else ""
    watts = whole.get("declared", {}).get("watts")
    power = f" (declared power of {_number(watts)} W)" if watts else ""
    hardware = f"of type {'; '.join(whole['hardware'])}" if whole["hardware"] \
        else "that was not recorded"
    yield (f"A cumulative of {_number(whole.get('hours', 0))} hours of computation{gpu_hours} was "
           f"performed on hardware {hardware}{power}.")
    emissions = [f"{_number(whole[kind]['kg_co2eq'])} kgCO2eq ({kind}, of {_steps(whole, kind)})"
                 for kind in KINDS if "kg_co2eq" in whole.get(kind, {})]
    if emissions:
        yield f"Total emissions are estimated to be {_listed(emissions, 'or')}."
    if sum(kind in whole for kind in KINDS) > 1:
        yield "Figures of different kinds describe the same work and are not added."


def _arithmetic(whole: Mapping[str, Any]) -> Iterator[str]:
    for kind in KINDS:
        if kind not in whole:
            continue
        found = whole[kind]
        methods = [_METHODS.get(one, one) for one in found.get("by", ())]
        by = f": {_listed(methods)}" if methods else ""
        part = f"{_steps(whole, kind)}, {_number(found['hours'])} of " \
               f"{_number(whole.get('hours', 0))} hours"
        power = f"{_number(found['watts'])} W x {_number(found['hours'])} h = " \
            if "watts" in found else ""
        yield f"{kind} ({_MEANINGS[kind]}{by}; {part}): {power}{_number(found['kwh'])} kWh"
        terms = [term for term in whole["terms"] if kind in term["kwh"]]
        if "kg_co2eq" in found:
            products = " + ".join(_product(term, kind) for term in terms)
            yield f"    {products} = {_number(found['kg_co2eq'])} kgCO2eq"
        else:
            yield "    no emissions: steps without a grid (BMTOOLS_COUNTRY, --country, --grid)"


def _steps(whole: Mapping[str, Any], kind: str) -> str:
    number = whole[kind]["steps"]
    return "all steps" if number == whole["steps"] else f"{number} of {whole['steps']} steps"


def _product(term: Mapping[str, Any], kind: str) -> str:
    pue = f" x PUE {_number(term['pue'])}" if "pue" in term else ""
    return f"{_number(term['kwh'][kind])} kWh{pue} x {_efficiency(term['grid'])}"


def _grid(grid: Mapping[str, Any]) -> str:
    country = f"the grid of {grid['country']}" if "country" in grid else "a grid"
    source = f"{grid['year']}, {grid['source']}" if "year" in grid else "as declared"
    return f"{country} with a carbon efficiency of {_efficiency(grid)} ({source})"


def _efficiency(grid: Mapping[str, Any]) -> str:
    return f"{_number(grid['g_per_kwh'] / _GRAMS)} kgCO2eq/kWh"


def _without(whole: Mapping[str, Any]) -> str:
    names = whole["without"]
    return f"{len(names)} of {whole['steps']} steps have no figure of energy, and are in none: " \
           f"{', '.join(names)}." if names else ""


def _listed(values: Any, last: str = "and") -> str:
    *before, final = dict.fromkeys(values)
    return f"{', '.join(before)} {last} {final}" if before else str(final)


def _number(value: float) -> str:
    """Write a figure with four significant digits, and without an exponent."""
    if value >= _GRAMS:
        return f"{value:,.0f}"
    return f"{float(f'{value:.4g}'):.12f}".rstrip("0").rstrip(".")
