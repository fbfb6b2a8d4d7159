"""Step records of files and pipes, as commands write them."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy_documents import PAGE

from bmtools.io.provenance.manifest import hash_directory

Run = Callable[..., Any]
NOTES = b"Il paziente ha la febbre.\nNon ha dolore.\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def record_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"{path}.bmtools.json").read_text("utf-8"))
    return found


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_bytes(NOTES)
    (tmp_path / "empty.jsonl").touch()
    return path


@pytest.fixture
def cold_bmtools(tmp_path: Path) -> Path:
    """Make a folder with a `bmtools` that reads TMPDIR from its environment."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bmtools").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bmtools "$@"\n')
    (folder / "bmtools").chmod(0o755)
    return folder


@pytest.fixture
def in_shell(warm_bmtools: Path, tmp_path: Path) -> Callable[..., str]:
    """Run a line of bash in a folder with `bmtools` in it."""

    def call(line: str, **environment: str) -> str:
        done = subprocess.run(
            ["bash", "-c", f"set -euo pipefail; {line}"], cwd=tmp_path, capture_output=True,
            check=False, env={**os.environ, "PATH": f"{warm_bmtools}:{os.environ['PATH']}",
                              **environment})
        assert done.returncode == 0, done.stderr.decode()
        return done.stderr.decode()

    return call


def test_a_file_has_a_record(run: Run, notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert run("import", "text", notes, "--lang", "it", "-o", out).code == 0
    record = record_of(out)
    assert record["command"] == "import text" and record["settings"]["lang"] == "it"
    assert record["inputs"] == {"notes.txt": sha256(NOTES)}
    assert record["sha256"] == record["files"]["out.jsonl"] == sha256(out.read_bytes())
    assert {"bmtools", "python"} <= record["versions"].keys() and record["started"]
    assert str(tmp_path) not in json.dumps(record)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_hashes_are_of_uncompressed_content(run: Run, notes: Path, tmp_path: Path,
                                            ending: str) -> None:
    packed, out = tmp_path / "notes.gz", tmp_path / f"out.jsonl{ending}"
    packed.write_bytes(gzip.compress(NOTES))
    assert run("import", "text", packed, "-o", out).code == 0
    plain = tmp_path / "plain.jsonl"
    assert run("clean", out, "-o", plain).code == 0
    first, second = record_of(out), record_of(plain)
    assert first["inputs"] == {"notes.gz": sha256(NOTES)}
    assert first["files"] == {out.name: sha256(out.read_bytes())}
    assert first["sha256"] == second["inputs"][out.name] != first["files"][out.name]
    assert second["sha256"] == second["files"]["plain.jsonl"] == sha256(plain.read_bytes())


def test_files_read_in_jumps_or_by_workers_are_hashed(run: Run, tmp_path: Path) -> None:
    folder, archive, out = tmp_path / "folder", tmp_path / "notes.zip", tmp_path / "out.jsonl"
    folder.mkdir()
    page = PAGE.encode()
    (folder / "a.html").write_bytes(page)
    (folder / "b.html").write_bytes(page + b"\n")
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("c.html", page)
    outcome = run("import", "html", folder, archive, "--lang", "it", "-o", out, "--workers", 2)
    assert outcome.code == 0, outcome.err
    lines = f"a.html\0{sha256(page)}\nb.html\0{sha256(page + bytes([10]))}\n"
    assert record_of(out)["inputs"] == {"folder": sha256(lines.encode()),
                                        "notes.zip": sha256(archive.read_bytes())}


def test_models_are_parents(run: Run, write_lines: Run, tiny_checkpoint: Path,
                            tmp_path: Path) -> None:
    corpus = write_lines("c.jsonl", {"id": "1", "text": "Il paziente ha la febbre."})
    out = tmp_path / "pppl.jsonl"
    assert run("score-pppl", corpus, "--model", tiny_checkpoint, "-o", out).code == 0
    record = record_of(out)
    assert record["parents"] == {"model": hash_directory(tiny_checkpoint)}
    assert record["inputs"] == {"c.jsonl": sha256(corpus.read_bytes())}


def test_a_pipe_keeps_the_chain(in_shell: Run, cold_bmtools: Path, notes: Path,
                                tmp_path: Path) -> None:
    in_shell("PATH=bin:$PATH; bmtools import text notes.txt --lang it | bmtools clean | "
             "bmtools sample --records 1 -o one.jsonl", TMPDIR=str(tmp_path))
    record = record_of(tmp_path / "one.jsonl")
    cleaned = record["upstream"]["<stdin>"]
    imported = cleaned["upstream"]["<stdin>"]
    assert [found["command"] for found in (record, cleaned, imported)] == \
        ["sample", "clean", "import text"]
    assert record["inputs"] == {"<stdin>": cleaned["sha256"]}
    assert cleaned["inputs"] == {"<stdin>": imported["sha256"]}
    assert imported["inputs"] == {"notes.txt": sha256(NOTES)}
    [left] = tmp_path.glob("bmtools-*")
    assert not list(left.iterdir()) and left.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("between", ["head -n 1", "cat", "tee copy.jsonl", "sed s/paz/pas/"])
def test_another_program_in_the_pipe_ends_the_chain(in_shell: Run, notes: Path, tmp_path: Path,
                                                    between: str) -> None:
    in_shell(f"bmtools import text notes.txt | {between} | bmtools clean -o out.jsonl")
    record = record_of(tmp_path / "out.jsonl")
    assert "upstream" not in record and record["inputs"].keys() == {"<stdin>"}


def test_an_early_exit_or_a_second_writer_ends_the_chain(in_shell: Run, notes: Path,
                                                         tmp_path: Path) -> None:
    in_shell("{ bmtools import text notes.txt; bmtools import text notes.txt --duplicates rename; }"
             " | bmtools import jsonl --duplicates drop -o out.jsonl")
    assert "upstream" not in record_of(tmp_path / "out.jsonl")


@pytest.mark.parametrize("harm", ["link", "open", "file", "read-only"])
def test_a_directory_that_is_not_private_is_not_used(
        in_shell: Run, cold_bmtools: Path, notes: Path, tmp_path: Path, harm: str) -> None:
    place, other = tmp_path / f"bmtools-{os.getuid()}", tmp_path / "other"
    other.mkdir(mode=0o700)
    if harm == "link":
        place.symlink_to(other)
    elif harm == "open":
        place.mkdir()
        place.chmod(0o777)
    elif harm == "file":
        place.touch()
    in_shell("PATH=bin:$PATH; bmtools import text notes.txt | bmtools clean -o out.jsonl",
             TMPDIR="/proc" if harm == "read-only" else str(tmp_path))
    assert not list(other.iterdir())
    if harm != "read-only":  # Python then uses another directory for temporary files
        assert "upstream" not in record_of(tmp_path / "out.jsonl")


def test_a_redirected_file_has_a_record_with_a_step_per_command(in_shell: Run, notes: Path,
                                                                tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    in_shell("bmtools import text notes.txt --lang it > out.jsonl")
    first = out.read_bytes()
    assert record_of(out)["sha256"] == sha256(first)
    in_shell("for lang in en fr; do bmtools import text notes.txt --lang $lang; done >> out.jsonl")
    record = record_of(out)
    assert record["sha256"] == record["files"]["out.jsonl"] == sha256(out.read_bytes())
    assert [step["settings"]["lang"] for step in record["steps"]] == ["it", "en", "fr"]
    at = 0
    for step in record["steps"]:
        assert step["sha256"] == sha256(out.read_bytes()[at:at + step["bytes"]])
        at += step["bytes"]
    assert at == out.stat().st_size


def test_lines_of_a_run_are_recorded_with_its_settings(in_shell: Run, notes: Path, tmp_path: Path,
                                                       tiny_checkpoint: Path) -> None:
    in_shell(f"bmtools import text notes.txt -o in.jsonl; bmtools pretrain in.jsonl --model "
             f"{tiny_checkpoint} --recipe medbit --set seed=3 --layout padded --steps 1 "
             "--max-length 16 -o m > lines.jsonl")
    settings = record_of(tmp_path / "lines.jsonl")["settings"]
    assert settings["phases"] == json.loads(
        (tmp_path / "m/bmtools.json").read_text())["settings"]["phases"]
    assert (settings["phases"][0]["learning_rate"], settings["seed"]) == (3e-5, 3)
    assert "learning_rate" not in settings and settings["model"] == tiny_checkpoint.name


@pytest.mark.parametrize("line", [
    "bmtools import text notes.txt > out.jsonl 2>&1",  # a log
    "{ echo; bmtools import text notes.txt; } > out.jsonl",  # another program wrote its beginning
    "bmtools import text notes.txt > out.jsonl; echo >> out.jsonl; "
    "bmtools import text notes.txt >> out.jsonl",
    "bmtools import text notes.txt > out.jsonl; bmtools clean empty.jsonl > out.jsonl || true",
    "bmtools import text notes.txt -o out.jsonl; BMTOOLS_PROVENANCE=0 "
    "bmtools import text notes.txt --overwrite -o out.jsonl",
])
def test_no_record_is_written_for_output_it_would_not_describe(in_shell: Run, notes: Path,
                                                               tmp_path: Path, line: str) -> None:
    in_shell(line)
    assert not (tmp_path / "out.jsonl.bmtools.json").exists()


def test_records_are_not_read_as_sources(run: Run, notes: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.html").write_text(PAGE)
    assert run("import", "text", notes, "-o", folder / "a.jsonl").code == 0
    outcome = run("import", "html", folder)
    assert outcome.code == 0 and len(outcome.records) == 1, outcome.err
