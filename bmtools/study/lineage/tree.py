"""Lineage as a tree: outputs first, below each what it was made of; content once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bmtools.errors import count_of, without_controls
from bmtools.study.lineage.graph import PIPE, SOURCE, Lineage, Node
from bmtools.study.reports.lineage_graph import HASH_DIGITS
from bmtools.values import format_duration

if TYPE_CHECKING:
    from rich.tree import Tree

_SECONDS = 3600


def lineage_tree(lineage: Lineage, root: str, seen: set[str], settings: bool = False) -> Tree:
    """Draw the tree of an output.

    Args:
        lineage: of several outputs.
        root: id of one.
        seen: ids that were drawn before, which are only named; those of this tree are added.
        settings: whether all settings of each step are shown.
    """
    from rich.tree import Tree

    tree = Tree(_label(lineage, root, "", settings))
    seen.add(root)
    waiting = [(tree, root)]
    while waiting:
        branch, child = waiting.pop()
        below = []
        for edge in lineage.parents(child):
            if edge.parent in seen:
                node = lineage.node(edge.parent)
                has_more = bool(lineage.parents(edge.parent))
                branch.add(_title(node, edge.role, "above" if has_more else ""))
            else:
                seen.add(edge.parent)
                below.append((branch.add(_label(lineage, edge.parent, edge.role, settings)),
                              edge.parent))
        waiting += reversed(below)
    return tree


def total_lines(lineage: Lineage) -> Iterator[str]:
    """Say in words what all steps took, and what was not found."""
    totals = lineage.totals()
    facts = [count_of(totals["steps"], "steps"),
             format_duration(totals.get("hours", 0) * _SECONDS)]
    if totals["tokens_seen"]:
        facts.append(count_of(totals["tokens_seen"], "tokens trained on"))
    if totals.get("gpu_hours"):
        facts.append(f"{totals['gpu_hours']:.3g} GPU-hours")
    yield ", ".join(facts)
    for kind in ("measured", "allotted", "declared"):
        if found := totals.get(kind):
            emissions = f", {found['kg_co2eq']:.3g} kg CO2eq" if "kg_co2eq" in found else ""
            steps = count_of(found["steps"], "steps")
            yield f"{kind}: {found['kwh']:.3g} kWh{emissions} in {steps}"
    for node in lineage.unresolved:
        yield f"not found here: {node.name} (SHA-256 {node.id})"


def _label(lineage: Lineage, id: str, role: str, settings: bool) -> Any:
    """Return title and steps of a node."""
    from rich.text import Text

    node = lineage.node(id)
    lost = "not found here" if node in lineage.unresolved else ""
    lines = [_title(node, role, lost)]
    for step in node.steps:
        lines.append(Text(without_controls(" · ".join(_facts(step))), "dim"))
        if settings:
            values = (f"{name}={value}" for name, value in step.get("settings", {}).items())
            lines.append(Text(without_controls(", ".join(values)), "dim"))
    return Text("\n").join(lines)


def _title(node: Node, role: str, remark: str) -> Any:
    from rich.text import Text

    named = role and role not in (node.name, node.name.rpartition("/")[2])
    title = Text(without_controls(f"{role}: {node.name}" if named and node.kind != PIPE
                                  else node.name), "bold")
    remark = f", {remark}" if remark else ""
    return title.append(f"  {'' if node.kind == SOURCE else node.kind + ' '}"
                        f"{node.id[:HASH_DIGITS]}{remark}", "not bold dim")


def _facts(step: Mapping[str, Any]) -> Iterator[str]:
    yield str(step.get("command", "unknown command"))
    if started := step.get("started"):
        yield str(started)[:16].replace("T", " ")
    if "wall_seconds" in step:
        yield format_duration(step["wall_seconds"])
    if step.get("tokens_seen"):
        yield count_of(step["tokens_seen"], "tokens")
    if step.get("seed") is not None:
        yield f"seed {step['seed']}"
    if step.get("licence"):
        yield str(step["licence"])
    versions = step.get("versions", {})
    yield from (f"{name} {versions[name]}" for name in ("bmtools", "torch") if name in versions)
