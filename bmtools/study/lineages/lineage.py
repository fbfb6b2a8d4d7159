"""Tracing of outputs back to their first inputs, by the hashes in step records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

from bmtools.errors import BmtoolsError, DataError
from bmtools.io.output import RECORD
from bmtools.io.provenance.record import (
    hash_path,
    read_record,
    record_path,
    recorded_outputs,
    steps_of,
)
from bmtools.io.unfinished import KEPT
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.lineages.graph import DIRECTORY, PIPE, SOURCE, Edge, Lineage, Node

_MOST_HASHED_BYTES = 1 << 30
_MOST_NAME = 256
_PLACES_ABOVE = 2
_BUILD = "build-vocab"
_KINDS = {"tokenize": "shards", _BUILD: "vocabulary"}


def trace(paths: Iterable[str | os.PathLike[str]],
          search: Iterable[str | os.PathLike[str]] = (), takes_changed: bool = False) -> Lineage:
    """Trace outputs back to their first inputs.

    Inputs are identified by their hashes, vocabularies by their fingerprints. They are searched for
    under the names in the records, relative to the record's directory and to the current directory.
    Records next to a file that was found are also read. Steps that changed nothing are listed with
    the content that they passed on.

    Args:
        paths: checkpoints, vocabularies, shards, corpora, predictions, scores, or directories of
            these.
        search: directories that are searched for records and sources.
        takes_changed: accept content that has changed since it was recorded, by its record or its
            name; its node has the recorded hash.

    Warns:
        BmtoolsWarning: the record of a source is damaged; not with `takes_changed`.

    Raises:
        DataError: a path does not exist.
    """
    _valid_record.cache_clear()
    _hash.cache_clear()
    outputs = [output for path in map(Path, paths)
               for output in [*filter(Path.exists, recorded_outputs(path))] or [path]]
    return _Trace([Path(one) for one in search], takes_changed).follow(outputs)


class _Trace:
    """Search for the contents that records name, and its result so far.

    Args:
        search: directories that are searched.
        takes_changed: see `trace`.
    """

    def __init__(self, search: Sequence[Path], takes_changed: bool) -> None:
        self._takes_changed = takes_changed
        self._record = read_record if takes_changed else _valid_record
        self._nodes: dict[str, Node] = {}
        self._edges: dict[Edge, None] = {}
        self._places: dict[str, Path] = {}  # directories to which names in records are relative
        self._records: dict[str, list[Path]] = {}  # described paths by recorded hash
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
        """Add the nodes that led to paths, breadth first."""
        roots = []
        for path in paths:
            if not path.exists():
                raise DataError(f"{path}: found nothing, expected a file or directory that bmtools "
                                "wrote")
            self._read_records(path.parent)
            if record := read_record(path):  # even if its directory cannot be listed
                self._note(path, record)
            id = str(self._record(path).get("sha256") or _hash(path))
            self._add(id, str(path), self._best(id) or self._changed(path), path)
            self._add_unchanged(id, path.name)
            roots.append(id)
        waiting = list(dict.fromkeys(roots))
        while waiting:
            waiting += self._add_parents(self._nodes[waiting.pop(0)])
        at = {path.absolute(): id for path, id in zip(paths, roots, strict=True)}
        for path, id in at.items():
            if (run := at.get(kept_by(path), id)) != id:
                self._edges[Edge(run, id, "kept")] = None
        for node in self._nodes.values():
            if node.kind == SOURCE and node.path and not self._takes_changed:
                read_record(relative(node.path), warns=True)
        return Lineage(tuple(dict.fromkeys(roots)), tuple(self._nodes.values()), tuple(self._edges))

    def _add(self, id: str, name: str, record: JsonMapping, path: Path | None,
             place: Path | None = None) -> None:
        """Add content unless it is known; `name` and `place` are used if it has no path."""
        if id in self._nodes:
            return
        kind = SOURCE if not record else PIPE if path is None else "checkpoint" \
            if (path / "config.json").is_file() else _KINDS.get(
                record.get("command", ""), DIRECTORY if path.is_dir() else "file")
        self._nodes[id] = Node(id, kind, str(relative(path)) if path else name, path, record)
        self._places[id] = path.absolute().parent if path else place or Path.cwd()

    def _add_parents(self, node: Node) -> list[str]:
        """Add the inputs of a node, and return the ids that are new or have new steps."""
        new, place = [], self._places[node.id]
        self._read_records(place)
        for step in node.steps:
            for role, id, upstream in _links(step):
                if id in (node.id, step.get("sha256")):
                    continue
                self._edges[Edge(node.id, id, role)] = None
                if role in step.get("inputs", {}):
                    for named in islice(self._candidates(role, step, place), 1):
                        self._read_records(named.parent)
                is_new = id not in self._nodes
                if is_new:
                    path = self._find(id, role, step, place)
                    record = (self._best(id) or self._changed(path) if path else {}) or upstream
                    self._add(id, _name(role, step), record, path, place)
                if self._add_unchanged(id, role, upstream) or is_new:
                    new.append(id)
            new += self._add_vocabulary(node.id, step, place)
        return new

    def _add_unchanged(self, id: str, role: str, piped: JsonMapping | None = None) -> bool:
        """Add the steps that passed content on unchanged, from its reading back to its making.

        Args:
            id: id of the content.
            role: name of the input.
            piped: record of the piped content, if it was piped.

        Returns:
            whether new steps were added.
        """
        known = {path.name: found for path in self._records.get(id, ())
                 if (found := self._record(path)) and found.get("sha256", id) == id}
        passed: list[JsonMapping] = []
        record = piped or _take(known, role)
        while record:
            *_, first = steps_of(record)
            read = next((role for role, parent, _ in _links(first) if parent == id), None)
            if read is None:
                break
            passed.append(record)
            record = _take(known, read)
        node = self._nodes[id]
        if passed and not _is_made(id, node.record):  # the step that made it is not known
            node = replace(node, record=passed.pop())
        new = [one for one in passed if one not in node.records]
        self._nodes[id] = replace(node, unchanged=(*node.unchanged, *new))
        return bool(new)

    def _add_vocabulary(self, child: str, step: JsonMapping, place: Path) -> list[str]:
        """Add the vocabulary of a step by its fingerprint, unless it is from an input model."""
        fingerprint = step.get("vocabulary")
        own = (self._nodes[edge.parent].record for edge in self._edges if edge.child == child)
        if not fingerprint or step.get("command") == _BUILD or fingerprint in {
                record.get("vocabulary") for record in own}:
            return []
        for name in _words(step.get("settings", {}).get("tokenizer", "")):
            self._read_records((place / name).parent)
        path = self._vocabularies.get(fingerprint)
        if path is None or not (record := self._record(path)):
            return []
        id = str(record.get("sha256") or _hash(path))
        is_new = id not in self._nodes
        self._add(id, "tokenizer", record, path)
        self._edges[Edge(child, id, "tokenizer")] = None
        return [id] if is_new else []

    def _find(self, id: str, role: str, step: JsonMapping, place: Path) -> Path | None:
        """Find content that a step read, by nearby records, then by the names in its record."""
        if self._best(id) is None:
            for candidate in self._candidates(role, step, place):
                self._read_records(candidate.parent)
                if self._best(id) is not None:
                    break
                if _has(candidate, id):
                    return candidate
                if self._takes_changed and candidate.name == Path(_name(role, step)).name \
                        and _hash_of(candidate) not in step.get("inputs", {}).values():
                    return candidate  # it has changed; copies elsewhere do not count
        return self._found.get(id)

    def _changed(self, path: Path) -> JsonMapping:
        return read_record(path) if self._takes_changed else {}

    def _best(self, id: str) -> JsonMapping | None:
        """Return the record of content, and note its path.

        The record of a step that changed nothing is only returned if there is no other record.
        """
        found: JsonMapping | None = None
        for path in self._records.get(id, []):
            record = self._record(path) or self._part(path)
            if record.get("sha256") == id:
                is_made = _is_made(id, record)
                if found is None or is_made:
                    found, self._found[id] = record, path
                if is_made:
                    break
        return found

    def _read_records(self, place: Path) -> None:
        """Note the records in a directory, once; ignore files that cannot be read."""
        if place.absolute() in self._read:
            return
        self._read.add(place.absolute())
        with suppress(OSError):
            for path in sorted(place.iterdir()):
                described = path if path.is_dir() else \
                    path.with_name(path.name.removesuffix(RECORD))
                if (described == path) == path.is_dir() and (record := read_record(described)):
                    self._note(described, record)

    def _note(self, described: Path, record: JsonMapping) -> None:
        if record.get("command") == _BUILD and "vocabulary" in record:
            self._vocabularies[record["vocabulary"]] = described
        self._records.setdefault(record.get("sha256", ""), []).append(described)
        for name, id in record.get("files", {}).items():
            if ".jsonl" in name and described.is_dir():
                self._records.setdefault(id, []).append(described / name)

    def _part(self, path: Path) -> JsonMapping:
        """Return the record of a file from its directory's record, such as for a part of a split.
        """
        record = self._record(path.parent)
        id = record.get("files", {}).get(path.name)
        return {**record, "sha256": id, "files": {}, "outputs": []} if id else {}

    def _candidates(self, role: str, step: JsonMapping, place: Path) -> Iterator[Path]:
        """Yield existing paths for an input's name, or for a directory's names in the settings."""
        names = list(_words(step.get("settings", {}))) if role in step.get("parents", {}) else \
            _spellings(role)
        places = [place, *place.parents[:_PLACES_ABOVE], Path.cwd()]
        for name in filter(lambda name: Path(name).name, dict.fromkeys(names)):  # none of "."
            for candidate in (*(one / name for one in places),
                              *self._names.get(Path(name).name, ())):
                with suppress(OSError):  # a name may not be a valid path
                    if candidate.exists():
                        yield candidate


def _links(step: JsonMapping) -> Iterator[tuple[str, str, JsonObject]]:
    """Yield the name or role of each input of a step, its hash, and its record if it was piped."""
    piped = {str(record.get("sha256")): record for record in step.get("upstream", {}).values()}
    for role, id in (*step.get("inputs", {}).items(), *step.get("parents", {}).items()):
        yield role, id, piped.get(id, {})


def _is_made(id: str, record: JsonMapping) -> bool:
    """Return whether the steps of a record made the content, instead of passing it on."""
    return all(id != parent for step in steps_of(record) for _, parent, _ in _links(step))


def _spellings(role: str) -> list[str]:
    """Return possible names of an input; a number in brackets distinguishes equal names."""
    return [role, role.rpartition(" (")[0]]


def _take(records: dict[str, JsonObject], role: str) -> JsonObject:
    """Remove and return the record of a file by the name of an input; empty if it is missing."""
    return next((records.pop(name) for one in _spellings(role)
                 if (name := Path(one).name) in records), {})


def _name(role: str, step: JsonMapping) -> str:
    """Return the name of a file or directory that a step read in some role."""
    settings, (kind, _, number) = step.get("settings", {}), role.rpartition(" ")
    found = settings.get(role, settings.get(kind, role))
    if found and isinstance(found, list) and number.isdigit():
        found = found[min(int(number), len(found)) - 1]
    return str(found or role)


def _words(value: object) -> Iterator[str]:
    """Yield the settings that may be paths."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _words(one)
    elif isinstance(value, str) and len(value) < _MOST_NAME and "\n" not in value:
        yield value.rpartition("=")[2]


def kept_by(path: Path) -> Path:
    """Return the output whose run kept a checkpoint, such as `model` for `model.kept/step-9`.

    Other paths are returned unchanged.
    """
    folder = path.parent
    return folder.with_suffix("") if folder.suffix == KEPT else path


_hash = cache(hash_path)


@cache
def _valid_record(path: Path) -> JsonObject:
    """Read a record; empty if the content was replaced after the record was written.

    A copy may keep the time of the content, but not the time of the status (`st_ctime`).
    """
    record = read_record(path)
    if record:
        written = record_path(path).stat().st_mtime_ns
        files = [path / name for name in record.get("files", {})] if path.is_dir() else [path]
        is_newer = any(not file.exists() or max(
            file.stat().st_mtime_ns, file.stat().st_ctime_ns) > written for file in files)
        return {} if is_newer and record.get("sha256") != _hash(path) else record
    return record


def relative(path: Path) -> Path:
    """Return a path relative to the current directory, if it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _has(path: Path, id: str) -> bool:
    """Return whether content has a hash; large files without a record are accepted by name."""
    is_large = path.is_file() and path.stat().st_size > _MOST_HASHED_BYTES
    return is_large or _hash_of(path, id) == id


def _hash_of(path: Path, expected: str = "") -> str:
    """Hash content; empty if it cannot be read."""
    try:
        return _hash(path, expected) if path.is_dir() else _hash(path)
    except (BmtoolsError, OSError):
        return ""
