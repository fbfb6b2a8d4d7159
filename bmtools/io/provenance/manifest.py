"""Manifests: `bmtools.json` describes how a directory was made."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, NoReturn

from bmtools.io.failures import with_urls
from bmtools.io.json_files import NAME, read_manifest
from bmtools.io.output import RECORD
from bmtools.io.provenance.licence_names import licence_parts
from bmtools.io.provenance.licences import licence_record
from bmtools.io.step import Step, versions_used
from bmtools.io.unfinished import RUN, is_hidden
from bmtools.records import JsonMapping, JsonObject

CARD = "README.md"
SIGNATURE = "model.sig"
_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---", re.DOTALL)
_LICENCE = re.compile(r"^(license|license_name):((?:.|\n[ \t]*-)*)", re.MULTILINE)
_COMMENT = re.compile(r"#.*")
_PACKAGES = ("torch", "transformers", "tokenizers", "accelerate")


@dataclass(frozen=True)
class Manifest:
    """Description of how a directory was made.

    Args:
        command: the command that wrote it.
        settings: all resolved settings of that command.
        vocabulary: fingerprint of the directory's tokenizer.
        seed: seed of all random choices, if there were any.
        inputs: SHA-256 of each input's content, by name.
        parents: hash of each checkpoint used, by role.
        tokens_seen: number of training tokens in this step, without padding.
        wall_seconds: duration of the command.
        results: measured values.
        licences: licences of the training text, under `text`, and of other inputs. Licences of
            checkpoints are found if `parents` is a `DirectoryHashes`.
        step: the command that writes the directory; None for a call from Python.
    """

    command: str
    settings: JsonMapping
    vocabulary: str
    seed: int | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    tokens_seen: int = 0
    wall_seconds: float = 0.0
    results: JsonMapping = field(default_factory=dict)
    licences: Mapping[str, Iterable[str]] = field(default_factory=dict)
    step: Step | None = None

    def write(self, directory: Path) -> JsonObject:
        """Write `bmtools.json` and return its content.

        Absolute paths are shortened to names, because directory names may reveal personal data.
        Files with the same name are numbered.
        """
        inputs, files = dict[str, str](), described_files(directory)
        step = self.step or Step()
        outputs = sorted(path.parent.relative_to(directory).as_posix()
                         for path in directory.glob(f"*/{NAME}"))
        for name, digest in self.inputs.items():
            add_input(inputs, without_places(name), digest)
        content = {
            "command": self.command, "settings": without_places(dict(self.settings)),
            "seed": self.seed, "vocabulary": self.vocabulary, "inputs": inputs,
            "parents": dict(self.parents), "tokens_seen": self.tokens_seen,
            "wall_seconds": round(self.wall_seconds, 3), "results": dict(self.results),
            "versions": versions_used(*_PACKAGES), **step.keys(self.wall_seconds),
            "sha256": hash_files(files), "files": files,
            **({"outputs": outputs} if outputs else {}), **self._licences()}
        step.directories.update((path.resolve(), self.parents[role])
                                for role, path in directories(self.parents).items())
        text = json.dumps(content, indent=2, ensure_ascii=False, default=str)
        (directory / NAME).write_text(text + "\n", encoding="utf-8")
        return content

    def _licences(self) -> JsonObject:
        return licence_record({
            **{role: directory_licences(path) for role, path in directories(self.parents).items()},
            **self.licences})


def add_input(inputs: dict[str, str], name: str, digest: str) -> None:
    """Add the hash of a file under its name, with a number if another file has this name."""
    number, key = 1, name
    while inputs.get(key, digest) != digest:
        number += 1
        key = f"{name} ({number})"
    inputs[key] = digest


def without_places(value: Any) -> Any:
    """Replace paths outside the current directory by their last part, also in dictionaries and
    lists; paths inside it are kept as given."""
    if isinstance(value, Mapping):
        return {key: without_places(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(one) for one in value]
    if isinstance(value, str | PurePath):
        if "://" in (shown := with_urls(str(value))):
            return shown
        name, equals, rest = str(value).rpartition("=")
        path = PurePath(rest)
        if path.is_absolute() or ".." in path.parts:
            return name + equals + (PurePath(os.path.normpath(path)).name or str(path))
    return value


def directory_licences(directory: Path) -> list[str]:
    """Return the licences of a checkpoint, a vocabulary or shards from its manifest or card."""
    return licence_parts(read_manifest(directory).get("licence", "")) \
        or licence_parts(card_licence(directory))


def card_licence(directory: Path) -> str:
    """Return the licence that a model card states, several joined by AND, or an empty string."""
    card = directory / CARD
    head = _FRONT_MATTER.match(card.read_text("utf-8", "replace")) if card.is_file() else None
    stated = dict(_LICENCE.findall(_COMMENT.sub("", head[1]))) if head else {}
    found = {key: [name for one in re.split(r"[,\n]", value) if (name := one.strip("-[]'\" \t\r"))]
             for key, value in stated.items()}
    own = " ".join(found.get("license_name", ())) or "other"
    return " AND ".join(own if name == "other" else name for name in found.get("license", ()))


def hash_directory(directory: Path) -> str:
    """Hash names and contents of a directory's files, without manifests, cards and signatures."""
    return hash_files(described_files(directory))


def described_files(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a directory and its subdirectories, by relative path.

    Manifests, records, cards, signatures and unfinished cards are left out, and so are
    subdirectories with a manifest, and the files that safetensors is writing in other processes.
    """
    found: dict[str, str] = {}
    for parent, folders, files in walk(directory):
        folders[:] = [name for name in folders if not (parent / name / NAME).is_file()]
        for path in (parent / name for name in files if not name.startswith(".tmp")):
            if path.is_file() and path.name not in (NAME, CARD, SIGNATURE) \
                    and not path.name.endswith(RECORD) and not is_hidden(path, parent / CARD):
                found[path.relative_to(directory).as_posix()] = hash_file(path)
    return found


def walk(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk a folder as `os.walk` does, sorted, without hidden folders and unfinished runs.

    Raises:
        OSError: a folder cannot be read.
    """
    def fail(error: OSError) -> NoReturn:
        raise error

    for parent, folders, files in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders
                            if not name.startswith(".") and not name.endswith(RUN))
        yield Path(parent), folders, sorted(files)


def hash_files(files: Mapping[str, str]) -> str:
    """Hash the names and the SHA-256 values of a directory's files."""
    lines = (f"{name}\0{digest}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def hash_file(path: Path) -> str:
    """Hash the content of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_finished(output: Path, run: Path) -> bool:
    """Return whether an output is complete and newer than the unfinished run that would replace it.

    Args:
        output: directory; it has a manifest if it is complete.
        run: directory of the unfinished run, which may be missing.
    """
    if not (output / NAME).is_file():
        return False
    written = (output / NAME).stat().st_mtime_ns
    of_run = [run, *run.rglob("*")] if run.exists() else []
    return all(path.stat().st_mtime_ns <= written for path in of_run)


class DirectoryHashes(Mapping[str, str]):
    """Hashes of directories by role; each hash is computed on first access.

    Args:
        directories: directories by role.

    Attributes:
        directories: directories by role.
    """

    def __init__(self, directories: Mapping[str, Path]) -> None:
        self.directories = directories
        self._hashes: dict[str, str] = {}

    def __getitem__(self, role: str) -> str:
        if role not in self._hashes:
            self._hashes[role] = hash_directory(self.directories[role])
        return self._hashes[role]

    def __iter__(self) -> Iterator[str]:
        return iter(self.directories)

    def __len__(self) -> int:
        return len(self.directories)


def directories(parents: Mapping[str, str]) -> Mapping[str, Path]:
    """Return the directories that the hashes belong to, by role; empty if they are unknown."""
    return parents.directories if isinstance(parents, DirectoryHashes) else {}
