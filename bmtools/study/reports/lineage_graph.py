"""Lineage as a graph, for Graphviz and Mermaid, and as JSON."""

from __future__ import annotations

import json
from typing import Any

from bmtools.errors import without_controls
from bmtools.study.lineage.graph import SOURCE, Lineage, Node

HASH_DIGITS = 8


def lineage_json(lineage: Lineage) -> dict[str, Any]:
    """Return roots, nodes with their records, edges and totals."""
    return {"roots": list(lineage.roots),
            "nodes": [{"id": node.id, "kind": node.kind, "name": node.name,
                       "path": node.path and str(node.path), "record": node.record,
                       **({"unchanged": list(node.unchanged)} if node.unchanged else {})}
                      for node in lineage.nodes],
            "edges": [vars(edge) for edge in lineage.edges], "totals": lineage.totals()}


def lineage_dot(lineage: Lineage) -> str:
    """Write a graph for Graphviz, from sources on the left to outputs."""
    names = _names(lineage)
    nodes = [f"  {names[node.id]} [label={_quoted(chr(10).join(_label(node)))}"
             f"{', style=dashed' if node in lineage.unresolved else ''}];"
             for node in lineage.nodes]
    edges = [f"  {names[edge.parent]} -> {names[edge.child]} [label={_quoted(edge.role)}];"
             for edge in lineage.edges]
    return "\n".join(["digraph lineage {", "  rankdir=LR;", "  node [shape=box];", *nodes, *edges,
                      "}", ""])


def lineage_mermaid(lineage: Lineage) -> str:
    """Write a graph for Mermaid, as READMEs of GitHub and the Hub draw it."""
    names = _names(lineage)
    nodes = [f'  {names[node.id]}["{"<br/>".join(map(_escaped, _label(node)))}"]'
             for node in lineage.nodes]
    edges = [f'  {names[edge.parent]} -->|"{_escaped(edge.role)}"| {names[edge.child]}'
             for edge in lineage.edges]
    return "\n".join(["graph LR", *nodes, *edges, ""])


def _names(lineage: Lineage) -> dict[str, str]:
    return {node.id: f"n{number}" for number, node in enumerate(lineage.nodes)}


def _label(node: Node) -> list[str]:
    """Return name, commands and the beginning of the hash."""
    return [node.name, *([SOURCE] if node.kind == SOURCE else dict.fromkeys(node.commands)),
            node.id[:HASH_DIGITS]]


def _quoted(text: str) -> str:
    lines = [without_controls(line) for line in text.split("\n")]
    return json.dumps("\n".join(lines), ensure_ascii=False)


def _escaped(text: str) -> str:
    """Write the characters that mean something to Mermaid or HTML as entities."""
    return "".join(f"#{ord(one)};" if one in "\"<>&#`" else one for one in without_controls(text))
