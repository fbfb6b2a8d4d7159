"""`bmtools export`: annotation files that `import` reads again without loss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ENTITIES = [{"start": 3, "end": 8, "type": "X"}, {"start": 10, "end": 14, "type": "X"},
            {"start": 3, "end": 4, "type": "Y"},
            {"start": 0, "end": 14, "type": "Z", "spans": [[0, 2], [10, 14]]}]
RECORD = {"id": "a", "text": "Il cuore, duro.", "entities": ENTITIES, "lang": "it", "label": ""}


@pytest.fixture
def lines(run, write_lines):
    def call(*arguments: str, record: dict | None = None) -> tuple[list[str], str]:
        outcome = run("export", *arguments, write_lines("in.jsonl", record or RECORD))
        assert outcome.code == 0, outcome.err
        return outcome.out.split("\n"), outcome.err

    return call


def test_tokens_and_tags(lines) -> None:
    found, told = lines("conll")
    assert found == ["Il\tO", "cuore\tB-X", ",\tO", "duro\tB-X", ".\tO", "", ""]
    assert found == lines("conll")[0]
    for part in ("1 record", "entities in parts left out: 1",
                 "entities that overlap another left out: 1",
                 "tokens divided at the border of an entity: 2", "left out: lang: 1"):
        assert part in told
    assert "label" not in told


def test_questions(run, write_lines) -> None:
    asked = {"text": "The heart.", "question": "What?", "meta": {"document": "d"}}
    path = write_lines("in.jsonl", {**asked, "id": "1", "answers": [{"text": "heart", "start": 4}]},
                       {**asked, "id": "2", "answers": []},
                       {**asked, "id": "3", "text": "x", "answers": []},
                       {"id": "4", "text": "y", "question": "?", "answers": [{"text": "y"}]})
    outcome = run("export", "squad", path)
    assert outcome.code == 1
    assert f"{path}:4: found an answer without start" in outcome.err
    outcome = run("export", "squad", path, "--rejects", path.with_name("rejects.jsonl"))
    content = json.loads(outcome.out)
    article, = content["data"]
    assert article["title"] == "d"
    assert article["paragraphs"][0] == {"context": "The heart.", "qas": [
        {"id": "1", "question": "What?", "is_impossible": False,
         "answers": [{"text": "heart", "answer_start": 4}]},
        {"id": "2", "question": "What?", "is_impossible": True, "answers": []}]}
    assert "questions: 3; questions without an answer: 2" in outcome.err


def test_predicted_answers(run, write_lines, tmp_path: Path) -> None:
    record = {"id": "1", "text": "Il cuore.", "question": "Che?", "meta": {"question": "q"},
              "bio": {"answers": [{"text": "cuore", "start": 3, "score": 0.9}]}}
    path, output = write_lines("in.jsonl", record), tmp_path / "out.json"
    outcome = run("export", "squad-answers", path)
    assert outcome.code == 1
    assert f"{path}:1: key 'predicted.answers' is missing" in outcome.err
    outcome = run("export", "squad-answers", path, "--predicted", "bio")
    assert json.loads(outcome.out) == {"1": "cuore"}
    outcome = run("export", "bioasq-answers", path, "--predicted", "bio", "-o", output)
    assert json.loads(output.read_text()) == {"questions": [
        {"id": "q", "body": "Che?", "type": "factoid", "exact_answer": [["cuore"]]}]}
    assert f"answers to 1 question to {output}" in outcome.err


def test_a_folder(run, write_lines, tmp_path: Path) -> None:
    path, out = write_lines("in.jsonl", RECORD, {"id": "b", "text": "x"}), tmp_path / "out"
    outcome = run("export", "brat", path, "-o", out)
    assert (outcome.code, outcome.out) == (0, "")
    assert f"2 records to {out}" in outcome.err
    assert sorted(one.name for one in out.iterdir()) == ["a.ann", "a.txt", "b.ann", "b.txt"]
    assert run("export", "brat", path, "-o", out).code == 1
    assert run("export", "brat", path, "-o", out, "--overwrite").code == 0
    records = run("import", "brat", out).records
    assert [entity["text"] for entity in records[0]["entities"]] == [
        "Il duro", "c", "cuore", "duro"]


# Files whose sentences, tokens and tags must be equal after export and import.
TAGGED = ("en/ner/NCBI-disease/test.tsv", "en/ner/NCBI-disease/iobes-test.tsv",
          "en/ner/BC5CDR/test.tsv", "en/ner/linnaeus/devel.tsv", "en/ner/s800/test.tsv",
          "en/pico/EBM-NLP/test.txt", "it/ner/E3C/test.txt")


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("scheme", ["iob2", "iobes"])
@pytest.mark.parametrize("name", TAGGED)
def test_real_tags_survive_a_round_trip(run, data: Path, tmp_path: Path, name: str,
                                        scheme: str) -> None:
    first = run("import", "conll", data / name)
    (tmp_path / "in.jsonl").write_text(first.out)
    written = tmp_path / Path(name).name
    outcome = run("export", "conll", tmp_path / "in.jsonl", "-o", written, "--scheme", scheme)
    assert outcome.code == 0
    assert "left out" not in outcome.err
    assert run("import", "conll", written).out == first.out


@pytest.mark.data
def test_real_documents_survive_a_round_trip(run, data: Path, tmp_path: Path) -> None:
    first = run("import", "conll", "--documents", data / "en/pico/EBM-NLP/test.txt")
    (tmp_path / "in.jsonl").write_text(first.out)
    run("export", "conll", tmp_path / "in.jsonl", "-o", tmp_path / "test.txt")
    assert run("import", "conll", "--documents", tmp_path / "test.txt").out == first.out


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", ["it/qa/SQuAD_it-test.json.gz", "en/qa/bioasq/squad-answers.json",
                                  "en/qa/bioasq/BioASQ-test-factoid-4b-1.json"])
def test_real_questions_survive_a_round_trip(run, data: Path, tmp_path: Path, name: str) -> None:
    more = ("--duplicates", "rename")
    first = run("import", "squad", data / name, *more)
    assert first.code == 0, first.err
    (tmp_path / "in.jsonl").write_text(first.out)
    assert run("export", "squad", tmp_path / "in.jsonl", "-o", tmp_path / "out.json").code == 0
    second = run("import", "squad", tmp_path / "out.json", *more)
    assert [json.loads(line) for line in second.out.splitlines()] == first.records
