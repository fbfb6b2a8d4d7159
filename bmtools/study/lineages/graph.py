"""Graph of a lineage: contents, the steps that made them, and the inputs of these steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from bmtools.io.energy.settings import EnergyConfig
from bmtools.io.provenance.record import steps_of
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.energy import find_steps, total

SOURCE, PIPE, DIRECTORY = "source", "pipe", "directory"


@dataclass(frozen=True)
class Node:
    """Content that a step read or made.

    Args:
        id: SHA-256 of the content.
        kind: checkpoint, vocabulary, shards, directory, file or pipe; source if there is no record
            of how it was made.
        name: name in the given paths or in a record.
        path: path of the content; None if it was not found or is a pipe.
        record: record of the step that made it; empty for a source.
        unchanged: records of the steps that passed it on unchanged, the last one first.
    """

    id: str
    kind: str
    name: str
    path: Path | None = None
    record: JsonMapping = field(default_factory=dict)
    unchanged: tuple[JsonMapping, ...] = ()

    @property
    def steps(self) -> list[JsonMapping]:
        """Records of the steps that passed the content on, through files and pipes, and made it.

        A file to which steps appended has several.
        """
        return [step for record in self.records for step in steps_of(record)]

    @property
    def commands(self) -> list[str]:
        """Commands of the steps."""
        return [str(step["command"]) for step in self.steps if "command" in step]

    @property
    def records(self) -> tuple[JsonMapping, ...]:
        """Records of the steps that passed it on, then the record of the step that made it."""
        return *self.unchanged, self.record


@dataclass(frozen=True)
class Edge:
    """Use of content by a step.

    Args:
        child: id of the content that the step made.
        parent: id of the content that the step read.
        role: name of the input, or the role of a directory, such as model.
    """

    child: str
    parent: str
    role: str


@dataclass(frozen=True)
class Lineage:
    """Nodes and edges that led to some outputs.

    Args:
        roots: ids of the outputs.
        nodes: each content once, outputs before their inputs.
        edges: each edge once.
    """

    roots: tuple[str, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @property
    def unresolved(self) -> list[Node]:
        """Nodes that were not found, except for pipes."""
        return [node for node in self.nodes if node.path is None and node.kind != PIPE]

    @property
    def root(self) -> Node:
        """The first output."""
        return self.node(self.roots[0])

    @property
    def ends(self) -> list[str]:
        """Outputs that are not an input of another output."""
        used = {edge.parent for edge in self.edges}
        return [id for id in self.roots if id not in used]

    def node(self, id: str) -> Node:
        """Return a node."""
        return next(node for node in self.nodes if node.id == id)

    def parents(self, id: str) -> list[Edge]:
        """Return the edges from a node to its inputs."""
        return [edge for edge in self.edges if edge.child == id]

    def behind(self, id: str) -> list[Node]:
        """List a node and all nodes that led to it, each once."""
        ids = [id]
        for child in ids:
            ids += dict.fromkeys(edge.parent for edge in self.parents(child)
                                 if edge.parent not in ids)
        return [self.node(one) for one in ids]

    def steps(self) -> Iterator[tuple[str, JsonMapping]]:
        """Yield the records of all steps with the names of their outputs.

        A step that piped into another step is yielded twice, with both steps' outputs.
        """
        for node in self.nodes:
            for record in node.records:
                yield from ((node.name, step) for step in steps_of(record, all_piped=True))

    def totals(self, others: Iterable[tuple[str, JsonMapping]] = ()) -> JsonObject:
        """Add up hours, tokens, GPU-hours and energy of all steps and other steps, each once."""
        steps = find_steps(chain(self.steps(), others))
        line = total(steps, EnergyConfig())[-1]
        del line["command"]
        return {**line, "tokens_seen": sum(step.record.get("tokens_seen", 0) for step in steps)}
