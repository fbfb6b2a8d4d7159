"""Records of files: `FILE.bmtools.json` describes how FILE was made, like a directory's manifest.

If several commands appended to a file, its record contains all their records under `steps`, each
with the hash and size of the appended part.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from bmtools.errors import BmtoolsWarning, CheckpointError
from bmtools.io.json_files import NAME, read_object
from bmtools.io.output import RECORD, record_of
from bmtools.io.provenance.fields import StepRecord
from bmtools.io.provenance.manifest import hash_directory, walk, without_places
from bmtools.io.sources import open_bytes
from bmtools.io.step import Step, versions_used
from bmtools.io.unfinished import hidden_path
from bmtools.records import JsonMapping, JsonObject

_CHUNK_BYTES = 1 << 20
_MOST_THREADS = 8


def make_record(step: Step, inputs: Mapping[str, str], parents: Mapping[str, str],
                sha256: str) -> JsonObject:
    """Return the record for an output of the running command.

    step: the running command.
    inputs: SHA-256 of each input, by name.
    parents: hash of each directory that was read, by role.
    sha256: hash of the output's content.
    """
    settings = without_places(step.settings)
    return {"command": step.command, "settings": settings, "seed": settings.get("seed"),
            "inputs": dict(inputs), "parents": dict(parents),
            "wall_seconds": round(step.seconds, 3), "versions": versions_used(),
            **step.keys(), **step.licences.keys(), "sha256": sha256}


def write_record(path: Path, record: JsonMapping, of_bytes: str) -> None:
    """Write the record of a file, with the file's permissions.

    Args:
        path: path of the file.
        record: description of how the file was made.
        of_bytes: SHA-256 of the file's bytes; for an uncompressed file this is the content's hash.

    Raises:
        OSError: the record cannot be written.
    """
    content = {**record, "files": {path.name: of_bytes}}
    partial = hidden_path(record_of(path), "partial")
    try:
        partial.write_text(json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n",
                           encoding="utf-8")
        shutil.copymode(path, partial)
        partial.replace(record_of(path))
    finally:
        partial.unlink(missing_ok=True)


def read_record(path: Path, warns: bool = False) -> JsonObject:
    """Read the record of a file or directory; return an empty record if it is not readable.

    Args:
        path: path of the file or directory.
        warns: whether to warn of a damaged record.
    """
    with suppress(OSError):
        try:
            return read_object(record_path(path), StepRecord)
        except CheckpointError as error:
            if warns:
                warnings.warn(BmtoolsWarning(f"{error}; until then it is ignored"),
                              stacklevel=2)
    return {}


def record_path(path: Path) -> Path:
    """Return the path of the record for a file or directory."""
    return path / NAME if path.is_dir() else record_of(path)


def recorded_outputs(path: Path, below: bool = False) -> list[Path]:
    """Return the path if it has a record, or the paths with records in a folder, such as a study.

    Hidden directories and unfinished runs are skipped. A record may be damaged, or its file may be
    missing.

    Args:
        path: path of an output or a folder.
        below: whether to search inside a directory that has a record itself.

    Raises:
        OSError: a folder cannot be read.
    """
    if record_path(path).is_file() and not (below and path.is_dir()):
        return [path]
    found: list[Path] = []
    for parent, _, files in walk(path) if path.is_dir() else ():
        for name in files:
            if name == NAME:
                found.append(parent)
            elif name.endswith(RECORD):
                found.append(parent / name.removesuffix(RECORD))
    return found


def steps_of(record: JsonMapping, all_piped: bool = False) -> Iterator[JsonMapping]:
    """Yield the steps of a record, each followed by the steps piped into it with unchanged output.

    Args:
        record: record of a file or directory; may be empty.
        all_piped: whether to include steps whose output the next step changed.
    """
    for step in _appended(record):
        yield step
        for piped in step.get("upstream", {}).values():
            if all_piped or piped.get("sha256") == step.get("sha256"):
                yield from steps_of(piped, all_piped)


def _appended(record: JsonMapping) -> Sequence[JsonMapping]:
    """Return the records of steps that appended to a file, or the only record."""
    return record.get("steps") or [record] * bool(record)


def add_step(path: Path, size: int, added: JsonMapping) -> JsonObject:
    """Add a step to the record of the file that the step appended to.

    Args:
        path: path of the file.
        size: size of the file before the step, in bytes.
        added: record of the step, with the hash of the appended part.

    Returns:
        the record of the file; empty if it is unknown how the earlier part was made.
    """
    before = read_record(path)
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for chunk in _chunks(stream, size):
            digest.update(chunk)
        if before.get("sha256") != digest.hexdigest():
            return {}
        for chunk in _chunks(stream, path.stat().st_size - size):
            digest.update(chunk)
    before.pop("files", None)
    steps = [{**step, "bytes": step.get("bytes", size)} for step in _appended(before)]
    return {"steps": [*steps, {**added, "bytes": path.stat().st_size - size}],
            "sha256": digest.hexdigest()}


def hash_path(path: Path, expected: str = "") -> str:
    """Hash a file, or a directory's described files, or all its files if that gives `expected`."""
    if not path.is_dir():
        return hash_content(str(path))
    found = hash_directory(path)
    return expected if expected not in ("", found) and hash_folder(path) == expected else found


def hash_content(name: str) -> str:
    """Hash a file's uncompressed content."""
    with open_bytes(name, takes_digest=False) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]


def hash_folder(folder: Path) -> str:
    """Hash names and uncompressed contents of all files in a folder and its subfolders."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as threads:
        for path, found in zip(paths, threads.map(hash_content, map(str, paths)), strict=True):
            digest.update(f"{path.relative_to(folder)}\0{found}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _chunks(stream: Any, size: int) -> Iterator[bytes]:
    while size and (chunk := stream.read(min(size, _CHUNK_BYTES))):
        yield chunk
        size -= len(chunk)
