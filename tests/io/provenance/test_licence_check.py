"""Licences in the records of inputs, and licences of records that are written to a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import DataError
from bmtools.io.provenance.licence_check import check_licences, known_licences
from bmtools.io.provenance.licences import WrittenLicences
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest, directory_licences

Run = Callable[..., Any]


def write(path: Path, *licences: str) -> Path:
    path.write_text("".join(json.dumps({"id": str(number), "text": 'Un "licence": "MIT" testo.', **(
        {"licence": one} if one else {})}) + "\n" for number, one in enumerate(licences)))
    return path


@pytest.mark.parametrize(("licences", "expected"), [
    (("CC-BY-4.0", "", "CC0-1.0"), ["CC-BY-4.0", "CC0-1.0", "unknown"]),
    (("", ""), ["unknown"]), (("MIT", "MIT"), ["MIT"])])
def test_files_have_the_licences_of_their_records(
        run: Run, tmp_path: Path, licences: tuple[str, ...], expected: list[str]) -> None:
    source, output = write(tmp_path / "in.jsonl", *licences), tmp_path / "out.jsonl.gz"
    for command in (("clean", source), ("mix", "--corpus", source), ("import", "jsonl", source)):
        output.unlink(missing_ok=True)
        outcome = run(*command, "-o", output)
        assert outcome.code == 0, outcome.err
        record = json.loads((tmp_path / "out.jsonl.gz.bmtools.json").read_text())
        assert record["licences"]["text"] == expected, command
    assert known_licences(output) == [one for one in expected if one != "CC0-1.0"
                                      and expected != ["unknown"]]
    os.utime(output, (output.stat().st_mtime + 9,) * 2)  # changed since
    assert known_licences(output) == []
    assert known_licences(source) == []


def test_lines_may_be_written_in_groups(tmp_path: Path) -> None:
    content = write(tmp_path / "in.jsonl", "MIT", "", "l\u00e0 \"x\"").read_bytes()
    for blocks in ([content], content.splitlines(keepends=True)):
        licences = WrittenLicences()
        for block in blocks:
            licences.note(block)
        assert licences.keys()["licences"] == {"text": ["MIT", 'l\u00e0 "x"', "unknown"]}
    assert WrittenLicences().keys() == {}


def test_a_run_stops_before_its_files_are_read(run: Run, tmp_path: Path) -> None:
    """The record next to a file is read first. The file itself would be rejected."""
    for name, licence in (("sa", "CC-BY-SA-4.0"), ("nc", "CC-BY-NC-4.0")):
        source = write(tmp_path / "in.jsonl", licence)
        assert run("clean", source, "-o", tmp_path / f"{name}.jsonl").code == 0
    before = (tmp_path / "nc.jsonl").stat()
    (tmp_path / "nc.jsonl").write_text("no record")
    os.utime(tmp_path / "nc.jsonl", ns=(before.st_atime_ns, before.st_mtime_ns))
    outcome = run("mix", "--corpus", tmp_path / "sa.jsonl", "--corpus", tmp_path / "nc.jsonl")
    assert outcome.code == 1 and "cannot both be met" in outcome.err


def test_licences_of_directories_come_from_manifest_or_card(tmp_path: Path) -> None:
    base, own = (tmp_path / name for name in ("base", "own"))
    for directory in (base, own):
        directory.mkdir()
    (base / "README.md").write_text("---\nlicense: cc-by-sa-4.0\n---\n")
    assert directory_licences(base) == ["CC-BY-SA-4.0"]
    written = Manifest("pretrain", {}, "", parents=DirectoryHashes({"model": base}),
                       licences={"text": ["CC0-1.0", ""]}).write(own)
    assert written["licences"] == {"model": ["CC-BY-SA-4.0"], "text": ["CC0-1.0", "unknown"]}
    assert written["licence"] == "CC-BY-SA-4.0 AND unknown"
    assert directory_licences(own) == ["CC-BY-SA-4.0", "unknown"]


def test_all_inputs_are_compared() -> None:
    check_licences({"a": ["CC-BY-4.0"], "b": ["unknown", ""], "c": []})
    with pytest.raises(DataError, match=r"^c has CC-BY-NC-4.0 and a has CC-BY-SA-4.0, which"):
        check_licences({"c": ["MIT", "CC-BY-NC-4.0"], "a": ["CC-BY-SA-4.0"]})


def test_stdin_is_named_as_in_other_messages() -> None:
    with pytest.raises(DataError, match="<stdin> has CC-BY-NC"):
        check_licences({"-": ["CC-BY-SA-4.0", "CC-BY-NC-4.0"]})
