"""Manifests: `bmtools.json`."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bmtools import __version__
from bmtools.io.json_files import NAME, read_manifest
from bmtools.io.provenance.manifest import (
    DirectoryHashes,
    Manifest,
    described_files,
    hash_directory,
    is_finished,
)
from bmtools.io.step import Step
from bmtools.io.unfinished import hidden_path


def test_a_manifest_survives_a_round_trip(tmp_path: Path) -> None:
    manifest = Manifest("pretrain", {"steps": 3, "model": None}, "f00d", 7, {"è.jsonl": "aa"},
                        {"model": "bb"}, 120, 1.23456, {"rows": 4})
    written = manifest.write(tmp_path)
    assert written == read_manifest(tmp_path)
    assert datetime.fromisoformat(written.pop("started")).utcoffset() == timedelta()
    assert written.pop("versions").items() >= {
        "bmtools": __version__, "python": platform.python_version(), **{
            name: importlib.metadata.version(name)
            for name in ("torch", "transformers", "tokenizers", "accelerate")}}.items()
    assert written == {
        "command": "pretrain", "settings": {"steps": 3, "model": None}, "seed": 7,
        "vocabulary": "f00d", "inputs": {"è.jsonl": "aa"}, "parents": {"model": "bb"},
        "tokens_seen": 120, "wall_seconds": 1.235, "results": {"rows": 4},
        "sha256": hashlib.sha256(b"").hexdigest(), "files": {}}


def test_directories_of_this_machine_are_left_out(tmp_path: Path) -> None:
    settings = {"model": "/home/anna/first", "base": Path("../anna/base/"), "here": "models/base",
                "files": ["/a/b", ("c/../d",), "it=/a/b"], "up": "..", "root": "/",
                "rate": "80/10/10",
                "nested": {"terms": "/x/terms.txt", "n": 3}, "none": None}
    written = Manifest("pretrain", settings, "", inputs={
        "/a/notes.jsonl": "aa", "/b/notes.jsonl": "bb", "../c/notes.jsonl": "aa",
        "data/notes.jsonl": "cc", "<stdin>": "dd"}).write(tmp_path)
    assert written["settings"] == {
        "model": "first", "base": "base", "here": "models/base", "files": ["b", ["d"], "it=b"],
        "up": "..", "root": "/", "rate": "80/10/10", "nested": {"terms": "terms.txt", "n": 3},
        "none": None}
    assert written["inputs"] == {"notes.jsonl": "aa", "notes.jsonl (2)": "bb",
                                 "data/notes.jsonl": "cc", "<stdin>": "dd"}
    assert written == read_manifest(tmp_path)


def test_a_directory_is_hashed_once_in_a_manifest(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Path] = []

    def count(directory: Path) -> str:
        hashed.append(directory)
        return "ab"

    monkeypatch.setattr("bmtools.io.provenance.manifest.hash_directory", count)
    (tmp_path / "out").mkdir()
    step = Step("merge")
    parents = DirectoryHashes({"merged 1": tmp_path})
    Manifest("merge", {}, "", parents=parents, step=step).write(tmp_path / "out")
    assert parents["merged 1"] == "ab" and hashed == [tmp_path]
    assert step.directories == {tmp_path.resolve(): "ab"}, "the command's records use the same hash"


def test_the_hash_covers_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"two")
    (tmp_path / "a").write_bytes(b"one")
    one, two = (hashlib.sha256(content).hexdigest() for content in (b"one", b"two"))
    assert hash_directory(tmp_path) == \
        hashlib.sha256(f"a\0{one}\nb\0{two}\n".encode()).hexdigest()


def test_the_hash_ignores_descriptions(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"weights")
    before = hash_directory(tmp_path)
    (tmp_path / "bmtools.json").write_text(json.dumps({"wall_seconds": 3}))
    (tmp_path / "README.md").write_text("a better card")
    (tmp_path / "found.jsonl.bmtools.json").write_text("{}")
    for path in ("inner/bmtools.json", "inner/model", ".cache/model", "model.run/model"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("{}")
    hidden_path(tmp_path / "README.md", "partial").write_text("half a card")
    assert hash_directory(tmp_path) == before
    (tmp_path / "model").write_bytes(b"weightz")
    changed = hash_directory(tmp_path)
    (tmp_path / "model").rename(tmp_path / "renamed")
    assert len({before, changed, hash_directory(tmp_path)}) == 3


def test_a_new_run_over_an_older_output_is_not_finished(tmp_path: Path) -> None:
    output, run = tmp_path / "out", tmp_path / "out.run"
    output.mkdir()
    (output / NAME).write_text("{}")
    assert is_finished(output, run)
    run.mkdir()
    os.utime(output / NAME, ns=(0, 0))
    assert not is_finished(output, run)


def test_files_that_another_process_is_writing_are_not_hashed(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / ".tmpTTUEgz").symlink_to("model.safetensors")
    assert [*described_files(tmp_path)] == ["model.safetensors"]
