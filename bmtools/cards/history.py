"""The steps that led to a model: its data, their licences, and the energy of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bmtools.cards.facts import ModelFacts, base_names, language_codes
from bmtools.energy.figures import KINDS, add
from bmtools.energy.totals import find_steps
from bmtools.provenance.lineage import trace
from bmtools.provenance.record import steps_of


@dataclass(frozen=True)
class Step:
    """An output on the way to a model, and how it was made.

    Args:
        name: of the file or directory.
        sha256: of its content.
        record: its step record; empty where there is none.
        uses: what it was made from, by role; roles of files are their names.
    """

    name: str
    sha256: str
    record: Mapping[str, Any] = field(default_factory=dict)
    uses: Mapping[str, Step] = field(default_factory=dict)

    def all(self) -> list[Step]:
        """List this step and all before it, each once, parents after children."""
        found: dict[str, Step] = {}
        waiting = [self]
        while waiting:
            step = waiting.pop(0)
            if step.sha256 not in found:
                found[step.sha256] = step
                waiting += step.uses.values()
        return list(found.values())

    def models(self) -> list[Step]:
        """List the checkpoints and vocabularies among them."""
        return [step for step in self.all() if step.record.get("vocabulary")]

    def data(self) -> dict[str, Step]:
        """Find the files that models and vocabularies were made of, by hash."""
        return {used.sha256: used for step in self.models() for role, used in step.uses.items()
                if role in step.record.get("inputs", {})}

    def commands(self) -> list[str]:
        """Name the commands that made it, the last one first."""
        return [record["command"] for step in self.all()
                for record in steps_of(step.record) if "command" in record]


def own_step(facts: ModelFacts) -> Step:
    """Make the step of a model, with what its own record says of the steps before."""
    return _step(facts.name, str(facts.manifest.get("sha256", "")), facts.manifest)


def _step(name: str, sha256: str, record: Mapping[str, Any]) -> Step:
    roles = base_names(record.get("settings", {}))
    return Step(name, sha256, record, {
        **{name: Step(name, digest) for name, digest in record.get("inputs", {}).items()},
        **{role: Step(roles.get(role, role), digest)
           for role, digest in record.get("parents", {}).items()}})


def traced_step(facts: ModelFacts, search: Sequence[Path] = ()) -> Step:
    """Make the step of a model, with all before it whose records can be found.

    Args:
        facts: of the model.
        search: folders to look through besides the places that records name.
    """
    lineage = trace([facts.path], search)
    uses: dict[str, dict[str, Step]] = {node.id: {} for node in lineage.nodes}
    steps = {node.id: Step(Path(node.name).name, node.id, node.record, uses[node.id])
             for node in lineage.nodes}
    for edge in lineage.edges:
        uses[edge.child][edge.role] = steps[edge.parent]
    return steps[lineage.roots[0]]


def sizes(step: Step, model: Step) -> tuple[int, int]:
    """Find the documents and tokens that a model's steps counted in a file; 0 where none did."""
    for user in model.models():
        names = [role for role, used in user.uses.items() if used.sha256 == step.sha256]
        corpora = user.record.get("results", {}).get("corpora", {})
        counts = corpora.get("text") if names and len(corpora) == 1 else None
        if counts and len(user.record.get("inputs", {})) == 1:
            return counts["documents"], counts["tokens"]
    return 0, 0


def data_licence(step: Step, model: Step) -> str:
    """Find the licence of a file: by its record, or as those who read it recorded it."""
    if known := licence_of(step):
        return known
    for user in model.models():
        found, settings = user.record.get("licences", {}), user.record.get("settings", {})
        files = [used.sha256 for role, used in user.uses.items()
                 if role in user.record.get("inputs", {})]
        if step.sha256 in files:
            roles = [role for role in found if settings.get(role) == step.name]
            if len(files) == 1:
                roles += ["text", "train", *user.record.get("inputs", {})]
            if names := [name for role in roles for name in found.get(role, ())]:
                return " AND ".join(dict.fromkeys(names))
    return ""


def licence_of(model: Step) -> str:
    """Find the licence that results, as the step's record has it; empty where it is unknown."""
    return str(model.record.get("licence", ""))


def languages_of(model: Step) -> list[str]:
    """List the codes of the languages of all text that the models were trained on."""
    return language_codes(name for step in model.models()
                          for name in step.record.get("results", {}).get("languages", ()))


def energies_of(model: Step) -> list[Mapping[str, Any]]:
    """List the energy of each step that has any figures, each run once."""
    steps = find_steps((step.name, step.record) for step in model.all())
    return [step.figures for step in steps if step.has_energy]


def emissions(model: Step) -> dict[str, Any]:
    """Make `co2_eq_emissions` of a card of the surest kind of figure; empty without any."""
    energies = energies_of(model)
    total = add(energies)
    kind = next((kind for kind in KINDS if kind in total.get("kg_co2eq", {})), "")
    if not kind:
        return {}
    grid = total.get("grid", {})
    intensity = f"{grid['g_per_kwh']} g/kWh ({grid['source']})" if grid else "their grids"
    return {"emissions": round(1000 * total["kg_co2eq"][kind], 3),
            "source": f"bmtools: {kind} energy of {sum(kind in one for one in energies)} steps, "
                      f"times {intensity}",
            **({"geographical_location": grid["country"]} if "country" in grid else {}),
            **({"hardware_used": total["hardware"]} if "hardware" in total else {})}
