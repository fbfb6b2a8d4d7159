"""Lineage as a tree for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bmtools.errors import count_of, without_controls
from bmtools.io.energy.figures import KINDS
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.lineages.graph import PIPE, SOURCE, Lineage, Node
from bmtools.values import format_figure

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

_HASH_DIGITS = 8


def lineage_tree(lineage: Lineage, root: str, seen: set[str]) -> Tree:
    """Draw the tree of an output: below each content its inputs, each content once.

    Args:
        lineage: lineage of one or several outputs.
        root: id of one output.
        seen: ids that were drawn before, which are only named; the ids of this tree are added.
    """
    from rich.tree import Tree

    tree = Tree(_steps(lineage, root, ""))
    seen.add(root)
    waiting = [(tree, root)]
    while waiting:
        branch, child = waiting.pop()
        below = []
        for edge in lineage.parents(child):
            if edge.parent in seen:
                has_more = bool(lineage.parents(edge.parent))
                branch.add(_title(lineage.node(edge.parent), edge.role, "above" * has_more))
            else:
                seen.add(edge.parent)
                below.append((branch.add(_steps(lineage, edge.parent, edge.role)), edge.parent))
        waiting += reversed(below)
    return tree


def total_lines(lineage: Lineage) -> Iterator[str]:
    """Yield lines with the totals of all steps, and with the contents that were not found."""
    totals = lineage.totals()
    facts = [count_of(totals["steps"], "steps"), format_figure("hours", totals.get("hours", 0))]
    if totals["tokens_seen"]:
        facts.append(count_of(totals["tokens_seen"], "tokens trained on"))
    if totals.get("gpu_hours"):
        facts.append(f"{totals['gpu_hours']:.3g} GPU-hours")
    yield ", ".join(facts)
    for kind in KINDS:
        if found := totals.get(kind):
            emissions = f", {found['kg_co2eq']:.3g} kg CO2eq" if "kg_co2eq" in found else ""
            steps = count_of(found["steps"], "steps")
            yield f"{kind}: {found['kwh']:.3g} kWh{emissions} in {steps}"
    for node in lineage.unresolved:
        yield f"not found here: {node.name} (SHA-256 {node.id})"


def _steps(lineage: Lineage, id: str, role: str) -> Text:
    """Return title and steps of a node."""
    from rich.text import Text

    node = lineage.node(id)
    lines = [_title(node, role, "not found here" * (node in lineage.unresolved))]
    lines += [Text(without_controls(" · ".join(_facts(step))), "dim") for step in node.steps]
    return Text("\n").join(lines)


def _title(node: Node, role: str, remark: str) -> Text:
    from rich.text import Text

    named = role and role not in (node.name, node.name.rpartition("/")[2])
    title = Text(without_controls(f"{role}: {node.name}" if named and node.kind != PIPE
                                  else node.name), "bold")
    kind = "" if node.kind == SOURCE else f"{node.kind} "
    return title.append(f"  {kind}{node.id[:_HASH_DIGITS]}{remark and f', {remark}'}",
                        "not bold dim")


def _facts(step: JsonMapping) -> Iterator[str]:
    yield str(step.get("command", "unknown command"))
    if started := step.get("started"):
        yield str(started)[:16].replace("T", " ")
    if "wall_seconds" in step:
        yield format_figure("wall_seconds", step["wall_seconds"])
    if step.get("tokens_seen"):
        yield count_of(step["tokens_seen"], "tokens")
    if step.get("seed") is not None:
        yield f"seed {step['seed']}"
    if step.get("licence"):
        yield str(step["licence"])
    versions = step.get("versions", {})
    yield from (f"{name} {versions[name]}" for name in ("bmtools", "torch") if name in versions)


def lineage_json(lineage: Lineage) -> JsonObject:
    """Return roots, nodes with their records, edges and totals."""
    return {"roots": list(lineage.roots),
            "nodes": [{"id": node.id, "kind": node.kind, "name": node.name,
                       "path": node.path and str(node.path), "record": node.record,
                       **({"unchanged": list(node.unchanged)} if node.unchanged else {})}
                      for node in lineage.nodes],
            "edges": [vars(edge) for edge in lineage.edges], "totals": lineage.totals()}
