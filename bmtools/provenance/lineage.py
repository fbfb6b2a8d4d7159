"""Lineage: from outputs back to the first bytes, along the hashes in step records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from bmtools.energy.settings import EnergyConfig
from bmtools.energy.totals import find_steps, total
from bmtools.errors import BmtoolsError, DataError
from bmtools.io.output import RECORD
from bmtools.provenance.record import hash_path, read_record, record_path, steps_of

SOURCE, PIPE, DIRECTORY = "source", "pipe", "directory"
_MOST_HASHED_BYTES = 1 << 30
_MOST_NAME = 256
_PLACES_ABOVE = 2
_BUILD = "build-vocab"
_KINDS = {"tokenize": "shards", _BUILD: "vocabulary"}


@dataclass(frozen=True)
class Node:
    """Content that a step read or made.

    Args:
        id: its SHA-256.
        kind: checkpoint, vocabulary, shards, directory, file, pipe, or source where no record says
            how it was made.
        name: as the paths that were asked for or a record give it.
        path: where it is; None where it was not found, or is a pipe.
        record: of the step that made it; empty for a source.
    """

    id: str
    kind: str
    name: str
    path: Path | None = None
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> list[Mapping[str, Any]]:
        """The records of the steps that made it: several of a file to which they appended, or of
        a pipe whose content the last ones did not change."""
        return [*steps_of(self.record)]


@dataclass(frozen=True)
class Edge:
    """Use of content by a step.

    Args:
        child: id of what the step made.
        parent: id of what it read.
        role: name of the input, or what a directory was to the step.
    """

    child: str
    parent: str
    role: str


@dataclass(frozen=True)
class Lineage:
    """Nodes and edges behind some outputs.

    Args:
        roots: ids of the outputs.
        nodes: each content once, outputs before what they were made of.
        edges: each once.
    """

    roots: tuple[str, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @property
    def unresolved(self) -> list[Node]:
        """Nodes that were not found, pipes left out."""
        return [node for node in self.nodes if node.path is None and node.kind != PIPE]

    @property
    def root(self) -> Node:
        """The first output."""
        return self.node(self.roots[0])

    def node(self, id: str) -> Node:
        """Return a node."""
        return next(node for node in self.nodes if node.id == id)

    def parents(self, id: str) -> list[Edge]:
        """Return the edges to what a node was made of."""
        return [edge for edge in self.edges if edge.child == id]

    def behind(self, id: str) -> list[Node]:
        """List a node and all that it was made of, each once."""
        ids = [id]
        for child in ids:
            ids += dict.fromkeys(edge.parent for edge in self.parents(child)
                                 if edge.parent not in ids)
        return [self.node(one) for one in ids]

    def steps(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the records of all steps with the names of what they made; of what was piped, those
        of what was made of it, and perhaps again its own."""
        for node in self.nodes:
            for step in steps_of(node.record, all_piped=True):
                yield node.name, step

    def totals(self) -> dict[str, Any]:
        """Add up hours, tokens, GPU-hours and energy of all steps, each once."""
        steps = find_steps(self.steps())
        *_, line = total(steps, EnergyConfig())
        del line["command"]
        return {**line, "tokens_seen": sum(step.record.get("tokens_seen", 0) for step in steps)}


def trace(paths: Iterable[str | os.PathLike[str]],
          search: Iterable[str | os.PathLike[str]] = (), takes_changed: bool = False) -> Lineage:
    """Follow outputs back to the first bytes.

    Links are hashes, and of vocabularies their fingerprints. The records' own names say where to
    look: from the directory of the record, and from the current one. What is beside a place that
    was found is looked at as well. A step that changed nothing is left out where another one made
    the same content.

    Args:
        paths: checkpoints, vocabularies, shards, corpora, predictions, scores.
        search: directories that are looked through for records and sources.
        takes_changed: whether what has changed since it was recorded is taken for what it was, by
            its record or else by its name; its node has the hash that was recorded.

    Raises:
        DataError: there is no such path.
    """
    _valid_record.cache_clear()
    _hash.cache_clear()
    return _Trace([Path(one) for one in search], takes_changed).follow([Path(one) for one in paths])


class _Trace:
    """Search for what records name, and its result so far.

    Args:
        search: directories that are looked through.
        takes_changed: as for `trace`.
    """

    def __init__(self, search: Sequence[Path], takes_changed: bool) -> None:
        self._takes_changed = takes_changed
        self._record = read_record if takes_changed else _valid_record
        self._nodes: dict[str, Node] = {}
        self._edges: dict[Edge, None] = {}
        self._places: dict[str, Path] = {}  # directory from which the names in a record lead
        self._records: dict[str, list[Path]] = {}  # of what is described as having a hash
        self._older: list[Path] = []  # without their own hash
        self._found: dict[str, Path] = {}
        self._read: set[Path] = set()
        self._vocabularies: dict[str, Path] = {}  # by fingerprint
        self._names: dict[str, list[Path]] = {}
        for folder in search:
            for parent, _, files in os.walk(folder):
                self._read_records(Path(parent))
                for path in (Path(parent), *(Path(parent, file) for file in files)):
                    self._names.setdefault(path.name, []).append(path)

    def follow(self, paths: Sequence[Path]) -> Lineage:
        """Add the nodes behind paths, breadth first."""
        roots = []
        for path in paths:
            if not path.exists():
                raise DataError(f"{path}: found nothing, expected a file or directory that bmtools "
                                "wrote")
            self._read_records(path.parent)
            if record := read_record(path):  # its directory may be one that cannot be listed
                self._note(path, record)
            id = str(self._record(path).get("sha256") or _hash(path))
            self._add(id, str(path), self._best(id) or self._changed(path), path)
            roots.append(id)
        waiting = list(dict.fromkeys(roots))
        while waiting:
            waiting += self._add_parents(self._nodes[waiting.pop(0)])
        return Lineage(tuple(dict.fromkeys(roots)), tuple(self._nodes.values()),
                       tuple(self._edges))

    def _add(self, id: str, name: str, record: Mapping[str, Any], path: Path | None,
             place: Path | None = None) -> None:
        name = str(relative(path)) if path else name
        self._nodes.setdefault(id, Node(id, _kind(path, record), name, path, record))
        self._places.setdefault(id, path.absolute().parent if path else place or Path.cwd())

    def _add_parents(self, node: Node) -> list[str]:
        """Add what a node was made of, and return the ids that are new."""
        new, place = [], self._places[node.id]
        for step in node.steps:
            for role, id, upstream in _links(step):
                if id in (node.id, step.get("sha256")):
                    continue
                self._edges[Edge(node.id, id, role)] = None
                if id not in self._nodes:
                    path = self._find(id, role, step, place)
                    record = (self._best(id) or self._changed(path) if path else {}) or upstream
                    self._add(id, role, record, path, place)
                    new.append(id)
            new += self._add_vocabulary(node.id, step, place)
        return new

    def _add_vocabulary(self, child: str, step: Mapping[str, Any], place: Path) -> list[str]:
        """Add the vocabulary of a step by its fingerprint, unless a model brought it."""
        fingerprint = step.get("vocabulary")
        own = (self._nodes[edge.parent].record for edge in self._edges if edge.child == child)
        if not fingerprint or step.get("command") == _BUILD or fingerprint in {
                record.get("vocabulary") for record in own}:
            return []
        for name in _words(step.get("settings", {}).get("tokenizer", "")):
            self._read_records((place / name).parent)
        if (path := self._vocabularies.get(fingerprint)) is None:
            return []
        if not (record := self._record(path)):
            return []
        id = str(record.get("sha256") or _hash(path))
        is_new = id not in self._nodes
        self._add(id, "tokenizer", record, path)
        self._edges[Edge(child, id, "tokenizer")] = None
        return [id] if is_new else []

    def _find(self, id: str, role: str, step: Mapping[str, Any], place: Path) -> Path | None:
        """Find content that a step read: by the records that are near, then by the names in its."""
        self._read_records(place)
        named: Path | None = None
        if self._best(id) is None:
            for candidate in self._candidates(role, step, place):
                self._read_records(candidate.parent)
                if self._best(id) is not None:
                    break
                if _has(candidate, id):
                    return candidate
                if self._takes_changed and candidate.name == _name(role, step):
                    named = named or candidate
        return self._found.get(id, named)

    def _changed(self, path: Path) -> dict[str, Any]:
        return read_record(path) if self._takes_changed else {}

    def _best(self, id: str) -> dict[str, Any] | None:
        """Return the record of content, and note where that is; a step that changed nothing made
        it only where no other one did."""
        for path in self._older:
            self._records.setdefault(_hash(path), []).append(path)
        self._older.clear()
        found: dict[str, Any] | None = None
        for path in self._records.get(id, []):
            record = self._record(path)
            if not record or (record.get("sha256") or _hash(path)) != id:
                continue
            is_made = all(id != parent for step in steps_of(record)
                          for _, parent, _ in _links(step))
            if found is None or is_made:
                found, self._found[id] = record, path
            if is_made:
                break
        return found

    def _read_records(self, place: Path) -> None:
        """Note the records in a directory, once; what may not be read has none."""
        if place.absolute() in self._read:
            return
        self._read.add(place.absolute())
        with suppress(OSError):
            for path in sorted(place.iterdir()):
                described = path if path.is_dir() else \
                    path.with_name(path.name.removesuffix(RECORD))
                if (described == path) == path.is_dir() and (record := read_record(described)):
                    self._note(described, record)

    def _note(self, described: Path, record: Mapping[str, Any]) -> None:
        if record.get("command") == _BUILD and "vocabulary" in record:
            self._vocabularies[record["vocabulary"]] = described
        if "sha256" in record:
            self._records.setdefault(record["sha256"], []).append(described)
        else:
            self._older.append(described)

    def _candidates(self, role: str, step: Mapping[str, Any], place: Path) -> Iterator[Path]:
        """Yield where names lead: of an input its own, of a directory those among the settings."""
        names = list(_words(step.get("settings", {}))) if role in step.get("parents", {}) else \
            [role, role.rpartition(" (")[0]]
        places = [place, *place.parents[:_PLACES_ABOVE], Path.cwd()]
        for name in filter(None, dict.fromkeys(names)):
            for candidate in (*(one / name for one in places),
                              *self._names.get(Path(name).name, ())):
                if _is_there(candidate):
                    yield candidate


def _links(step: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield names or roles and hashes of what a step read, and the record of what was piped."""
    piped = {str(record.get("sha256")): record for record in step.get("upstream", {}).values()}
    for role, id in (*step.get("inputs", {}).items(), *step.get("parents", {}).items()):
        yield role, id, piped.get(id, {})


def _name(role: str, step: Mapping[str, Any]) -> str:
    """Return the name of a file or directory that a step read in some role."""
    settings, (kind, _, number) = step.get("settings", {}), role.rpartition(" ")
    found = settings.get(role, settings.get(kind, role))
    if found and isinstance(found, list) and number.isdigit():
        found = found[min(int(number), len(found)) - 1]
    return Path(str(found)).name


def _is_there(path: Path) -> bool:
    """Tell whether there is something that may be reached; a name may be no path at all."""
    try:
        return path.exists()
    except OSError:
        return False


def _words(value: Any) -> Iterator[str]:
    """Yield the settings that may be paths."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _words(one)
    elif isinstance(value, str) and len(value) < _MOST_NAME and "\n" not in value:
        yield value.rpartition("=")[2]


_hash = cache(hash_path)


@cache
def _valid_record(path: Path) -> dict[str, Any]:
    """Read a record; empty where it is of what has been replaced. An older one gets the hash."""
    record = read_record(path)
    if record:
        written = record_path(path).stat().st_mtime_ns
        files = [path / name for name in record.get("files", {})] if path.is_dir() else [path]
        is_newer = any(not file.exists() or file.stat().st_mtime_ns > written for file in files)
        if "sha256" not in record or is_newer:
            found = _hash(path)
            return record if record.setdefault("sha256", found) == found else {}
    return record


def relative(path: Path) -> Path:
    """Return a path from the current directory, where it is below that."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _has(path: Path, id: str) -> bool:
    """Tell whether content has a hash; large files without a record are taken by their name."""
    try:
        if path.is_dir():
            return hash_path(path, id) == id
        return path.stat().st_size > _MOST_HASHED_BYTES or _hash(path) == id
    except (BmtoolsError, OSError):
        return False


def _kind(path: Path | None, record: Mapping[str, Any]) -> str:
    if not record:
        return SOURCE
    if path is None:
        return PIPE
    if (path / "config.json").is_file():
        return "checkpoint"
    return _KINDS.get(record.get("command", ""), DIRECTORY if path.is_dir() else "file")
