from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simple_task_scores import score_characters, score_matches, score_spans
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    precision_recall_fscore_support,
)

from bmtools.corpus.formats.sets.bioasq import bioasq_records
from bmtools.corpus.formats.sets.squad import squad_records
from bmtools.errors import BmtoolsError, DataError, RecordError
from bmtools.tasks.metrics.score_tasks import Predictions, name_predictions, task_scores
from bmtools.tasks.metrics.spans import Mention

Line = dict[str, Any]
TEXT = "il cuore pompa il sangue nelle arterie e nelle vene"


def predicted(records: list[Line], change: Callable[[Line], Line]) -> list[Line]:
    """Return records as `predict` writes them: annotations and a separate object of predictions."""
    return [{**record, "predicted": change(record)} for record in records]


def score(gold: list[Line], *found: list[Line], **settings: Any) -> list[Line]:
    named = [Predictions(f"m{number}", records, f"m{number}")
             for number, records in enumerate(found)]
    return task_scores(gold, named, **{"resamples": 20, **settings})


def shows(line: Line, scores: Line) -> bool:
    return {name: line[name] for name in scores} == {
        name: pytest.approx(value, abs=1e-6) for name, value in scores.items()}


def entities(rng: random.Random) -> list[Line]:
    starts = [rng.randrange(40) for _ in range(rng.randint(0, 4))]
    return [{"start": start, "end": start + rng.randint(1, 9), "type": rng.choice("PIO")}
            for start in starts]


@pytest.fixture
def rng() -> random.Random:
    return random.Random(5)


def texts(count: int, **keys: Callable[[int], Any]) -> list[Line]:
    return [{"id": str(number), "text": TEXT, "meta": {"document": f"d{number // 2}"},
             **{key: make(number) for key, make in keys.items()}} for number in range(count)]


def mentions(records: list[Line], key: str = "") -> list[Mention]:
    return [(record["id"], entity["start"], entity["end"], entity["type"]) for record in records
            for entity in (record[key] if key else record)["entities"]]


def typed(kind: str) -> list[Line]:
    return [{"start": 0, "end": 2, "type": kind}]


def test_gold_without_entities_counts_false_positives(rng: random.Random) -> None:
        # Each of twelve documents consists of two records with ten words.
    gold = texts(24, entities=lambda _: [])
    found = predicted(gold, lambda record: {"entities": entities(rng) if record["id"] in
                                            ("0", "1", "5", "9", "22") else []})
    spans = {(record["id"], one["start"], one["end"], one["type"]) for record in found
             for one in record["predicted"]["entities"]}
    flagged = {int(name) // 2 for name, *_ in spans}
    clean = predicted(gold, lambda _: {"entities": []})
    one, other, *compared = score(gold, found, clean)
    assert shows(one, {
        "task": "no_entities", "specificity": 1 - len(flagged) / 12,
        "false_positives": len(spans), "documents": 12, "unit": "document",
        "false_positives_per_1000_tokens": 1000 * len(spans) / 240,
        "false_positives_per_1000_documents": 1000 * len(spans) / 12})
    assert one["errors"]["spurious"] == len(spans)
    assert sum(one["confusion"]["-"].values()) == len(spans)
    assert (other["specificity"], other["false_positives"]) == (1, 0)
    assert [line["metric"] for line in compared] == [
        "specificity", "false_positives_per_1000_tokens"]
    low, high = one["intervals"]["false_positives_per_1000_tokens"]
    assert 0 <= low <= one["false_positives_per_1000_tokens"] <= high
    [line] = score(gold, found, types="P")
    assert line["false_positives"] == sum(kind == "P" for *_, kind in spans)
    [line] = score(gold, found, task="pico", unit="id")
    assert shows(line, {"specificity": 1 - len(flagged) / 12, "units": 24})


def test_seeds_without_entities_may_have_more_than_one_false_positive() -> None:
    gold = texts(24, entities=lambda _: [])
    runs = [Predictions(f"s{seed}", predicted(gold, lambda record, seed=seed: {
        "entities": typed("A") if int(record["id"]) % 3 <= seed else []}), "m") for seed in (0, 1)]
    *_, mean = task_scores(gold, runs, resamples=20)
    assert mean["metric"] == "false_positives_per_1000_tokens"
    assert mean["mean"] == pytest.approx(50)
    assert mean["interval"][1] > mean["mean"]


def test_disjoint_types_are_an_error_that_names_both() -> None:
    gold = texts(2, entities=lambda number: typed("AB"[number]))
    found = predicted(gold, lambda record: {"entities": typed("MENTION")})
    with pytest.raises(DataError, match=r"m0: found predictions of the types MENTION and gold "
                                        r"annotations of A, B, expected types in common; "
                                        r"set merge_types NAME to score all types as one"):
        score(gold, found)
    [line] = score(gold, found, merge_types="MENTION")
    assert line["f1"] == 1 and "merge_types:MENTION" in line["signature"]


def test_contradicting_or_broken_definitions_are_errors() -> None:
    gold = texts(2, entities=lambda number: typed("A"))
    one, other, broken = (predicted(gold, lambda record, own=own: {
        "entities": typed("A"), "definition": {"entities": own}})
        for own in ({"types": "A"}, {"types": "A,B"}, {"types": 7}))
    with pytest.raises(DataError, match="m1: found predictions with types 'A,B', and 'A' in m0; "
                                        "set types to score both in the same way"):
        score(gold, one, other)
    assert score(gold, one, other, types="A")[0]["f1"] == 1
    with pytest.raises(RecordError, match=r"key 'predicted.definition'.*as bmtools predict"):
        score(gold, broken)


# The metrics of each task equal independent implementations


def test_mention_scores_equal_simple_implementations(rng: random.Random) -> None:
    gold = texts(30, entities=lambda number: entities(rng))
    found = predicted(gold, lambda record: {"entities": record["entities"][1:] + entities(rng)})
    [line] = score(gold, found)
    sides = mentions(gold), mentions(found, "predicted")
    strict, by_type = score_spans(*sides)
    assert line["task"] == "ner"
    assert shows(line, strict)
    for prefix in ("relaxed", "character"):
        expected = score_characters(*sides, relaxed=prefix == "relaxed")
        assert shows(line, {f"{prefix}_{name}": value for name, value in expected.items()})
    assert list(line["by"]["type"]) == list(by_type) == ["I", "O", "P"]
    words, got = ({(one, TEXT[:at].count(" "), kind) for one, start, end, kind in side
                      for at in range(start, end) if TEXT[at:at + 1].strip()} for side in sides)
    assert shows(line, {"token_f1": 2 * len(words & got) / (len(words) + len(got)),
                        "token_precision": len(words & got) / len(got),
                        "token_recall": len(words & got) / len(words)})
    for kind, scores in by_type.items():
        assert shows(line["by"]["type"][kind], scores)
    errors = line["errors"]
    assert errors["correct"] == strict["correct"]
    assert sum(errors.values()) - errors["spurious"] == strict["support"]
    assert sum(line["confusion"]["-"].values()) == errors["spurious"]
    assert (line["records"], line["documents"]) == (30, 15)
    low, high = line["interval"]
    assert low < line["f1"] < high
    assert set(line["intervals"]) == {name for name in line if name.endswith(
        ("_f1", "precision", "recall"))}


def test_punctuation_marks_are_separate_tokens() -> None:
    """The mention `A-T` has three tokens; the prediction `(A` finds one of them."""
    gold = [{"id": "1", "text": "l'(A-T)", "entities": [{"start": 3, "end": 6, "type": "X"}]}]
    found = predicted(gold, lambda _: {"entities": [{"start": 2, "end": 4, "type": "X"}]})
    [line] = score(gold, found)
    assert (line["token_precision"], line["token_recall"]) == (0.5, pytest.approx(1 / 3, abs=1e-6))


@pytest.mark.parametrize("negative", ["", "no"])
def test_label_scores_equal_scikit_learn(rng: random.Random, negative: str) -> None:
    gold = texts(40, label=lambda number: rng.choice(["no", "a", "b"]))
    found = predicted(gold, lambda record: {
        "label": rng.choice([record["label"], "a", "c"]), "score": 0.5, "probabilities": {}})
    [line] = score(gold, found, negative=negative)
    sides = [record["label"] for record in gold], [record["predicted"]["label"] for record in found]
    assert line["accuracy"] == pytest.approx(accuracy_score(*sides), abs=1e-6)
    labels = [label for label in ("a", "b", "c", "no") if label != negative]
    assert line["task"] == "classification" and list(line["by"]["label"]) == labels
    theirs = precision_recall_fscore_support(*sides, labels=labels, zero_division=0)
    for number, own in enumerate(line["by"]["label"].values()):
        assert [own[name] for name in ("precision", "recall", "f1", "support")] == pytest.approx(
            [values[number] for values in theirs], abs=1e-6)
    for average in ("macro", "weighted", *(["micro"] if negative else [])):
        precision, recall, f1, _ = precision_recall_fscore_support(
            *sides, labels=labels, average=average, zero_division=0)
        assert line[f"{average}_f1"] == pytest.approx(f1, abs=1e-6)
        assert average != "micro" or shows(line, {"precision": precision, "recall": recall})
    assert ("micro_f1" in line) == bool(negative)
    *_, compared = score(gold, found, found, negative=negative)
    assert compared["metric"] == ("micro_f1" if negative else "macro_f1")
    assert sum(line["confusion"]["no"].values()) == sum(r["label"] == "no" for r in gold)


def test_document_label_scores_equal_scikit_learn(rng: random.Random) -> None:
    def some(number: int) -> list[str]:  # BLUE has no example without labels
        return rng.sample("abcde", rng.randint(not number % 2, 2))

    gold = texts(40, labels=some)
    found = predicted(gold, lambda record: {"labels": record["labels"][:1] + some(0)})
    [line] = score(gold, found)
    tables = [[[any(label in one for one in own[at:at + 2]) for label in "abcde"]
               for at in range(0, 40, 2)] for own in (
        [record["labels"] for record in gold], [record["predicted"]["labels"] for record in found])]
    assert (line["task"], line["documents"]) == ("multilabel", 20)
    for average in ("micro", "macro"):
        assert line[f"{average}_f1"] == pytest.approx(
            f1_score(*tables, average=average, zero_division=0), abs=1e-6)
    precision, recall, *_ = precision_recall_fscore_support(
        *map(np.array, tables), average="samples", zero_division=0)
    assert line["example_f1"] == pytest.approx(
        2 * precision * recall / (precision + recall), abs=1e-6)
    assert line["accuracy"] == pytest.approx(accuracy_score(*map(np.array, tables)), abs=1e-6)
    assert [own["f1"] for own in line["by"]["label"].values()] == pytest.approx(
        f1_score(*tables, average=None, zero_division=0).tolist(), abs=1e-6)


def test_labels_are_joined_by_document_for_every_unit(rng: random.Random) -> None:
    """Units are documents, groups of five documents, or records."""
    gold = texts(40, labels=lambda number: rng.sample("abcde", 1 + number % 2),
                 source=lambda number: f"h{number // 10}")
    found = predicted(gold, lambda record: {"labels": record["labels"][:1]})
    by_document, by_source, by_record = (score(gold, found, unit=unit)[0]
                                         for unit in (None, "source", "id"))
    assert [(line["unit"], line["units"], line["documents"], "interval" in line) for line in (
        by_document, by_source, by_record)] == [
        ("document", 20, 20, True), ("source", 4, 20, False), ("id", 20, 20, True)]
    assert by_record["interval"] == by_document["interval"]
    for key in ("micro_f1", "macro_f1", "example_f1", "accuracy"):
        assert by_document[key] == by_record[key] == by_source[key]
    with pytest.raises(RecordError, match=r"key 'patient' is missing, expected the unit"):
        score(gold, found, unit="patient")


def test_precision_and_recall_are_not_exchanged() -> None:
    gold = texts(1, labels=lambda _: ["a", "b"])
    [line] = score(gold, predicted(gold, lambda _: {"labels": ["a"]}))
    assert (line["precision"], line["recall"]) == (1.0, 0.5)
    assert line["by"]["label"] == {"a": score_matches(1, 1, 1), "b": score_matches(0, 0, 1)}


def test_similarity_of_a_constant_is_undefined() -> None:
    gold = texts(30, score=lambda number: number / 7)
    [constant] = score(gold, predicted(gold, lambda record: {"score": 1.0}))
    assert constant["task"] == "similarity"
    assert (constant["pearson"], constant["spearman"]) == (None, None)


def answers(*found: str) -> list[Line]:
    return [{"text": text} for text in found]


def test_answer_scores_equal_a_hand_computed_example() -> None:
    gold = texts(4, answers=lambda number: answers("il cuore", "cuore") * (number < 2))
    given = [answers("cuore", "vene"), answers("il sangue"), [], answers("vene")]
    found = predicted(gold, lambda record: {"answers": given[int(record["id"])]})
    [line] = score(gold, found)
    assert line["task"] == "qa"
    assert shows(line, {"exact_match": 0.5, "f1": (1 + 1 / 2 + 1) / 4, "support": 4})
    for value, exact, f1 in (("yes", 0.5, 0.75), ("no", 0.5, 0.5)):
        assert shows(line["by"]["answerable"][value], {"exact_match": exact, "f1": f1,
                                                       "support": 2})


def test_factoids_are_merged_over_snippets() -> None:
    gold = [{"id": f"{question}-{number}", "text": TEXT, "answers": answers("cuore") * right,
             "meta": {"question": question}}
            for question, rights in (("q", (1, 0)), ("r", (1,)), ("s", (1, 1)))
            for number, right in enumerate(rights)]
    ranked = {"q-0": [("vene", 0.2)], "q-1": [("Cuore", 0.1), ("sangue", 0.7)], "r-0": [],
              "s-0": [("cuore", 0.9)], "s-1": [("vene", 0.5)]}
    found = predicted(gold, lambda record: {"answers": [
        {"text": text, "score": number} for text, number in ranked[record["id"]]]})
    [line] = score(gold, found, task="factoid")
    assert shows(line, {"strict_accuracy": 1 / 3, "lenient_accuracy": 2 / 3, "mrr": (1 / 3 + 1) / 3,
                        "questions": 3})
    unanswered = [{**record, "answers": []} for record in gold]
    [line] = score(unanswered, found, task="factoid")
    assert (line["mrr"], line["questions"]) == (0.0, 3)


def test_factoids_count_even_if_no_snippet_contains_the_answer() -> None:
    exact = {"q": ["cuore", "petto"], "r": ["fegato"]}
    gold = [{"id": question, "text": TEXT, "answers": [], "meta": {
        "question": question, "exact_answer": spellings}} for question, spellings in exact.items()]
    found = predicted(gold, lambda record: {"answers": [{"text": "Petto", "score": 0.5}]})
    [line] = score(gold, found, task="factoid")
    assert (line["strict_accuracy"], line["questions"]) == (0.5, 2)


def test_predictions_for_other_texts_match_by_question() -> None:
    gold = [{"id": f"{question}_{number}", "text": TEXT, "answers": answers("cuore"),
             "meta": {"document": question, "question": question}}
            for question in ("q", "r") for number in range(3)]
    found = [{"id": one, "text": f"Un altro testo {one}.", "meta": {"question": one[0]},
              "predicted": {"answers": [{"text": text, "score": number}]}}
             for one, text, number in (("r_0", "vene", 0.6), ("q_0", "cuore", 0.9),
                                       ("r_9", "Cuore", 0.5))]
    [line] = score(gold, found, task="factoid")
    assert shows(line, {"strict_accuracy": 0.5, "lenient_accuracy": 1, "mrr": 0.75, "questions": 2})
    with pytest.raises(DataError, match="no prediction for 1 of 2 questions of gold"):
        score(gold, found[1:2], task="factoid")
    with pytest.raises(DataError, match=r"gold record; set task factoid to match all records of"):
        score(gold, found)


@pytest.mark.data
def test_bioasq_test_batch_is_scored_by_question(data: Path) -> None:
    """The batch has 167 texts for 39 questions; the gold file has 232 snippets for them."""
    folder = data / "en/qa/bioasq"
    gold = [*bioasq_records([str(folder / "4B1_golden.json")], "factoid")]
    batch = squad_records([str(folder / "BioASQ-test-factoid-4b-1.json")])
    right = {record["meta"]["question"]: record["meta"]["exact_answer"] for record in gold}
    found = [record.replace(predicted={"answers": [
        {"text": one, "score": 1.0} for one in right[record["meta"]["question"]]
        if one in record["text"]]}) for record in batch]
    [line] = score(gold, found, task="factoid")
    answered = {record["meta"]["question"] for record in found if record["predicted"]["answers"]}
    assert (len(gold), len(found), line["questions"], len(answered)) == (232, 167, 39, 29)
    assert line["strict_accuracy"] == line["mrr"] == pytest.approx(len(answered) / 39, abs=1e-6)


def relation(head: str, tail: str, kind: str = "EFFECT") -> Line:
    return {"head": head, "tail": tail, "type": kind}


def test_relations_are_matched_by_the_mentions_they_connect() -> None:
    spans = [{"id": "T1", "start": 3, "end": 8, "type": "A"},
             {"id": "T2", "start": 18, "end": 24, "type": "B"}]
    gold = [{"id": "0", "text": TEXT, "entities": spans,
             "relations": [relation("T1", "T2"), relation("T2", "T1", "INT")]}]
    renamed = [{**spans[0], "id": "T2"}, {**spans[1], "id": "T1"}]
    for found, correct, made in (
            ({"relations": gold[0]["relations"]}, 2, 2),
            ({"relations": [relation("T2", "T1")]}, 0, 1),
            ({"relations": [relation("T2", "T1")], "entities": renamed}, 1, 1),
            ({"relations": [relation("T1", "T2")], "entities": [
                spans[0], {**spans[1], "end": 23}]}, 0, 1),
            ({"relations": []}, 0, 0)):
        [line] = score(gold, predicted(gold, lambda record, found=found: found), task="relations")
        assert (line["correct"], line["predicted"], line["support"]) == (correct, made, 2)


def test_types_and_directions_can_be_chosen() -> None:
    spans = [{"id": name, "start": start, "end": start + 2, "type": "A"}
             for name, start in (("T2", 0), ("T1", 4), ("T3", 8))]
    gold = [{"id": "0", "text": TEXT, "entities": spans, "relations": [
        relation("T1", "T2"), relation("T1", "T3", "INT"), relation("T2", "T3", "OTHER")]}]
    found = predicted(gold, lambda _: {"relations": [
        relation("T2", "T1"), relation("T1", "T3", "INT"), relation("T3", "T2", "OTHER")]})

    def counts(**settings: Any) -> list[int]:
        [line] = score(gold, found, task="relations", **settings)
        return [line[key] for key in ("correct", "predicted", "support")]

    assert counts() == [1, 3, 3]
    assert counts(undirected=True) == [3, 3, 3]
    assert counts(types="EFFECT,INT") == [1, 2, 2]
    assert counts(types="EFFECT", undirected=True) == [1, 1, 1]
    [line] = score(gold, found, task="relations")
    assert (line["macro_f1"], line["weighted_f1"]) == (pytest.approx(1 / 3, abs=1e-6),) * 2
    with pytest.raises(DataError, match="no annotation of type 'EFECT', set in types; did"):
        counts(types="EFECT")


# Models, seeds, groups


def noisy(gold: list[Line], seed: int, rate: float) -> list[Line]:
    rng = random.Random(seed)
    return predicted(gold, lambda record: {
        "label": "wrong" if rng.random() < rate else record["label"]})


def test_models_are_compared() -> None:
    gold = texts(60, label=lambda number: "ab"[number % 2])
    found = [noisy(gold, seed, rate) for seed, rate in ((1, 0.1), (2, 0.12), (3, 0.6))]
    lines = score(gold, *found, resamples=400)
    assert [line.get("model") for line in lines[:3]] == ["m0", "m1", "m2"]
    compared = [line for line in lines if line.get("metric") == "accuracy"]
    assert [line["compared"] for line in compared] == [["m0", "m1"], ["m0", "m2"], ["m1", "m2"]]
    same, *others = compared
    assert same["p"] > 0.2
    assert all(line["p_holm"] < 0.05 and line["interval"][0] > 0 for line in others)
    values = [line["accuracy"] for line in lines[:3]]
    assert same["difference"] == pytest.approx(values[0] - values[1], abs=1e-6)
        # Holm's factors: three for the smallest p-value, then two and one; values never decrease.
    ordered = sorted(compared, key=lambda line: line["p"])
    expected = np.maximum.accumulate([line["p"] * (3 - n) for n, line in enumerate(ordered)])
    assert [line["p_holm"] for line in ordered] == pytest.approx(
        np.minimum(expected, 1).tolist(), abs=1e-5)
    assert score(gold, *found, resamples=0)[3:] == []


def test_seeds_are_summarized_and_compared() -> None:
    gold = texts(60, label=lambda number: "ab"[number % 2])
    named = [Predictions(f"{model}-{seed}", noisy(gold, 10 * seed + len(model), rate), model)
             for model, rate in (("bio", 0.1), ("base", 0.3)) for seed in range(3)]
    lines = task_scores(gold, named, resamples=100)
    assert [line["model"] for line in lines[:6]] == [one.name for one in named]
    summaries = [line for line in lines if "mean" in line]
    assert [(line["model"], line["metric"]) for line in summaries] == [
        ("bio", "accuracy"), ("bio", "macro_f1"), ("base", "accuracy"), ("base", "macro_f1")]
    values = [line["accuracy"] for line in lines[:6]]
    assert summaries[0]["mean"] == pytest.approx(np.mean(values[:3]), abs=1e-6)
    [line] = [line for line in lines if "compared" in line and line["metric"] == "accuracy"]
    assert line["compared"] == ["bio", "base"]
    assert line["difference"] == pytest.approx(np.mean(values[:3]) - np.mean(values[3:]), abs=1e-6)
    assert (line["seeds"], line["p_over_seeds"]) == ([3, 3], 0.1)
    assert line["p"] == line["p_holm"] < 0.05 and line["seeds_needed"] in range(2, 20)
    assert line["interval"][0] < line["difference"] < line["interval"][1]
    assert lines == task_scores(gold, named, resamples=100)


def test_models_are_named_after_files(tmp_path: Path) -> None:
    def names(*files: str) -> list[tuple[str, str]]:
        return [(one.name, one.model) for one in name_predictions(files)]

    assert names("a/x.jsonl", "b/y.jsonl.gz", "-") == [("x", "x"), ("y", "y"), ("stdin", "stdin")]
    assert names("a/x.jsonl", "b/x.jsonl") == [("a/x.jsonl",) * 2, ("b/x.jsonl",) * 2]
    assert names("bio=x-0.jsonl", "bio=x-1.jsonl", "y=z.jsonl") == [
        ("x-0", "bio"), ("x-1", "bio"), ("y", "y")]
    with pytest.raises(ValueError, match=r"found x\.jsonl twice"):
        names("x.jsonl", "bio=x.jsonl")
    odd = tmp_path / "rate=1.jsonl"
    odd.touch()
    assert names(str(odd)) == [("rate=1", "rate=1")]


# Mismatches


GOLD = texts(4, label=lambda number: "a")
FOUND = predicted(GOLD, lambda record: {"label": "a"})


@pytest.mark.parametrize(("gold", "found", "message"), [
    (GOLD, FOUND[1:], "m0: found no prediction for 1 of 4 records of gold (ids '0'), expected one "
                      "prediction for each gold record"),
    (GOLD[2:], FOUND, "m0: found 2 of 4 records that gold does not contain (ids '0', '1'), "),
    (GOLD[:3], FOUND[3:], "m0: found no prediction for 3 of 3 records of gold (ids '0', '1', '2')"),
    (GOLD, [*FOUND, FOUND[0]], "record 5: found the id '0' again, which record 1 has; expected "
                               "ids that differ"),
    ([*GOLD, GOLD[1]], FOUND, "record 5: found the id '1' again"),
    (GOLD, GOLD, "record 1: key 'predicted' is missing, expected an object of predictions, as "
                 "bmtools predict writes it; to read other predictions, set predicted label"),
    (GOLD, [{**FOUND[0], "text": "altro"}, *FOUND[1:]],
     "record 1: found another text than the gold record has at record 1"),
    (GOLD, predicted(GOLD, lambda record: {"score": 1.0}),
     "record 1: found score under 'predicted', and none of them in the gold record, expected one "
     "of answers, score, labels, label, relations, entities in both; set task"),
    (GOLD, [FOUND[0], {**FOUND[1], "predicted": {"score": 1}}, *FOUND[2:]],
     "record 2: key 'predicted.label' is missing; found score; to score another task"),
    (GOLD, [FOUND[0], {**FOUND[1], "predicted": {"label": 7}}, *FOUND[2:]],
     "record 2: key 'predicted.label': found a whole number, expected text"),
    (texts(1, answers=lambda number: []), [{**texts(1)[0], "predicted": {"answers": [
        {"text": "il", "score": "0.9"}]}}],
     "record 1: key 'predicted.answers[0].score': found text, expected a number"),
    ([{**texts(1)[0], "answers": [], "meta": {"exact_answer": [3]}}],
     [{**texts(1)[0], "predicted": {"answers": []}}],
     "record 1: key 'meta.exact_answer': found [3], expected spellings of an answer"),
    ([{k: v for k, v in GOLD[0].items() if k != "label"}, *GOLD[1:]], [*FOUND[1:], FOUND[0]],
     "record 1: key 'label' is missing; expected the gold annotation of classification"),
])
def test_mismatches_are_reported_with_their_position(gold: list[Line], found: list[Line],
                                                     message: str) -> None:
    with pytest.raises(BmtoolsError) as error:
        score(gold, found)
    assert str(error.value).startswith(message)


def test_predictions_may_replace_annotations() -> None:
    found = [{**record, "label": "b"} for record in GOLD]
    [line] = score(GOLD, found, predicted="label")
    assert (line["task"], line["accuracy"]) == ("classification", 0.0)
    other = [{**record, "mine": {"label": "a"}} for record in GOLD]
    assert score(GOLD, other, predicted="mine")[0]["accuracy"] == 1.0
    with pytest.raises(RecordError, match="it; to read other predictions, set predicted label"):
        score(GOLD, other)


def test_scoring_needs_no_torch() -> None:
    code = ("import sys, bmtools.tasks\n"
            "record = {'id': 'a', 'text': 'b', 'label': 'c', 'predicted': {'label': 'c'}}\n"
            "from bmtools.tasks.metrics.score_tasks import Predictions, task_scores\n"
            "[line] = task_scores([record], [Predictions('m', [record], 'm')])\n"
            "assert line['accuracy'] == 1\n"
            "assert not {'torch', 'transformers', 'scipy', 'sklearn'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)


SUMS = """
import random
import numpy as np
from bmtools.tasks.metrics.samples import TASK_METRICS, Pairs
rng = random.Random(3)
def entities():
    return [{"start": start, "end": start + rng.randint(1, 40), "type": rng.choice("ABC")}
            for start in rng.sample(range(100), 12)]
gold, found = ([{"text": "x" * 200, "entities": entities()} for _ in range(200)] for _ in "ab")
pairs = Pairs(gold, found, np.arange(200) % 5, "ABC")
print(TASK_METRICS["ner"].sample(pairs).counts.tobytes().hex())
"""


def test_scores_do_not_depend_on_the_order_of_sets() -> None:
    """The order of Python sets could change the last digits of sums."""
    outputs = {subprocess.run([sys.executable, "-c", SUMS], check=True, capture_output=True,
                              env={**os.environ, "PYTHONHASHSEED": seed}).stdout
               for seed in "123"}
    assert len(outputs) == 1
