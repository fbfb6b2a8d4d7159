"""The steps that led to a model, their data and licences, and their energy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bmtools.io.energy.figures import KINDS, add
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.cards.facts import ModelFacts, base_names
from bmtools.study.energy import find_steps
from bmtools.study.lineages.graph import DIRECTORY, SOURCE, Edge, Lineage, Node
from bmtools.study.lineages.lineage import trace


def own_lineage(facts: ModelFacts) -> Lineage:
    """Return the lineage of a model as far as its own record describes it."""
    record, id = facts.manifest, str(facts.manifest.get("sha256", ""))
    names, inputs, parents = (base_names(facts.settings), record.get("inputs", {}),
                              record.get("parents", {}))
    used = [*((name, name, digest) for name, digest in inputs.items() if name not in parents),
            *((role, names.get(role, role), digest) for role, digest in parents.items())]
    nodes = {id: Node(id, DIRECTORY, facts.name, facts.path, record)}
    for _, name, digest in used:
        nodes.setdefault(digest, Node(digest, SOURCE, name))
    return Lineage((id,), tuple(nodes.values()),
                   tuple(Edge(id, digest, role) for role, _, digest in used))


def traced_lineage(facts: ModelFacts, search: Sequence[Path] = ()) -> Lineage:
    """Trace a model back as far as records are found; nodes are named without directories.

    Args:
        facts: facts of the model.
        search: directories to search in addition to the places that records name.
    """
    lineage = trace([facts.path], search)
    return replace(lineage, nodes=tuple(replace(node, name=Path(node.name).name)
                                        for node in lineage.nodes))


def models_in(lineage: Lineage) -> list[Node]:
    """List the checkpoints and vocabularies of a lineage."""
    return [node for node in lineage.nodes if node.record.get("vocabulary")]


def data_of(lineage: Lineage) -> list[Node]:
    """List the files that models and vocabularies were made from, each once."""
    files = dict.fromkeys(file for model in models_in(lineage) for file in _files(lineage, model))
    return [lineage.node(file) for file in files]


def _files(lineage: Lineage, model: Node) -> list[str]:
    """List the hashes of the files that a model was made from."""
    return [edge.parent for edge in lineage.parents(model.id)
            if edge.role in model.record.get("inputs", {})]


def commands(lineage: Lineage, node: Node) -> list[str]:
    """Name the commands that led to a node, starting with the last."""
    return [name for one in lineage.behind(node.id) for name in one.commands]


def sizes(lineage: Lineage, file: Node) -> tuple[int, int]:
    """Return the documents and tokens that a model's step counted in a file; 0 if not counted."""
    for model in models_in(lineage):
        is_used = any(edge.parent == file.id for edge in lineage.parents(model.id))
        corpora = model.record.get("results", {}).get("corpora", {})
        counts = corpora.get("text") if is_used and len(corpora) == 1 else None
        if counts and len(model.record.get("inputs", {})) == 1:
            return counts["documents"], counts["tokens"]
    return 0, 0


def data_licence(lineage: Lineage, file: Node) -> str:
    """Return the licence of a file from its record, or from the records of steps that read it."""
    if known := licence_of(file):
        return known
    for model in models_in(lineage):
        found, settings = model.record.get("licences", {}), model.record.get("settings", {})
        files = _files(lineage, model)
        if file.id in files:
            roles = [role for role in found if settings.get(role) == file.name]
            if len(files) == 1:
                roles += ["text", "train", *model.record.get("inputs", {})]
            if names := [name for role in roles for name in found.get(role, ())]:
                return " AND ".join(dict.fromkeys(names))
    return ""


def licence_of(node: Node) -> str:
    """Return the resulting licence from a node's record; empty if it is unknown."""
    return str(node.record.get("licence", ""))


def languages_of(lineage: Lineage) -> list[str]:
    """List the language codes of all text that the models were trained on.

    Names such as Italian are left out. Regions are removed from codes: pt-BR becomes pt.
    """
    codes = {name.partition("-")[0].lower() for model in models_in(lineage)
             for name in model.record.get("results", {}).get("languages", ())}
    return sorted(code for code in codes if re.fullmatch("[a-z]{2,3}", code))


def energies_of(lineage: Lineage) -> list[JsonMapping]:
    """List the energy of each step that has any, each run once."""
    return [step.figures for step in find_steps(lineage.steps()) if step.has_energy]


def emissions(lineage: Lineage) -> JsonObject:
    """Return `co2_eq_emissions` for a card, from the most reliable kind; empty without any."""
    energies = energies_of(lineage)
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
