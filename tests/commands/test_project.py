"""`bmtools project`, and `translate --project`, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
ENGLISH = [
    {"id": "a", "lang": "en", "text": "No pain. High fever.", "entities": [
        {"id": "T1", "start": 3, "end": 7, "type": "S", "text": "pain"},
        {"id": "T2", "start": 9, "end": 19, "type": "S"}],
     "relations": [{"head": "T1", "tail": "T2", "type": "R"}]},
    {"id": "b", "lang": "en", "text": "Aspirin lowers histamine.", "entities": [
        {"id": "T1", "start": 15, "end": 24, "type": "S"}],
     "answers": [{"text": "Aspirin", "start": 0}]}]
ITALIAN = [{"id": "b", "lang": "it", "text": "L'aspirina abbassa l'istamina."},
           {"id": "a", "lang": "it", "text": "Nessun dolore. Febbre alta."}]


@pytest.fixture
def files(write_lines: Callable[..., Path]) -> tuple[Path, ...]:
    return (write_lines("en.jsonl", *ENGLISH), write_lines("it.jsonl", *ITALIAN))


def words(record: dict[str, Any], key: str = "entities") -> list[str]:
    return [record["text"][one["start"]:one["start"] + len(one["text"])] for one in record[key]]


def test_annotations_are_projected_to_the_translations(run: Run, files: tuple[Path, ...]) -> None:
    outcome = run("project", files[0], "--translations", files[1])
    assert outcome.code == 0, outcome.err
    first, second = outcome.records
    assert [first["id"], second["id"]] == ["a", "b"]
    assert [words(first), words(second), words(second, "answers")] == [
        ["dolore", "Febbre alta"], ["istamina"], ["aspirina"]]
    assert all(0 < one["score"] <= 1 for one in first["entities"])
    assert first["relations"] == ENGLISH[0]["relations"]
    assert "; annotations projected: 4" in outcome.err
    assert run("project", files[0], "--translations", files[1]).out == outcome.out


def test_uncertain_and_missing_annotations_are_counted_by_cause(run: Run, files: tuple[Path, ...],
                                                                tmp_path: Path) -> None:
    call = ("project", files[0], "--translations", files[1])
    unsure = run(*call, "--min-confidence", 1)
    assert [one["entities"] for one in unsure.records] == [[], []]
    assert "annotations lost: below the minimum confidence: 4; relations lost with their " \
           "entities: 1" in unsure.err
    lost = run(*call, "--method", "exact")
    assert "annotations lost: no method found them: 4" in lost.err
    refused = run(*call, "--method", "exact", "--set", "lost=reject", "-o", tmp_path / "out.jsonl")
    assert refused.code == 1
    assert refused.err.startswith(f"bmtools: {files[0]}:1: found annotations without a place "
                                  "(annotations lost: no method found them: 2, relations lost")
    assert not (tmp_path / "out.jsonl").exists()


def test_confidence_is_fitted_on_gold(run: Run, files: tuple[Path, ...], tmp_path: Path,
                                      write_lines: Callable[..., Path]) -> None:
    projected = run("project", files[0], "--translations", files[1]).records
    gold, other = (write_lines(name, *projected) for name in ("gold.jsonl", "other.jsonl"))
    path = tmp_path / "own.json"
    fitted = run("project", files[0], "--translations", gold, "--fit-confidence", path)
    assert (fitted.code, fitted.out) == (0, "")
    assert f"bmtools: calibrated on 4 spans to {path} in " in fitted.err
    content = json.loads(path.read_text())
    assert content["origin"] == str(gold)
    assert content["precisions"]["align"] == pytest.approx(5 / 6, abs=1e-4)
    again = run("project", files[0], "--translations", other, "--set", f"calibration={path}")
    scores = [one["score"] for record in again.records for one in record["entities"]]
    assert all(score > 0.5 for score in scores)
    assert scores != [one["score"] for record in projected for one in record["entities"]]
    path.write_text("{}")
    broken = run("project", files[0], "--translations", gold, "--set", f"calibration={path}")
    assert broken.code == 1
    assert broken.err.startswith(f"bmtools: {path}: Object missing required field")
    nothing = run("project", files[0], "--translations", files[1], "--fit-confidence",
                  tmp_path / "none.json")
    assert nothing.err.startswith("bmtools: found no annotation in both a record and its")
    assert not (tmp_path / "none.json").exists()


@pytest.fixture
def memory(tmp_path: Path) -> tuple[object, ...]:
    path = tmp_path / "memory.tsv"
    path.write_text("en\tit\nNo pain.\tNessun dolore.\nHigh fever.\tFebbre alta.\n"
                    "Aspirin lowers histamine.\tL'aspirina abbassa l'istamina.\n"
                    "Aspirin\taspirina\n",
                    encoding="utf-8")
    return ("--source-lang", "en", "--target-lang", "it", "--engine", "memory", "--memory", path)


def test_translate_projects_in_one_step(run: Run, files: tuple[Path, ...], tmp_path: Path,
                                        memory: tuple[object, ...],
                                        write_lines: Callable[..., Path]) -> None:
    outcome = run("translate", files[0], *memory, "--project")
    assert outcome.code == 0, outcome.err
    first, second = outcome.records
    assert [words(first), words(second), words(second, "answers")] == [
        ["dolore", "Febbre alta"], ["istamina"], ["aspirina"]]
    assert first["meta"]["translation"]["sentence_spans"] == {
        "text": [[0, 8, 0, 14], [9, 20, 15, 27]]}
    assert "translated_from" not in first
    assert "bmtools: annotations projected: 4\n" in outcome.err
    written = tmp_path / "out.jsonl"
    assert run("translate", files[0], *memory, "--project", "-o", written).code == 0
    assert written.read_text(encoding="utf-8") == outcome.out
    stripped = run("translate", files[0], *memory, "--drop-annotations")
    apart = run("project", files[0], "--translations",
                write_lines("stripped.jsonl", *stripped.records))
    assert [one["entities"] for one in apart.records] == [
        one["entities"] for one in outcome.records]


def test_separately_translated_mentions_are_found_exactly(run: Run, files: tuple[Path, ...],
                                                          memory: tuple[object, ...],
                                                          write_lines: Callable[..., Path]) -> None:
    call = ("translate", write_lines("one.jsonl", ENGLISH[1]), *memory, "--project", "--method",
            "exact")
    assert words(run(*call).records[0], "answers") == []
    [record] = run(*call, "--set", "translate_mentions=true").records
    assert (words(record), words(record, "answers")) == ([], ["aspirina"])


def test_a_person_reviews_uncertain_annotations(run: Run, files: tuple[Path, ...],
                                                tmp_path: Path) -> None:
    call = ("project", files[0], "--translations", files[1])
    review, page = tmp_path / "review.jsonl", tmp_path / "review.html"
    unsure = run(*call, "--min-confidence", 1, "--review", review, "--review-page", page)
    assert "; annotations to review: 4" in unsure.err
    items = [json.loads(line) for line in review.read_text().splitlines()]
    assert [one["mention"] for one in items] == ["pain", "High fever", "histamine", "Aspirin"]
    assert all(json.dumps(one["mention"]) in page.read_text() for one in items)
    for item, accepted in zip(items, ("Nessun dolore", [15, 21], None), strict=False):
        item["accepted"] = accepted
    review.write_text("".join(json.dumps(one) + "\n" for one in items))
    first, second = run(*call, "--min-confidence", 1, "--accept", review).records
    assert (words(first), words(second)) == (["Nessun dolore", "Febbre"], [])
    assert first["relations"] == ENGLISH[0]["relations"]
    items[0]["accepted"] = "mal di testa"
    review.write_text(json.dumps(items[0]) + "\n")
    refused = run(*call, "--accept", review)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"bmtools: {review}:1: key 'accepted': found 'mal di testa', "
                                  "0 times in the target")
