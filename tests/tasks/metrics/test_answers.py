from __future__ import annotations

import json
import random
import re
import string
from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.pubmedqa import pubmedqa_records
from bmtools.errors import RecordError, refuse
from bmtools.records import Record
from bmtools.tasks.metrics.answers import (
    MOST_ANSWERS,
    bioasq_answers,
    match_answer,
    merge_answers,
    rank_factoid,
    squad_answers,
)


def squad_script(golds: list[str], found: str) -> tuple[float, float]:
    """Exact match and F1 by SQuAD's published script; with several golds, as in SQuAD 2.0."""
    def words(text: str) -> list[str]:
        kept = "".join(sign for sign in text.lower() if sign not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", kept).split()

    def f1(one: list[str], other: list[str]) -> float:
        if not one or not other:
            return float(one == other)
        shared = sum((Counter(one) & Counter(other)).values())
        precision, recall = shared / len(other), shared / len(one)
        return 2 * precision * recall / (precision + recall) if shared else 0

    sides = [words(gold) for gold in golds if words(gold)] or [[]]
    return (max(float(one == words(found)) for one in sides),
            max(f1(one, words(found)) for one in sides))


@pytest.mark.parametrize(("golds", "found", "exact", "f1"), [
    (["48 genes"], "the 48 genes.", 1, 1),
    (["48 genes", "genes"], "48", 0, 2 / 3),
    ([], "", 1, 1),
    ([], "genes", 0, 0),
    (["genes"], "", 0, 0),
    (["the", "genes"], "", 0, 0),
    (["the"], "a", 1, 1),
    (["a b b"], "b b b", 0, 4 / 5),
])
def test_answers_equal_hand_computed_scores(golds: list[str], found: str, exact: float,
                                            f1: float) -> None:
    assert match_answer(golds, found) == (exact, pytest.approx(f1))
    assert squad_script(golds, found) == (exact, pytest.approx(f1))


def perturbed(answer: str, context: str, rng: random.Random) -> str:
    """Another answer: shorter, longer, in another case, with punctuation, unrelated, or empty."""
    words = answer.split()
    start = rng.randrange(len(context))
    return rng.choice([
        answer, answer.upper(), f"the {answer}", f"({answer})", " ".join(words[1:]),
        " ".join(reversed(words)), answer + " " + context[:9], context[start:start + 20], "",
        answer.replace(" ", "-"), answer * 2])


@pytest.mark.data
@pytest.mark.parametrize("name", ["en/qa/bioasq/squad-answers.json", "it/qa/SQuAD_it-test.json.gz"])
def test_answer_scores_equal_squads_script_on_real_data(data: Path, name: str) -> None:
    import gzip

    raw = (data / name).read_bytes()
    content = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)
    rng = random.Random(0)
    count = 0
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                golds = [answer["text"] for answer in question["answers"]]
                found = perturbed(golds[0], paragraph["context"], rng)
                assert match_answer(golds, found) == pytest.approx(squad_script(golds, found))
                count += 1
    assert count in (1809, 7609)


@pytest.mark.parametrize(("synonyms", "ranked", "expected"), [
    (["NF1"], ["nf1", "x"], (1, 1, 1)),
    (["NF1", "neurofibromin"], ["x", "Neurofibromin ", "NF1"], (0, 1, 0.5)),
    (["NF1"], ["1", "2", "3", "4", "NF1"], (0, 1, 0.2)),
    (["NF1"], ["1", "2", "3", "4", "5", "NF1"], (0, 0, 0)),
    (["NF1"], ["NF-1"], (0, 0, 0)),
    (["NF1"], [], (0, 0, 0)),
])
def test_factoids_equal_hand_computed_ranks(synonyms: list[str], ranked: list[str],
                                            expected: tuple[float, float, float]) -> None:
    assert rank_factoid(synonyms, ranked) == expected


def test_answers_of_snippets_are_merged() -> None:
    questions = ["q", "r", "q", "q"]
    answers = [[("NF1", 0.5), ("p53", 0.2)], [("x", 0.1)], [("nf1", 0.9), ("", 1.0)],
               [(name, 0.3) for name in "abcdef"]]
    merged = merge_answers(questions, answers)
    assert merged == {"q": ["nf1", "a", "b", "c", "d"], "r": ["x"]}
    assert len(merged["q"]) == MOST_ANSWERS


def predictions(**records: dict) -> list[Record]:
    return [Record(id=name, text="Aspirin or heparin.", question="What?", place=f"f:{number}",
                   answers=[{"text": "heparin"}], **keys)
            for number, (name, keys) in enumerate(records.items(), 1)]


def ranked(*answers: tuple[str, float], key: str = "predicted", **more: object) -> dict:
    return {key: {"answers": [{"text": text, "score": score} for text, score in answers]}, **more}


def test_squad_file_contains_the_best_answer_for_each_id() -> None:
    faults: list[RecordError] = []
    records = predictions(a=ranked(("Aspirin", 0.9), ("heparin", 0.1)), b=ranked(), c={},
                          d={"predicted": {"answers": [{"score": 1}]}})
    assert squad_answers(records, faults.append) == {"a": "Aspirin", "b": ""}
    assert str(faults[0]) == ("f:3: key 'predicted.answers' is missing; expected answers or "
                              "label as bmtools predict writes them")  # not the gold answers
    assert faults[1].place == "f:4"
    assert squad_answers(records[:1], faults.append, "answers") == {"a": "heparin"}


@pytest.mark.data
def test_labels_are_written_in_pubmedqas_format(data: Path) -> None:
    """PubMedQA's evaluation.py compares predictions with its ground truth, key by key."""
    folder = data / "en/qa/pubmedqa"
    truth = json.loads((folder / "test_ground_truth.json").read_text())
    records = pubmedqa_records([str(folder / "ori_pqal.json")],
                               ids=str(folder / "test_ground_truth.json"))
    assert squad_answers(records, refuse, "label") == truth


def test_bioasq_file_contains_five_answers_from_all_texts_of_a_question() -> None:
    meta = {"question": "q"}
    many = [(f"answer {number}", 0.5 - number / 100) for number in range(5)]
    records = predictions(
        a=ranked(("Aspirin", 0.4), meta=meta), b=ranked(("heparin", 0.8), *many, meta=meta),
        c={"predicted": {"label": "yes", "score": 1}}, d=ranked())
    found = bioasq_answers(records, refuse)
    assert found == [
        {"id": "q", "body": "What?", "type": "factoid", "exact_answer": [
            ["heparin"], *([text] for text, _ in many[:4])]},
        {"id": "c", "body": "What?", "type": "yesno", "exact_answer": "yes"},
        {"id": "d", "body": "What?", "type": "factoid", "exact_answer": []}]
        # The scores use the correct answer's rank in the file.
    assert rank_factoid(["answer 0"], [one for [one] in found[0]["exact_answer"]])[2] == 1 / 2
