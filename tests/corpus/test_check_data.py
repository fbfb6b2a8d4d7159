"""check-data: faults of annotated sets are found, and import warns of some."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.corpus.check_data import check_data, entity_faults
from bmtools.records import Record

TEXT = "Insulin helps patients."


def note(text: str = TEXT, *spans: tuple[int, int], **keys: Any) -> Record:
    return Record(id="1", text=text, place="a.jsonl:1", **keys, entities=[
        {"start": start, "end": end, "type": "DRUG"} for start, end in spans])


@pytest.mark.parametrize(("spans", "fault"), [
    ([(0, 7)], ""), ([(0, 5)], "edge inside a word"), ([(2, 7)], "edge inside a word"),
    ([(0, 8)], "white space at an edge"), ([(0, 7), (0, 7)], "repeated entity"),
    ([(0, 13), (8, 13)], "overlapping entities"), ([(0, 7), (8, 13)], ""),
    ([(14, 23)], "")])
def test_entities_that_tags_cannot_represent_are_counted(
        spans: list[tuple[int, int]], fault: str) -> None:
    assert entity_faults(note(TEXT, *spans)) == ({fault: 1} if fault else {})


def test_faults_of_a_set_have_a_place_and_a_fix() -> None:
    parts = {"train": [note(TEXT, (0, 7)), note(TEXT, (0, 7)), note(TEXT), note("Yes.", (0, 3))],
             "test": [note(TEXT, (0, 7)), note(" ", label="new")]}
    found = [(line["file"], line["fault"], line["count"]) for line in check_data(parts)]
    assert found == [("train", "conflicting annotations", 1), ("train", "repeated record", 1),
                     ("train", "few examples", 3), ("test", "empty text", 1),
                     ("test", "label not in the first file", 1), ("test", "shared documents", 2),
                     ("test", "shared texts", 1)]
    assert all(line["fix"] and line["where"] for line in check_data(parts))


def test_the_fixes_of_entities_are_commands() -> None:
    found = {line["fault"]: line["fix"] for line in check_data(
        {"train": [note(TEXT, (0, 5)), note(TEXT, (0, 13), (8, 13))]})}
    assert found["overlapping entities"].startswith("bmtools finetune ner --set overlapping=true;")
    assert found["edge inside a word"].endswith("bmtools finetune ner --tags tokens")


def test_command_prints_faults_and_import_warns(tmp_path: Path,
                                                run: Callable[..., Any]) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "a.ann").write_text("T1\tDRUG 0 5\tInsul\n")
    outcome = run("import", "brat", tmp_path / "a.txt", "-o", tmp_path / "a.jsonl")
    assert outcome.code == 0, outcome.err
    assert "edge inside a word: 1" in outcome.err
    outcome = run("check-data", tmp_path / "a.jsonl", "--json")
    assert outcome.code == 0, outcome.err
    first = json.loads(outcome.out.splitlines()[0])
    assert first == {"file": str(tmp_path / "a.jsonl"), "fault": "edge inside a word", "count": 1,
                     "where": f"{tmp_path}/a.jsonl:1", "fix": first["fix"]}
