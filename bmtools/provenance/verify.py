"""Verification: what was recorded of outputs and their inputs, and what is there now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bmtools.errors import DataError
from bmtools.io.output import record_of
from bmtools.provenance.lineage import PIPE, Lineage, Node, relative, trace
from bmtools.provenance.manifest import NAME, described_files, hash_directory, hash_files
from bmtools.provenance.record import hash_content, hash_folder, read_record
from bmtools.provenance.sign import signature_fault

Line = dict[str, Any]
SAME, CHANGED, MISSING, ADDED, NOT_FOUND, NOT_SIGNED = (
    "same", "changed", "missing", "added", "not found", "not as signed")


def verify(paths: Sequence[Path], search: Sequence[Path] = (),
           public_key: Path | None = None) -> Iterator[Line]:
    """Hash outputs, and their inputs as far as they are found, and compare with the records.

    Args:
        paths: outputs with records.
        search: directories in which inputs are looked for, too.
        public_key: of who signed the directories among the paths; none are checked without.

    Yields:
        `path`, `state`, and where it is not the `same` the hashes `recorded` and `found`.

    Raises:
        BmtoolsError: no record of a path, unless its signature is to be checked, or a key that
            cannot be used.
    """
    recorded = [path for path in paths if read_record(path)]
    if len(recorded) < len(paths) and not public_key:
        path = next(path for path in paths if path not in recorded)
        raise DataError(f"{path}: found no record of how it was made, expected "
                        f"{_beside(path, path)}")
    lineage = trace(recorded, search, takes_changed=True)
    for node in lineage.nodes:
        if node.kind == PIPE:
            continue
        if node.path is None:
            yield {"path": node.name, "state": NOT_FOUND, "recorded": node.id}
        else:
            lines = list(_differences(node))
            yield from lines or [{"path": node.name, "state": SAME}]
            yield from _changed_twins(node, lineage)
    for path in paths if public_key else ():
        assert public_key is not None
        if fault := signature_fault(path, public_key):
            yield {"path": str(path), "state": NOT_SIGNED, "reason": fault}
        else:
            yield {"path": str(path), "state": "as signed"}


def differs(line: Mapping[str, Any]) -> bool:
    """Tell whether a line names something that is not as it was."""
    return line["state"] in (CHANGED, MISSING, ADDED, NOT_SIGNED)


def _differences(node: Node) -> Iterator[Line]:
    """Compare what is at a path with its own record, and that with what its output recorded."""
    path, record, shown = node.path, node.record, Path(node.name)
    assert path is not None
    files: Mapping[str, str] = record.get("files", {}) if path.is_dir() else {}
    claimed = record.get("sha256", node.id)
    is_damaged = not record and _beside(path, path).is_file()
    if is_damaged or claimed != node.id or (files and hash_files(files) != claimed):
        yield _line(_beside(path, shown), CHANGED, node.id, None if is_damaged else claimed)
    if files:
        found = described_files(path)
        for name in sorted(files.keys() | found.keys()):
            if files.get(name) != found.get(name):
                state = ADDED if name not in files else CHANGED if name in found else MISSING
                yield _line(shown / name, state, files.get(name), found.get(name))
    elif (digest := _hash(path)) != node.id and not (path.is_dir() and hash_folder(
            path) == node.id):
        yield _line(shown, CHANGED, node.id, digest)


def _changed_twins(node: Node, lineage: Lineage) -> Iterator[Line]:
    """Compare files by whose names the same content was read, as after a step that changed nothing.

    A file that was made anew has a record of its own, and is none of these.
    """
    outputs = {one.id: one.path for one in lineage.nodes}
    twins = {path.absolute().with_name(edge.role) for edge in lineage.edges
             if edge.parent == node.id and (path := outputs[edge.child])}
    assert node.path is not None
    for twin in sorted(twins - {node.path.absolute()}):
        if twin.is_file() and read_record(twin).get("sha256") == node.id \
                and (digest := _hash(twin)) != node.id:
            yield _line(relative(twin), CHANGED, node.id, digest)


def _beside(path: Path, shown: Path) -> Path:
    """Return the place of a record as it is shown."""
    return shown / NAME if path.is_dir() else record_of(shown)


def _line(path: Path, state: str, recorded: str | None, found: str | None) -> Line:
    return {"path": str(path), "state": state,
            **({"recorded": recorded} if recorded else {}), **({"found": found} if found else {})}


def _hash(path: Path) -> str:
    """Hash a directory or a file; empty where that is damaged, so that it cannot be unpacked."""
    try:
        return hash_directory(path) if path.is_dir() else hash_content(str(path))
    except DataError:
        return ""
