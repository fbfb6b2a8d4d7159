"""Totals of energy over the steps of a lineage or a study, and the statement for papers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from bmtools.io.energy.figures import KINDS, add, declare
from bmtools.io.energy.settings import EnergyConfig
from bmtools.records import JsonMapping, JsonObject

_METHODS = {"nvml": "GPUs by NVML", "nvml, sampled power": "GPUs by power that NVML sampled",
            "rapl": "processors and memory by RAPL"}
_MEANINGS = {"measured": "counters of complete devices, including other programs",
             "allotted": "the share of a machine that the commands used",
             "declared": "stated power over the hours of the clock"}
_GRAMS = 1000
_SECONDS = 3600
ALL = "all"


@dataclass(frozen=True)
class StepEnergy:
    """Energy of a step in a lineage.

    Args:
        name: name of its output.
        record: record of the step.
        figures: energy of the step; only hours if the record is old.
    """

    name: str
    record: JsonMapping
    figures: JsonMapping

    @property
    def command(self) -> str:
        """Name of the command."""
        return str(self.record["command"])

    @property
    def has_energy(self) -> bool:
        """Whether any kind of energy is known."""
        return any(kind in self.figures for kind in KINDS)


def find_steps(records: Iterable[tuple[str, JsonMapping]]) -> list[StepEnergy]:
    """List steps with their energy, each once.

    The outputs of a run, such as its checkpoints and its log, form one step. The step is named
    after the checkpoint with the most tokens. Its energy is from the output that was written last.

    Args:
        records: records of steps, with the names of their outputs.
    """
    steps: dict[str, StepEnergy] = {}
    for number, (name, record) in enumerate(records):
        if "command" not in record:
            continue
        hours = {"hours": record["wall_seconds"] / _SECONDS} if "wall_seconds" in record else {}
        figures = record.get("energy") or hours
        key = str(figures.get("run") or record.get("sha256") or number)
        same = [StepEnergy(name, record, figures), *filter(None, [steps.get(key)])]
        last = max(same, key=lambda step: step.figures.get("hours", 0))
        steps[key] = replace(max(same, key=lambda step: (
            step.record.get("tokens_seen", 0), step.figures.get("hours", 0))), figures=last.figures)
    return list(steps.values())


def total(steps: Iterable[StepEnergy], config: EnergyConfig) -> list[JsonObject]:
    """Add up steps: a line for each command, and one for all.

    Args:
        steps: steps from `find_steps`.
        config: values declared afterwards, which replace the values declared by steps.

    Returns:
        lines with `command`, `steps`, `hours` (sum of clock times) and `gpu_hours`. For each kind
        of energy, a line has `kwh`, and the `hours` and number of `steps` that have this kind. It
        has `kg_co2eq` if all of these steps have a grid. The line of `all` also has `hardware`,
        `without` (names of steps without energy), and `terms`. The terms are the energy by grid and
        PUE, and their sums are the emissions.
    """
    steps = [replace(step, figures=declare(step.figures, config, _year(step.record)))
             for step in steps]
    lines = [_line(command, [step for step in steps if step.command == command])
             for command in dict.fromkeys(step.command for step in steps)]
    return [*lines, {
        **_line(ALL, steps), "terms": _terms(steps),
        "hardware": list(dict.fromkeys(step.figures["hardware"] for step in steps
                                       if "hardware" in step.figures)),
        "without": [f"{step.command} ({step.name})" for step in steps if not step.has_energy]}]


def _year(record: JsonMapping) -> int:
    started = str(record.get("started", ""))[:4]
    return int(started) if started.isdigit() else datetime.now(UTC).year


def _line(command: str, steps: list[StepEnergy]) -> JsonObject:
    found = add(step.figures for step in steps)
    emissions = found.get("kg_co2eq", {})
    return {"command": command, "steps": len(steps), **_some(found, "hours", "gpu_hours"), **{
        kind: {"kwh": found[kind]["kwh"], "hours": found[kind]["hours"],
               "steps": sum(kind in step.figures for step in steps),
               **({"kg_co2eq": emissions[kind]} if kind in emissions else {}),
               **_some(found[kind], "by", "watts")} for kind in KINDS if kind in found}}


def _terms(steps: Iterable[StepEnergy]) -> list[JsonObject]:
    """Return the energy by grid and PUE."""
    groups: dict[str, list[JsonMapping]] = {}
    for figures in (step.figures for step in steps):
        groups.setdefault(repr((figures.get("grid"), figures.get("pue"))), []).append(figures)
    return [{**_some(group[0], "grid", "pue"), "kwh": kwh} for group in groups.values()
            if (kwh := {kind: one["kwh"] for kind, one in add(group).items() if kind in KINDS})]


def _some(found: JsonMapping, *names: str) -> JsonObject:
    return {name: found[name] for name in names if name in found}


def statement(lines: list[JsonObject]) -> str:
    """Write the statement of a study.

    Source: the form of Lacoste et al. 2019 (ML CO2 Impact) and the statement of BioBIT (Buonocore
    et al. 2023), which follows Luccioni et al. 2022.

    Args:
        lines: from `total`.
    """
    *commands, whole = lines
    return "\n\n".join(filter(None, [
        " ".join(_sentences(whole)),
        "\n".join(_arithmetic(whole)),
        "Hours by command: " + ", ".join(
            f"{line['command']} {_number(line.get('hours', 0))} ({line['steps']})"
            for line in commands) + ".",
        f"{len(names)} of {whole['steps']} steps have no energy and are not included: "
        f"{', '.join(names)}." if (names := whole["without"]) else ""])) + "\n"


def _sentences(whole: JsonObject) -> Iterator[str]:
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
        yield "Values of different kinds describe the same work and are not added."


def _arithmetic(whole: JsonObject) -> Iterator[str]:
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
        if "kg_co2eq" in found:
            products = " + ".join(
                f"{_number(term['kwh'][kind])} kWh"
                + (f" x PUE {_number(term['pue'])}" if "pue" in term else "")
                + f" x {_efficiency(term['grid'])}"
                for term in whole["terms"] if kind in term["kwh"])
            yield f"    {products} = {_number(found['kg_co2eq'])} kgCO2eq"
        else:
            yield "    no emissions: steps without a grid (BMTOOLS_COUNTRY, --country, --grid)"


def _steps(whole: JsonObject, kind: str) -> str:
    number = whole[kind]["steps"]
    return "all steps" if number == whole["steps"] else f"{number} of {whole['steps']} steps"


def _grid(grid: JsonObject) -> str:
    country = f"the grid of {grid['country']}" if "country" in grid else "a grid"
    source = f"{grid['year']}, {grid['source']}" if "year" in grid else "as declared"
    return f"{country} with a carbon efficiency of {_efficiency(grid)} ({source})"


def _efficiency(grid: JsonObject) -> str:
    return f"{_number(grid['g_per_kwh'] / _GRAMS)} kgCO2eq/kWh"


def _listed(values: Iterable[str], last: str = "and") -> str:
    *before, final = dict.fromkeys(values)
    return f"{', '.join(before)} {last} {final}" if before else final


def _number(value: float) -> str:
    """Format a number with four significant digits, without an exponent."""
    if value >= _GRAMS:
        return f"{value:,.0f}"
    return f"{float(f'{value:.4g}'):.12f}".rstrip("0").rstrip(".")
