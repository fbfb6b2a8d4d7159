"""The table of the papers' rows: a TOML file for each paper.

A file has `[commands]`, which run one after the other in one folder, `[toy]` (replacements that
shrink a command for the tests) and `[[rows]]`:

    id, place          section or tables of the paper
    what               a sentence
    run                names of its commands
    check              expected output of commands, see `faults`
    missing            features that bmtools does not have; a row without this key works
    published, ours    results
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
IDS = {"biobit": [f"B{number:02}" for number in range(1, 63)],
       "biolm": [f"L{number:02}" for number in range(1, 52)],
       "bioptimus": [f"O{number:02}" for number in range(1, 39)],
       "biomegatron": [f"G{number:02}" for number in range(1, 35)],
       "blurb": [f"P{number:02}" for number in range(1, 57)]}
PAPERS = tuple(IDS)
KEYS = {"id", "place", "what", "run", "check", "missing", "published", "ours"}


def read_paper(name: str) -> dict[str, Any]:
    """Read the file of a paper."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Done:
    """A command that ran in a folder."""

    line: str
    folder: Path
    code: int
    stdout: str
    stderr: str

    def output(self, name: str = "") -> list[Any]:
        """Return the records that it wrote to a file, its output by default, or to stdout."""
        named = [name] if name else re.findall(r"(?:> | -o )(\S+)", self.line)[-1:]
        path = self.folder / named[0] if named else None
        if path and path.is_dir():
            path /= "bmtools.json"
        text = path.read_text(encoding="utf-8") if path else self.stdout
        if " recipe show " in self.line:
            return [tomllib.loads(text)]
        if path and path.name == "bmtools.json":
            return [json.loads(text)]
        return [json.loads(line) for line in text.splitlines() if line.startswith(("{", "["))]


def values(record: Any, path: str) -> Iterator[Any]:
    """Yield the values at a path such as phases.0.steps; * stands for all keys or items."""
    key, _, rest = path.partition(".")
    if not path:
        yield record
    elif isinstance(record, list) and (
            key == "*" or (key.isdigit() and int(key) < len(record))):
        for one in record if key == "*" else [record[int(key)]]:
            yield from values(one, rest)
    elif isinstance(record, Mapping):
        for one in record if key == "*" else [key] * (key in record):
            yield from values(record[one], rest)


def faults(check: Mapping[str, Any], done: Done) -> Iterator[str]:
    """Yield the differences between the output of a command and its check.

    Args:
        check: the key `file` names another file than the command's output. `records` is the number
            of records. `has` lists paths that a record has, `is` the values of one record, and
            `between` bounds of all values. `shows` lists regular expressions that occur in the
            printed text or in `file`.
        done: the command that ran.
    """
    assert check.keys() <= {"file", "records", "has", "is", "between", "shows"}, check
    name = check.get("file", "")
    records = done.output(name) if check.keys() - {"shows", "file"} else []
    if len(records) != check.get("records", len(records)):
        yield f"found {len(records)} records, expected {check['records']}"
    for path in check.get("has", ()):
        if not any(any(True for _ in values(record, path)) for record in records):
            yield f"found no {path}"
    wanted = check.get("is", {})
    if not any(all(value in values(record, path) for path, value in wanted.items())
               for record in records) and wanted:
        yield f"found no record with {wanted}"
    for path, (low, high) in check.get("between", {}).items():
        found = [value for record in records for value in values(record, path)]
        if not found or not all(low <= value <= high for value in found):
            yield f"{path}: found {found[:3]}, expected values from {low} to {high}"
    printed = done.stdout + done.stderr + (
        (done.folder / name).read_text(encoding="utf-8") if name and "shows" in check else "")
    for pattern in check.get("shows", ()):
        if not re.search(pattern, printed):
            yield f"found no {pattern!r} in what it printed"
