"""Questions about texts: SQuAD, BioASQ, BioBIT's Italian questions, PubMedQA, and text pairs."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bmtools.corpus.formats.sets.bioasq import bioasq_records, biobit_records
from bmtools.corpus.formats.sets.nli import nli_records
from bmtools.corpus.formats.sets.pubmedqa import pubmedqa_records
from bmtools.corpus.formats.sets.squad import squad_records
from bmtools.errors import DataError, RecordError
from bmtools.records import Record, check
from bmtools.tasks.metrics.answers import match_answer

NAME = "set.json"
TEXT = "Se la tosse (Tosse secca) dura, la tosse è cronica."


def squad(*questions: dict[str, Any], titles: str = "") -> dict[str, Any]:
    paragraphs = [{"context": TEXT, "qas": list(questions)}]
    return {"version": "v2.0", "data": [
        {"title": title, "paragraphs": paragraphs} for title in titles or ["one"]]}


def checked(records: Any) -> list[Record]:
    found = list(records)
    for record in found:
        check(record)
    return found


@pytest.mark.parametrize(("text", "start", "expected"), [
    ("tosse", 6, ("tosse", 6)), ("tosse", 30, ("tosse", 35)),
    ("TOSSE", 20, ("Tosse", 13)), ("SE", 13, ("Se", 0)), ("cronica", 0, ("cronica", 43)),
    ("febbre", 0, None), ("", 0, None), ("Se", -1, ("Se", 0))])
def test_answers_are_at_their_offset_or_at_the_nearest_occurrence(
        write, text: str, start: Any, expected: tuple[str, int] | None) -> None:
    name = write(squad({"id": 1, "question": " Che? ", "answers": [
        {"text": text, "answer_start": start}]}))
    counts: Counter[str] = Counter()
    found = checked(squad_records([name], counts=counts))
    if expected is None:
        assert found == []
        assert counts["answers that the text does not contain left out"] == 1
        assert counts["questions left out, they lost all answers"] == 1
    else:
        [record] = found
        assert record["answers"] == [{"text": expected[0], "start": expected[1]}]
        assert (record["id"], record["question"], record["text"]) == ("1", "Che?", TEXT)
        moved = (text, int(start)) != expected
        assert counts["answers moved to their nearest occurrence"] == moved


def test_lost_answers_are_collected(write) -> None:
    name = write(squad({"id": "a", "question": "?", "answers": [
        {"text": "febbre", "answer_start": 3}, {"text": "tosse", "answer_start": 6}]}))
    lost: list[RecordError] = []
    [record] = squad_records([name], reject=lost.append)
    assert record["answers"] == [{"text": "tosse", "start": 6}]
    assert str(lost[0]) == (f"{name} (a): found the mention 'febbre' at 3, but the text does not "
                            "contain it")


def test_questions_without_answer_are_kept(write) -> None:
    impossible = {"id": "a", "question": "?", "answers": [], "is_impossible": True,
                  "plausible_answers": [{"text": "tosse", "answer_start": 6}]}
    first, second = checked(squad_records([write(squad(impossible, {"id": "b", "question": "?"},
                                                        ))]))
    assert first["answers"] == []
    assert "answers" not in second


def test_documents_and_questions_are_in_meta(write) -> None:
    name = write(squad({"id": "a", "question": "?"}, titles="xy"))
    assert [record["meta"] for record in squad_records([name])] == [
        {"document": "x"}, {"document": "y"}]
    own = "56c073fcef6e394741000020"
    name = write(squad(*({"id": f"{own}{end}", "question": "?"} for end in ("_003", ":12"))))
    assert [record["meta"] for record in squad_records([name])] == [
        {"document": own, "question": own}] * 2


@pytest.mark.parametrize(("content", "fault"), [
    ("{", "set.json:1: not JSON (Expecting property name"),
    ('{"data": [], "data": []}', "not JSON (found the key 'data' twice in one object)"),
    ("[]", "expected SQuAD's form"),
    ({"data": [{"paragraphs": [{"qas": []}]}]}, "key 'data[0].paragraphs[0].context' is missing"),
    ({"data": {}}, "key 'data': found an object, expected a list")])
def test_files_of_other_formats_are_errors(write, content: Any, fault: str) -> None:
    with pytest.raises(DataError) as refused:
        list(squad_records([write(content)]))
    assert fault in str(refused.value)


BIOASQ = {"questions": [
    {"id": "f", "type": "factoid", "body": "Che?", "exact_answer": [["Tosse secca", "febbre"]],
     "snippets": [{"text": f" {TEXT}"}, {"text": TEXT}, {"text": "Asma."}]},
    {"id": "l", "type": "list", "body": "Che?", "exact_answer": [["asma"], ["tosse", "Tossi"]],
     "snippets": [{"text": "Asma e tosse."}]},
    {"id": "y", "type": "yesno", "body": "?", "exact_answer": "Yes",
     "snippets": [{"text": "A."}, {"text": "B. "}]},
    {"id": "s", "type": "summary", "body": "?", "ideal_answer": "C.", "snippets": [{"text": "A."}]},
    {"id": "u", "type": "factoid", "body": "Che?", "snippets": [{"text": "Asma."}]},
    {"id": "n", "type": "factoid", "body": "Che?", "snippets": []}]}


def test_snippets_of_factoids_are_records(write) -> None:
    counts: Counter[str] = Counter()
    with_answer, without, unknown = checked(
        bioasq_records([write(BIOASQ)], "factoid", counts=counts))
    meta = {"document": "f", "question": "f", "exact_answer": ["Tosse secca", "febbre"]}
    assert with_answer == {"id": "f_000", "text": TEXT, "question": "Che?", "answers": [
        {"text": "Tosse secca", "start": 13}], "meta": meta}
    assert (without["id"], without["answers"], without["meta"]) == ("f_001", [], meta)
    assert unknown == {"id": "u_000", "text": "Asma.", "question": "Che?",
                       "meta": {"document": "u", "question": "u"}}
    assert counts["repeated snippets left out"] == counts["texts without an answer"] == 1
    assert counts["questions without snippets left out"] == 1
    assert (counts["factoid questions"], counts["yesno questions"]) == (3, 1)


def test_yes_no_and_summary_questions_are_records(write) -> None:
    name = write(BIOASQ)
    [listed] = checked(bioasq_records([name], "list"))
    assert listed["answers"] == [{"text": "Asma", "start": 0}, {"text": "tosse", "start": 7}]
    assert listed["meta"]["exact_answer"] == [["asma"], ["tosse", "Tossi"]]
    [yesno] = checked(bioasq_records([name], "yesno"))
    assert yesno == {"id": "y", "text": "A. B.", "question": "?", "label": "yes",
                     "meta": {"question": "y"}}
    [summary] = checked(bioasq_records([name], "summary"))
    assert summary["meta"] == {"question": "s", "ideal_answer": ["C."]}


def test_biobit_questions_are_read(write) -> None:
    item = {"ID": "a", "context": "La Tosse.", "question": "Che?", "answer": "tosse"}
    lost = {**item, "answer": "febbre"}
    name = write({"train": [item, lost, item], "dev": []})
    counts: Counter[str] = Counter()
    first, third = checked(biobit_records([name], "train", counts=counts))
    assert first["answers"] == [{"text": "Tosse", "start": 3}]
    assert (first["id"], third["id"], third["meta"]["question"]) == ("a_000", "a_002", "a")
    assert counts["answers that the text does not contain left out"] == 1
    with pytest.raises(DataError, match=r"found no split 'trian', did you mean 'train'\?; name it"):
        list(biobit_records([name], "trian"))


def test_pubmedqa_is_read(write) -> None:
    item = {"QUESTION": "Does it?", "CONTEXTS": ["One.", "Two."], "LABELS": ["AIM", "END"],
            "YEAR": "2011", "final_decision": "maybe", "LONG_ANSWER": "Perhaps."}
    name = write({"1": item, "2": {"QUESTION": "?", "CONTEXTS": ["x"]}})
    first, second = checked(pubmedqa_records([name]))
    assert first == {"id": "1", "text": "One.\nTwo.", "question": "Does it?", "label": "maybe",
                     "meta": {"year": "2011", "long_answer": "Perhaps.", "sections": [
                         {"label": "AIM", "start": 0, "end": 4},
                         {"label": "END", "start": 5, "end": 9}]}}
    assert second == {"id": "2", "text": "x", "question": "?"} | {"meta": {}}


@pytest.mark.parametrize("content", ['{"1": "yes", "2": "no"}', '["1", 2]', "1\n\n2\n"])
def test_lists_of_ids_select_questions(write, tmp_path: Path, content: str) -> None:
    name = write({number: {"QUESTION": "?", "CONTEXTS": ["x"]} for number in "123"})
    listed = tmp_path / "ids"
    listed.write_text(content)
    assert [one["id"] for one in pubmedqa_records([name], str(listed))] == ["1", "2"]
    assert [one["id"] for one in pubmedqa_records([name], None, str(listed))] == ["3"]
    listed.write_text("1\n4\n")
    with pytest.raises(DataError, match=r"found 1 ids in the lists that are not in the files"):
        list(pubmedqa_records([name], str(listed)))


def test_pairs_of_sentences_are_read(tmp_path: Path) -> None:
    path = tmp_path / "mli_train_v1.jsonl"
    # The keys of the published MedNLI files, with invented sentences.
    base = {"gold_label": "entailment", "pairID": "23eb94b8", "sentence1_binary_parse": "( x )",
            "sentence1": "Labs were notable for Cr 1.7 . ", "sentence1_parse": "(ROOT)",
            "sentence2": " Patient has elevated Cr", "sentence2_parse": "(ROOT)"}
    more = [{**base, "gold_label": "-"}, {"sentence1": "a", "sentence2": "b"}]
    path.write_text("\n".join(map(json.dumps, [base, *more])))
    counts: Counter[str] = Counter()
    first, last = checked(nli_records([str(path)], counts=counts))
    assert first == {"id": "23eb94b8", "text": "Labs were notable for Cr 1.7 .",
                     "text_pair": "Patient has elevated Cr", "label": "entailment"}
    assert last == {"id": "mli_train_v1:3", "text": "a", "text_pair": "b"}
    assert counts.total() == 1


@pytest.mark.data
def test_numbers_of_bioasq_in_squad_form(data: Path) -> None:
    counts: Counter[str] = Counter()
    found = checked(squad_records([str(data / "en/qa/bioasq/squad-answers.json")], counts=counts))
    assert len(found) == counts["answers at their offset"] == 1809
    assert len({record["meta"]["question"] for record in found}) == 214
    gold = checked(bioasq_records([str(data / "en/qa/bioasq/4B1_golden.json")], "factoid"))
    unanswered = checked(squad_records(
        [str(data / "en/qa/bioasq/BioASQ-test-factoid-4b-1.json")]))
    assert len(unanswered) == 167
    assert not any("answers" in record for record in unanswered)
    assert len({record["meta"]["question"] for record in gold}) == 39
    assert {record["meta"]["question"] for record in unanswered} == {
        record["meta"]["question"] for record in gold}


@pytest.mark.data
@pytest.mark.parametrize(("kind", "questions"), [
    ("factoid", 162), ("yesno", 140), ("summary", 110), ("list", 88)])
def test_numbers_of_bioasq(data: Path, kind: Any, questions: int) -> None:
    name = data / "en/qa/bioasq/7B_golden.json"
    counts: Counter[str] = Counter()
    found = checked(bioasq_records([str(name)], kind, counts=counts))
    assert len({record["meta"]["question"] for record in found}) == questions
    assert sum(counts[f"{one} questions"] for one in ("factoid", "list", "yesno", "summary")) == 500
    if kind == "yesno":
        assert Counter(record["label"] for record in found) == {"yes": 94, "no": 46}
    if kind in ("factoid", "list"):
        # A snippet contains an answer if it contains one of its spellings, in any case.
        gold = {one["id"]: one for one in json.loads(name.read_text())["questions"]}
        for record in found:
            exact = gold[record["meta"]["question"]]["exact_answer"]
            spellings = [one for item in exact
                         for one in ([item] if isinstance(item, str) else item)]
            contained = any(one.strip().lower() in record["text"].lower() for one in spellings)
            assert bool(record["answers"]) == contained


@pytest.mark.data
def test_numbers_of_squad(data: Path) -> None:
    name = data / "it/qa/SQuAD_it-test.json.gz"
    counts: Counter[str] = Counter()
    found = checked(squad_records([str(name)], counts=counts))
    assert len(found) == 7608
    assert counts == {
        "answers at their offset": 21380, "answers moved to their nearest occurrence": 98,
        "answers that the text does not contain left out": 11,
        "questions left out, they lost all answers": 1, "texts without an answer": 0}
    raw = {item["id"]: [one["text"] for one in item["answers"]]
           for article in json.loads(gzip.decompress(name.read_bytes()))["data"]
           for paragraph in article["paragraphs"] for item in paragraph["qas"]}
    for record in found:
        answers = [answer["text"] for answer in record["answers"]]
        assert all(match_answer(raw[record["id"]], answer)[0] for answer in answers)


@pytest.mark.data
@pytest.mark.parametrize(("name", "split", "records"), [
    ("4b", "train", 1309), ("4b", "dev", 281), ("4b", "test", 281), ("5b", "train", 2382),
    ("5b", "dev", 511), ("5b", "test", 510)])
def test_numbers_of_biobit(data: Path, name: str, split: str, records: int) -> None:
    found = checked(biobit_records([str(data / f"it/qa/BioASQ_{name}_splitted.json")], split))
    assert len(found) == records
    assert all(record["answers"] for record in found)


@pytest.mark.data
def test_numbers_of_pubmedqa(data: Path) -> None:
    where = data / "en/qa/pubmedqa"
    truth = json.loads((where / "test_ground_truth.json").read_text())
    ids = str(where / "test_ground_truth.json")
    name = str(where / "ori_pqal.json")
    everything = checked(pubmedqa_records([name]))
    assert Counter(record["label"] for record in everything) == {
        "yes": 552, "no": 338, "maybe": 110}
    test = checked(pubmedqa_records([name], ids))
    assert {record["id"]: record["label"] for record in test} == truth
    assert len(test) == 500
    train = checked(pubmedqa_records([name], None, ids))
    assert {one["id"] for one in train} == {one["id"] for one in everything} - truth.keys()
    for record in test:
        assert all(record["text"][one["start"]:one["end"]].strip()
                   for one in record["meta"]["sections"])


@pytest.mark.data
@pytest.mark.parametrize("name", ["7B_golden", "4B1_golden"])
@pytest.mark.parametrize("kind", ["factoid", "list", "yesno", "summary"])
def test_every_question_and_snippet_of_bioasq_is_read(data: Path, name: str, kind: Any) -> None:
    """Compare with counts that do not use the reader's code."""
    path = data / f"en/qa/bioasq/{name}.json"
    expected: list[tuple[str, str, str | None]] = []
    for item in json.loads(path.read_text())["questions"]:
        if item["type"] == kind:
            snippets = sorted({one["text"].strip() for one in item["snippets"]})
            expected += [(item["id"], one, None) for one in snippets] \
                if kind in ("factoid", "list") else \
                [(item["id"], "".join(sorted("".join(snippets).replace(" ", ""))),
                  item["exact_answer"].lower() if kind == "yesno" else None)]
    found = [(one["meta"]["question"], one["text"] if kind in ("factoid", "list") else
              "".join(sorted(one["text"].replace(" ", ""))), one.get("label"))
             for one in bioasq_records([str(path)], kind)]
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.data
def test_every_part_of_pubmedqa_is_read(data: Path) -> None:
    """Compare with the file as plain Python reads it."""
    path = data / "en/qa/pubmedqa/ori_pqal.json"
    expected = json.loads(path.read_text())
    found = {one["id"]: one for one in pubmedqa_records([str(path)])}
    assert found.keys() == expected.keys()
    for number, item in expected.items():
        record = found[number]
        parts = [record["text"][one["start"]:one["end"]] for one in record["meta"]["sections"]]
        assert (record["question"], record["label"], record["meta"]["long_answer"], parts,
                [one["label"] for one in record["meta"]["sections"]]) == (
            item["QUESTION"].strip(), item["final_decision"], item["LONG_ANSWER"],
            item["CONTEXTS"], item["LABELS"])


@pytest.mark.data
@pytest.mark.parametrize("name", ["4b", "5b"])
def test_every_question_of_biobit_is_read_or_its_answer_is_missing(data: Path, name: str) -> None:
    """Compare with the file as plain Python reads it."""
    path = data / f"it/qa/BioASQ_{name}_splitted.json"
    for split, items in json.loads(path.read_text()).items():
        expected = Counter((item["ID"], item["context"], item["question"].strip())
                           for item in items
                           if item["answer"].strip().lower() in item["context"].lower())
        found = list(biobit_records([str(path)], split))
        assert Counter((one["meta"]["question"], one["text"], one["question"])
                       for one in found) == expected
        assert all(one["text"].startswith(answer["text"], answer["start"])
                   for one in found for answer in one["answers"])
