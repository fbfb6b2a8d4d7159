"""Verification: comparison of outputs and their inputs with their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path

from bmtools.errors import DataError
from bmtools.io.json_files import NAME
from bmtools.io.output import record_of
from bmtools.io.provenance.manifest import described_files, hash_files
from bmtools.io.provenance.record import hash_path, read_record, record_path, recorded_outputs
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.lineages.graph import PIPE, Lineage, Node
from bmtools.study.lineages.lineage import relative, trace

SAME, CHANGED, MISSING, ADDED, NOT_FOUND = "same", "changed", "missing", "added", "not found"


def verify(paths: Sequence[str | PathLike[str]], search: Sequence[str | PathLike[str]] = ()
           ) -> Iterator[JsonObject]:
    """Hash outputs and all inputs that are found, and compare the hashes with the records.

    Args:
        paths: outputs with records, or directories; all outputs in them are checked.
        search: further directories to search for inputs.

    Yields:
        `path`, `state` and, unless the state is `same`, the hashes `recorded` and `found`.

    Raises:
        DataError: a path has no record.
    """
    found = {path: recorded_outputs(path, below=True) for path in map(Path, paths)}
    for path in [path for path, outputs in found.items() if not outputs]:
        where = f", in it or below, expected {path / NAME} or outputs with records" \
            if path.is_dir() else f", expected {record_of(path)}"
        raise DataError(f"{path}: found no record of how it was made{where}")
    yielded = list[JsonObject]()
    for line in _content_lines([*dict.fromkeys(chain.from_iterable(found.values()))], search):
        if line not in yielded:
            yield line
        yielded.append(line)


def _content_lines(outputs: Sequence[Path],
                   search: Sequence[str | PathLike[str]]) -> Iterator[JsonObject]:
    """Compare outputs, which may be missing, and their inputs with their records."""
    lineage = trace([path for path in outputs if path.exists()], search, takes_changed=True)
    nodes = [node for node in lineage.nodes if node.kind != PIPE]
    seen = {node.path.absolute() for node in nodes if node.path}
    # The lineage contains only one of several outputs with the same content.
    nodes += [_node(path) for path in outputs if path.absolute() not in seen]
    for node in nodes:
        if node.path is None:
            yield _line(Path(node.name), NOT_FOUND, node.id)
        elif not node.path.exists():
            yield _line(Path(node.name), MISSING, node.id)
        else:
            twins = list(_changed_twins(node.id, node.path, lineage))
            same = [_line(Path(node.name), SAME)] if node.record or not twins else []
            yield from list(_differences(node, node.path)) or same
            yield from twins


def _node(path: Path) -> Node:
    """Return an output as a node, from its own record."""
    record = read_record(path)
    id = record.get("sha256") or (_hash(path) if path.exists() else "")
    return Node(id, "directory" if path.is_dir() else "file", str(relative(path)), path, record)


def differs(line: JsonMapping) -> bool:
    """Return whether a line reports a difference."""
    return line["state"] in (CHANGED, MISSING, ADDED)


def _differences(node: Node, path: Path) -> Iterator[JsonObject]:
    """Compare the content at a path with its own record, and with the record of its output."""
    record, shown = node.record, Path(node.name)
    files: dict[str, str] = record.get("files", {}) if path.is_dir() else {}
    claimed = record.get("sha256", node.id)
    if not record and record_path(path).is_file():  # a damaged record
        yield _line(record_path(shown), CHANGED)
    elif claimed != node.id or (files and hash_files(files) != claimed):
        yield _line(record_path(shown), CHANGED, node.id, claimed)
    yield from (_line(shown / name, MISSING) for name in record.get("outputs", ())
                if not (path / name / NAME).is_file())
    if files:
        found = described_files(path)
        for name in sorted(files.keys() | found.keys()):
            if files.get(name) != found.get(name):
                state = ADDED if name not in files else CHANGED if name in found else MISSING
                yield _line(shown / name, state, files.get(name), found.get(name))
    elif (digest := _hash(path, node.id)) != node.id:
        yield _line(shown, CHANGED, node.id, digest)


def _changed_twins(id: str, path: Path, lineage: Lineage) -> Iterator[JsonObject]:
    """Compare other files that had the same content, such as the input of a step without changes.

    A file that was made again has its own record and is not compared.
    """
    outputs = {node.id: node.path for node in lineage.nodes}
    twins = {output.absolute().parent / edge.role for edge in lineage.edges
             if edge.parent == id and (output := outputs[edge.child])}
    for twin in sorted(twins - {path.absolute()}):
        if twin.is_file() and path.is_file() and read_record(twin).get("sha256", id) == id \
                and (digest := _hash(twin, id)) not in outputs:
            yield _line(relative(twin), CHANGED, id, digest)


def _line(path: Path, state: str, recorded: str | None = None,
          found: str | None = None) -> JsonObject:
    return {"path": str(path), "state": state,
            **({"recorded": recorded} if recorded else {}), **({"found": found} if found else {})}


def _hash(path: Path, expected: str = "") -> str:
    """Hash a directory or a file; empty if it is damaged and cannot be decompressed."""
    try:
        return hash_path(path, expected)
    except DataError:
        return ""
