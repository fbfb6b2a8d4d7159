"""`bmtools energy`: sums over commands, and their statement."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

Run = Any


@pytest.fixture
def study(shell: Any, tmp_path: Path, write_lines: Any) -> Path:
    """Make a small study: three passes over records that all change the records."""
    texts = ("Il paziente ha  l'asma.", "La polmonite guarisce.", "La polmonite guarisce.")
    notes = write_lines("notes.jsonl", *({"id": str(number), "text": text}
                                         for number, text in enumerate(texts)))
    for arguments in (("clean", notes, "-o", tmp_path / "clean.jsonl"),
                      ("dedup", tmp_path / "clean.jsonl", "-o", tmp_path / "unique.jsonl"),
                      ("sample", tmp_path / "unique.jsonl", "--records", "1", "-o",
                       tmp_path / "sample.jsonl")):
        done = shell(*arguments, BMTOOLS_POWER_WATTS="500", BMTOOLS_COUNTRY="ITA")
        assert done.code == 0, done.err
    return tmp_path


def test_steps_of_a_lineage_add_up_once(run: Run, study: Path) -> None:
    outcome = run("energy", study / "sample.jsonl", study / "unique.jsonl")
    assert outcome.code == 0, outcome.err
    *commands, whole = outcome.records
    assert sorted(line["command"] for line in commands) == ["clean", "dedup", "sample"]
    assert (whole["command"], whole["steps"], whole["without"]) == ("all", 3, [])
    records = [json.loads((study / f"{name}.jsonl.bmtools.json").read_text())["energy"]
               for name in ("clean", "unique", "sample")]
    assert whole["declared"]["kwh"] == pytest.approx(
        sum(record["declared"]["kwh"] for record in records), rel=1e-4)
    assert whole["declared"]["kwh"] == pytest.approx(whole["hours"] / 2, rel=1e-4)
    assert whole["declared"]["kg_co2eq"] == pytest.approx(
        whole["declared"]["kwh"] * records[0]["grid"]["g_per_kwh"] / 1000, rel=1e-4)
    assert "3 steps" in outcome.err
    *others, total = run("energy", study).records  # all of the folder
    assert total == whole and sorted(map(str, others)) == sorted(map(str, commands))


def test_values_declared_afterwards_are_stated(run: Run, study: Path, tmp_path: Path) -> None:
    outcome = run("energy", study / "sample.jsonl", "--watts", 1000, "--grid", 250, "--pue", 2,
                  "--statement")
    assert "carbon efficiency of 0.25 kgCO2eq/kWh (as declared)" in outcome.out
    assert "(declared power of 1,000 W)" in outcome.out
    [product] = re.findall(r"    ([\d.]+) kWh x PUE 2 x 0.25 kgCO2eq/kWh = ([\d.]+) kgCO2eq$",
                           outcome.out.partition("declared (stated")[2], re.MULTILINE)
    assert float(product[1]) == pytest.approx(float(product[0]) / 2, rel=1e-3)
    target = tmp_path / "statement.txt"
    run("energy", study / "sample.jsonl", "--statement", "-o", target)
    assert target.read_text().startswith("Experiments were conducted")


def test_files_without_records_are_not_steps(run: Run, write_lines: Any) -> None:
    outcome = run("energy", write_lines("notes.jsonl", {"id": "1", "text": "Asma."}))
    assert (outcome.code, outcome.out) == (1, "")
    assert "found no record of how it was made" in outcome.err
