"""Totals of energy over the steps of a lineage or of a whole study, each step once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bmtools.io.energy.figures import KINDS, add, declare
from bmtools.io.energy.settings import EnergyConfig

ALL = "all"
_SECONDS = 3600


@dataclass(frozen=True)
class StepEnergy:
    """Energy of a step of a lineage.

    Args:
        name: of what it made.
        record: how it was made.
        figures: its energy; of older records the hours alone.
    """

    name: str
    record: Mapping[str, Any]
    figures: Mapping[str, Any]

    @property
    def command(self) -> str:
        """Name of the command."""
        return str(self.record["command"])

    @property
    def has_energy(self) -> bool:
        """Whether there is a figure of any kind."""
        return any(kind in self.figures for kind in KINDS)


def find_steps(records: Iterable[tuple[str, Mapping[str, Any]]]) -> list[StepEnergy]:
    """List steps with their energy, each once.

    Outputs of one run, such as its checkpoints, are one step: the last has the figures of all.

    Args:
        records: of steps, with the names of their outputs.
    """
    steps: dict[str, StepEnergy] = {}
    for number, (name, record) in enumerate(records):
        if "command" not in record:
            continue
        hours = {"hours": record["wall_seconds"] / _SECONDS} if "wall_seconds" in record else {}
        figures = record.get("energy") or hours
        key = str(figures.get("run") or record.get("sha256") or number)
        if key not in steps or figures.get("hours", 0) > steps[key].figures.get("hours", 0):
            steps[key] = StepEnergy(name, record, figures)
    return list(steps.values())


def total(steps: Iterable[StepEnergy], config: EnergyConfig) -> list[dict[str, Any]]:
    """Add up steps: a line for each command, and one for all.

    Args:
        steps: from `find_steps`.
        config: declared afterwards; it takes the place of what steps declare.

    Returns:
        lines with `command`, `steps`, `hours` (of the clock, added up), `gpu_hours`, and by kind
        `kwh`, the `hours` and the number of `steps` that have it, and `kg_co2eq` if all of these
        steps have a grid. The line of `all` has `hardware`, `without` (names of steps without
        figures), and `terms`: energy by grid and PUE, of which emissions are the sums.
    """
    steps = [_declared(step, config) for step in steps]
    commands = dict.fromkeys(step.command for step in steps)
    lines = [_line(command, [step for step in steps if step.command == command])
             for command in commands]
    return [*lines, {
        **_line(ALL, steps), "terms": _terms(steps),
        "hardware": list(dict.fromkeys(step.figures["hardware"] for step in steps
                                       if "hardware" in step.figures)),
        "without": [f"{step.command} ({step.name})" for step in steps if not step.has_energy]}]


def _declared(step: StepEnergy, config: EnergyConfig) -> StepEnergy:
    started = str(step.record.get("started", ""))[:4]
    year = int(started) if started.isdigit() else datetime.now(UTC).year
    return StepEnergy(step.name, step.record, declare(step.figures, config, year))


def _line(command: str, steps: list[StepEnergy]) -> dict[str, Any]:
    found = add(step.figures for step in steps)
    line: dict[str, Any] = {"command": command, "steps": len(steps)}
    line |= {name: found[name] for name in ("hours", "gpu_hours") if name in found}
    for kind in KINDS:
        if kind in found:
            emissions = found.get("kg_co2eq", {})
            line[kind] = {"kwh": found[kind]["kwh"], "hours": found[kind]["hours"],
                          "steps": sum(kind in step.figures for step in steps),
                          **({"kg_co2eq": emissions[kind]} if kind in emissions else {})}
            line[kind] |= {name: found[kind][name] for name in ("by", "watts")
                           if name in found[kind]}
    return line


def _terms(steps: Iterable[StepEnergy]) -> list[dict[str, Any]]:
    """Return the energy by grid and PUE."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for step in steps:
        figures = step.figures
        groups.setdefault(repr((figures.get("grid"), figures.get("pue"))), []).append(figures)
    terms = []
    for group in groups.values():
        kwh = {kind: one["kwh"] for kind, one in add(group).items() if kind in KINDS}
        if kwh:
            terms.append({**{name: group[0][name] for name in ("grid", "pue") if name in group[0]},
                          "kwh": kwh})
    return terms
