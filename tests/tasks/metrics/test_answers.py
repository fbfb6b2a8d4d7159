from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import Any

import pytest

from bmtools.tasks.metrics.answers import (
    MOST_ANSWERS,
    match_answer,
    merge_answers,
    rank_factoid,
)
from bmtools.tasks.metrics.samples import measure

ARTICLES = {"a", "an", "the"}


def squad_twin(golds: list[str], found: str) -> tuple[float, float]:
    """Exact match and F1 word by word, from the rules that Rajpurkar et al. state."""
    def words(text: str) -> list[str]:
        kept = "".join(sign for sign in text.lower() if sign not in string.punctuation)
        # An article is a word of its own; signs beyond ASCII stay, but end a word.
        apart = "".join(sign if sign.isalnum() or sign == "_" else f" {sign} " for sign in kept)
        merged = "".join(" " if word in ARTICLES else word for word in _split_keeping(apart, kept))
        return merged.split()

    golds = [gold for gold in golds if words(gold)] or [""]
    exact = f1 = 0.0
    for gold in golds:
        one, other = words(gold), words(found)
        exact = max(exact, float(one == other))
        if not one or not other:
            f1 = max(f1, float(one == other))
            continue
        left, shared = list(one), 0
        for word in other:
            if word in left:
                left.remove(word)
                shared += 1
        if shared:
            precision, recall = shared / len(other), shared / len(one)
            f1 = max(f1, 2 * precision * recall / (precision + recall))
    return exact, f1


def _split_keeping(apart: str, text: str) -> list[str]:
    """The words of a text and the signs between them, in order."""
    parts, position = [], 0
    for word in apart.split():
        at = text.index(word, position)
        parts += [text[position:at], word]
        position = at + len(word)
    return [*parts, text[position:]]


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
def test_answers_by_hand(golds: list[str], found: str, exact: float, f1: float) -> None:
    assert match_answer(golds, found) == (exact, pytest.approx(f1))
    assert squad_twin(golds, found) == (exact, pytest.approx(f1))


def perturbed(answer: str, context: str, rng: random.Random) -> str:
    """Another answer: cut, longer, in other case, with signs, from elsewhere, or none."""
    words = answer.split()
    start = rng.randrange(len(context))
    return rng.choice([
        answer, answer.upper(), f"the {answer}", f"({answer})", " ".join(words[1:]),
        " ".join(reversed(words)), answer + " " + context[:9], context[start:start + 20], "",
        answer.replace(" ", "-"), answer * 2])


@pytest.mark.data
@pytest.mark.parametrize("name", ["en/qa/bioasq/squad-answers.json", "it/qa/SQuAD_it-test.json.gz"])
def test_answers_equal_squads_rules_on_real_gold(data: Path, name: str) -> None:
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
                assert match_answer(golds, found) == pytest.approx(squad_twin(golds, found))
                count += 1
    assert count in (1809, 7609)


def answers(*texts: str) -> dict[str, Any]:
    return {"answers": [{"text": text} for text in texts]}


@pytest.mark.parametrize(("synonyms", "ranked", "expected"), [
    (["NF1"], ["nf1", "x"], (1, 1, 1)),
    (["NF1", "neurofibromin"], ["x", "Neurofibromin ", "NF1"], (0, 1, 0.5)),
    (["NF1"], ["1", "2", "3", "4", "NF1"], (0, 1, 0.2)),
    (["NF1"], ["1", "2", "3", "4", "5", "NF1"], (0, 0, 0)),
    (["NF1"], ["NF-1"], (0, 0, 0)),
    (["NF1"], [], (0, 0, 0)),
])
def test_factoids_by_hand(synonyms: list[str], ranked: list[str],
                          expected: tuple[float, float, float]) -> None:
    assert rank_factoid(synonyms, ranked) == expected


def test_answers_of_snippets_are_merged() -> None:
    questions = ["q", "r", "q", "q"]
    answers = [[("NF1", 0.5), ("p53", 0.2)], [("x", 0.1)], [("nf1", 0.9), ("", 1.0)],
               [(name, 0.3) for name in "abcdef"]]
    merged = merge_answers(questions, answers)
    assert merged == {"q": ["nf1", "a", "b", "c", "d"], "r": ["x"]}
    assert len(merged["q"]) == MOST_ANSWERS


@pytest.mark.data
def test_factoids_of_real_questions(data: Path) -> None:
    questions = json.loads((data / "en/qa/bioasq/7B_golden.json").read_text())["questions"]
    factoids = [q["exact_answer"] for q in questions if q["type"] == "factoid"]
    golds = [[name for names in gold for name in ([names] if isinstance(names, str) else names)]
             for gold in factoids]
    assert len(golds) == 162
    rng = random.Random(0)
    places = [rng.choice([1, 2, 4, 5, 6, None]) for _ in golds]
    ranked = [[f"no {number}" for number in range((place or 9) - 1)]
              + [rng.choice(gold).upper()] * (place is not None)
              for gold, place in zip(golds, places, strict=True)]
    scores, _ = measure("factoid", [{"id": str(number), **answers(*gold)}
                                    for number, gold in enumerate(golds)],
                        [answers(*found) for found in ranked])
    assert scores == {
        "strict_accuracy": pytest.approx(places.count(1) / 162, abs=1e-6),
        "lenient_accuracy": pytest.approx(sum(p in (1, 2, 4, 5) for p in places) / 162, abs=1e-6),
        "mrr": pytest.approx(sum(1 / p for p in places if p and p < 6) / 162, abs=1e-6),
        "questions": 162}
