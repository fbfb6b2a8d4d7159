from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.values import three_digits

Run = Callable[..., Any]
Write = Callable[..., Path]
LABELS = ("asma", "diabete")


@pytest.fixture
def gold(write_lines: Write) -> Path:
    return write_lines("gold.jsonl", *records())


def records() -> list[dict[str, Any]]:
    return [{"id": str(number), "text": f"Il paziente {number}.", "label": LABELS[number % 2]}
            for number in range(40)]


@pytest.fixture
def write_found(write_lines: Write) -> Write:
    def write(name: str, seed: int, rate: float) -> Path:
        rng = random.Random(seed)
        return write_lines(name, *({**record, "predicted": {"label": rng.choice(LABELS)
                                    if rng.random() < rate else record["label"]}}
                                   for record in records()))

    return write


def test_two_models_and_their_difference(run: Run, gold: Path, write_found: Write) -> None:
    bio, base = write_found("bio.jsonl", 1, 0.1), write_found("base.jsonl", 2, 0.9)
    outcome = run("score-tasks", gold, bio, base, "--resamples", 200)
    assert outcome.code == 0, outcome.err
    first, second, accuracy, macro = outcome.records
    assert (first["model"], second["model"], first["task"]) == ("bio", "base", "classification")
    assert list(first)[:4] == ["model", "task", "accuracy", "interval"]
    assert list(first["by"]) == ["label"]
    assert (accuracy["metric"], macro["metric"]) == ("accuracy", "macro_f1")
    assert accuracy["difference"] == pytest.approx(first["accuracy"] - second["accuracy"])
    assert accuracy["p"] == accuracy["p_holm"] < 0.05
    closing, _, time = outcome.err.rpartition(" in ")
    assert closing.startswith("bmtools: bio has the highest of 2, accuracy ")
    assert " over 40 records; bio - base: " in closing and time.endswith("s\n")
    assert closing.endswith(f"], p {three_digits(accuracy['p'])}")


def test_seeds_by_name(run: Run, gold: Path, write_found: Write) -> None:
    seeds = [write_found(f"bio-{seed}.jsonl", seed, 0.2) for seed in range(3)]
    base = write_found("base.jsonl", 7, 0.9)
    named = run("score-tasks", gold, *(f"bio={seed}" for seed in seeds), f"base={base}")
    assert named.code == 0, named.err
    lines = named.records
    assert [line["model"] for line in lines[:4]] == ["bio-0", "bio-1", "bio-2", "base"]
    assert [(line["model"], line["seeds"]) for line in lines[4:6]] == [("bio", 3)] * 2
    assert lines[6]["compared"] == ["bio", "base"]
    assert (lines[6]["seeds"], lines[6]["p_over_seeds"]) == ([3, 1], None)
    assert lines[6]["p"] == lines[6]["p_holm"] < 0.05
    apart = run("score-tasks", gold, *seeds, base)
    assert sum("compared" in line for line in apart.records) == 12


def test_a_score_below_the_limit_fails(run: Run, gold: Path, write_found: Write,
                                       tmp_path: Path) -> None:
    found, output = write_found("bio.jsonl", 1, 0.5), tmp_path / "scores.jsonl"
    arguments = ("score-tasks", gold, found, "-o", output, "--overwrite", "--fail-under")
    assert run(*arguments, 0.5).code == 0
    outcome = run(*arguments, 0.99)
    [line] = map(json.loads, output.read_text().splitlines())
    assert (outcome.code, outcome.err) == (
        3, f"bmtools: accuracy: bio has {line['accuracy']}, expected at least 0.99\n")
    percent = run(*arguments, 90)
    assert percent.code == 2
    assert "--fail-under: found 90, expected 1 or less, such as 0.9 for 90 %" in percent.err


def test_a_record_without_prediction_is_an_error(run: Run, gold: Path, write_found: Write,
                                                 tmp_path: Path) -> None:
    """A bad line can be collected; a record without prediction is still an error."""
    found = write_found("bio.jsonl", 1, 0.2)
    _, *lines = found.read_text().splitlines(keepends=True)
    found.write_text("".join([*lines, "{}\n"]))
    outcome = run("score-tasks", gold, found, "--rejects", tmp_path / "bad.jsonl")
    assert outcome.code == 1
    assert outcome.err.endswith(f"bmtools: {found}: found no prediction for 1 of 40 records of "
                                f"{gold} (ids '0'), expected one prediction for each gold record\n")
    assert "1 bad record in" in outcome.err


def test_output_of_predict_can_be_scored(run: Run, make_tagger: Callable[[Path], Path],
                                         tiny_checkpoint: Path, write_lines: Write) -> None:
    test = write_lines("test.jsonl", {"id": "0", "text": "Il paziente ha asma.", "entities": [
        {"start": 15, "end": 19, "type": "DIS"}]})
    for into, key in (("predicted", "predicted"), ("entities", "entities")):
        found = test.with_name(f"{into}.jsonl")
        tagger = make_tagger(tiny_checkpoint)
        assert run("predict", test, "--model", tagger, "--into", into, "-o", found).code == 0
        outcome = run("score-tasks", test, found, "--predicted", key)
        assert outcome.code == 0, outcome.err
        [line] = outcome.records
        made = json.loads(found.read_text())
        entities = made["entities"] if into == "entities" else made["predicted"]["entities"]
        assert (line["support"], line["predicted"]) == (1, len(entities))
        assert "interval" not in line  # a single document has no interval


TOKENS = [[0, 6, ["B-A", "I-A"]], [7, 11, ["I-A"]], [12, 14, ["O"]], [15, 19, ["B-B"]],
          [20, 24, ["I-B", "B-B"]]]


@pytest.fixture
def token_files(write_lines: Write) -> tuple[Path, Path, Path]:
    """Gold records, predictions with tags of tokens, and predictions without tags in one record."""
    record = {"id": "1", "text": "febbre alta di asma test"}
    gold = [{"start": 0, "end": 11, "type": "A"}, {"start": 15, "end": 19, "type": "B"},
            {"start": 20, "end": 23, "type": "B"}]  # the last word has one tag
    found = {**record, "predicted": {"entities": gold, "subtokens": TOKENS}}
    return (write_lines("gold.jsonl", {**record, "entities": gold},
                        {**record, "id": "2", "entities": []}),
            write_lines("found.jsonl", found, {**found, "id": "2"}),
            write_lines("other.jsonl", found, {**record, "id": "2", "predicted": {"entities": []}}))


@pytest.mark.parametrize(("options", "expected"), [
    ((), 2 / (3 + 6)), (("--types", "A"), 2 / (1 + 2)), (("--types", "B"), 0.0),
    (("--merge-types", "X"), 2 / (3 + 6))], ids=str)
def test_runs_of_tokens_are_scored_as_entities(run: Run, token_files: tuple[Path, ...],
                                               options: tuple[str, ...], expected: float) -> None:
    """One of three gold runs is found; both records predict three runs: one of A and two of B."""
    gold, found, _ = token_files
    [line] = run("score-tasks", gold, found, *options).records
    assert line["subtoken_f1"] == pytest.approx(expected, abs=1e-6)


def test_tokens_of_some_predictions_are_not_scored(run: Run,
                                                   token_files: tuple[Path, ...]) -> None:
    gold, found, other = token_files
    one, two, *compared = run("score-tasks", gold, found, other).records
    assert "subtoken_f1" not in one and "subtoken_f1" not in two
    assert "subtoken_f1" not in {line["metric"] for line in compared}


def test_wrong_tags_of_tokens_are_named(run: Run, write_lines: Write,
                                        token_files: tuple[Path, ...]) -> None:
    record = {"id": "1", "text": "asma", "entities": [{"start": 0, "end": 4, "type": "A"}]}
    gold = write_lines("g.jsonl", record)
    found = write_lines("f.jsonl", {**record, "predicted": {
        "entities": [], "subtokens": [[0, "x", ["O"]]]}})
    outcome = run("score-tasks", gold, found)
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "f.jsonl:1: key 'predicted.subtokens[0][1]': found text" in outcome.err


def test_a_terminal_shows_six_lines_and_table_shows_the_rest(
        run: Run, write_lines: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Markdown here, as stdout is captured; the terminal's table has the same rows."""
    def record(number: int, key: str, *spans: tuple[int, int, str]) -> dict[str, Any]:
        entities = [{"start": start, "end": end, "type": kind} for start, end, kind in spans]
        return {"id": str(number), "text": "Asma e aspirina oggi.",
                **({"predicted": {"entities": entities}} if key else {"entities": entities})}

    gold = write_lines("gold.jsonl", *(
        record(number, "", (0, 4, "DISEASE"), (7, 15, "DRUG")) for number in range(20)))
    found = write_lines("found.jsonl", *(record(number, "predicted", *(
        [(0, 4, "DRUG")] if number < 3 else [(0, 6, "DISEASE")] if number < 5 else
        [(0, 4, "DISEASE"), (16, 20, "DRUG")] if number < 6 else [(0, 4, "DISEASE")]),
        (7, 15, "DRUG")) for number in range(20)))
    full = run("score-tasks", gold, found, "--table", "--resamples", 0).out
    assert re.search("annotated DISEASE, found +DISEASE 17, DRUG 3\n", full)
    assert "relaxed f1" in full
    monkeypatch.setattr("bmtools.cli.results.shows_tables", lambda *_: True)
    lines = run("score-tasks", gold, found, "--resamples", 0).out.splitlines()
    assert [line.split("|")[2].strip() for line in lines[:5] if "--" not in line] == [
        "type", "all", "DISEASE", "DRUG"]
    assert "strict precision" in lines[0] and "strict f1" in lines[0]
    assert lines[5:] == [
        "Most frequent errors: 3 DISEASE taken for DRUG, 2 with wrong borders, "
        "1 false DRUG", "--table shows all scores"]
