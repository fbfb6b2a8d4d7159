"""JSON files of any size and layout, objects with known keys, and manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from bmtools.errors import CheckpointError
from bmtools.io.provenance.fields import ManifestRecord
from bmtools.records import JsonObject, readable

NAME = "bmtools.json"
"""Manifest of a directory; names of records for files end with it."""


def parse_json(text: str, repeats: bool = True) -> Any:
    """Parse a JSON file of any size and layout.

    Args:
        text: content of the file.
        repeats: whether a key may occur twice in an object; its last value is used.

    Raises:
        ValueError: the text is not JSON, nests too deep, contains half a surrogate pair (which
            cannot be written again), or repeats a key.
    """
    try:
        content = json.loads(text, object_pairs_hook=None if repeats else _distinct)
    except RecursionError as error:
        raise ValueError(str(error)) from error
    if "\\ud" in text.lower():
        json.dumps(content, ensure_ascii=False).encode()
    return content


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"found the key {twice[:40]!r} twice in one object")
    return found


def read_manifest(directory: Path) -> JsonObject:
    """Read `bmtools.json`; return an empty object if another program wrote the directory.

    Raises:
        CheckpointError: the file exists but is not a JSON object.
    """
    path = directory / NAME
    return read_object(path, ManifestRecord) if path.is_file() else {}


def read_object(path: Path, fields: Any = JsonObject) -> JsonObject:
    """Read a JSON file of a checkpoint or another directory with a manifest.

    Args:
        path: the file.
        fields: TypedDict with the keys that are used and the types of their values.

    Raises:
        CheckpointError: the file is not a JSON object, or a value has another type.
    """
    way_out = "remove or restore it" if path.name.endswith(f".{NAME}") else "restore the checkpoint"
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}); {way_out}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: found {type(content).__name__}, expected a JSON object; "
                              f"{way_out}")
    try:
        msgspec.convert(content, fields)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{path}: {readable(str(error))}; {way_out}") from error
    except RecursionError as error:
        raise CheckpointError(f"{path}: nests too deep; {way_out}") from error
    return content
