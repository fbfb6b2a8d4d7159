"""Answers: SQuAD's exact match and F1, BioASQ's factoid measures, and both prediction formats."""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence

from bmtools.errors import RecordError, Reject
from bmtools.records import JsonObject, Record, check, distinct

MOST_ANSWERS = 5
"""Maximum number of answers to a factoid question in BioASQ."""
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


# SQuAD


def question_of(record: JsonObject) -> str:
    """Return the question of a record: `meta.question` if present, or its id."""
    return str(record.get("meta", {}).get("question", record["id"]))


def right_answers(record: JsonObject) -> list[str]:
    """List the correct answers: `meta.exact_answer` if present, or the answers in the snippet."""
    exact = record.get("meta", {}).get("exact_answer")
    if exact is None:
        return [answer["text"] for answer in record["answers"]]
    return [spelling for item in exact for spelling in ([item] if isinstance(item, str) else item)]


def language_of(record: JsonObject) -> str:
    """Return the language of a record; English if it is unspecified."""
    return str(record.get("lang") or "en")


def normalize_answer(text: str, lang: str = "en") -> str:
    """Fold case, drop ASCII punctuation and English articles, and join words with one space.

    Source: Rajpurkar et al. 2016, section 6.1. The steps are in the order of their script. Words
    of other languages that look like an article, such as Italian `a`, are kept.
    """
    words = text.lower().translate(_NO_PUNCTUATION)
    return " ".join((_ARTICLES.sub(" ", words) if lang.startswith("en") else words).split())


def match_answer(gold: Sequence[str], predicted: str, lang: str = "en") -> tuple[float, float]:
    """Compare an answer with each gold answer by SQuAD's rules and return the best values.

    Gold answers that are empty after normalization are ignored if others remain. If all are empty,
    or there are no gold answers, the prediction must be empty (SQuAD 2.0).

    Returns:
        1 if the answer equals a gold answer, ignoring case, punctuation and articles, and 0
        otherwise; and the F1 over words. Each value is the best over all gold answers.
    """
    golds = [one for text in gold if (one := normalize_answer(text, lang))] or [""]
    found = normalize_answer(predicted, lang)
    return float(found in golds), max(_word_f1(one, found) for one in golds)


def _word_f1(gold: str, found: str) -> float:
    expected, words = gold.split(), found.split()
    if not expected or not words:
        return float(expected == words)
    return 2 * (Counter(expected) & Counter(words)).total() / (len(expected) + len(words))


# BioASQ


def merge_answers(questions: Iterable[Hashable], answers: Iterable[Iterable[tuple[str, float]]],
                  ) -> dict[Hashable, list[str]]:
    """Merge the answers found in all snippets of a question, best first and without duplicates.

    Answers that differ only in case are duplicates; the spelling and score of the best one are
    used. Answers with equal scores keep their order. Source: Yoon et al. 2019, section 3.3.

    Args:
        questions: the question of each snippet.
        answers: the answers from each snippet, with their scores.
    """
    found: dict[Hashable, list[tuple[str, float]]] = defaultdict(list)
    for question, own in zip(questions, answers, strict=True):
        found[question].extend(own)
    merged: dict[Hashable, list[str]] = {}
    for question, candidates in found.items():
        best: dict[str, str] = {}
        for text, _ in sorted(candidates, key=lambda one: -one[1]):
            if _folded(text):
                best.setdefault(_folded(text), text)
        merged[question] = [*best.values()][:MOST_ANSWERS]
    return merged


def rank_factoid(synonyms: Iterable[str], ranked: Sequence[str]) -> tuple[float, float, float]:
    """Find the first correct answer among the first five, ignoring case.

    Source: Tsatsaronis et al. 2015, and BioASQ's published evaluator.

    Args:
        synonyms: spellings of the correct answer.
        ranked: answers, best first.

    Returns:
        strict, 1 if the first answer is correct, or 0; lenient, 1 if one of the first five is
        correct, or 0; and the reciprocal rank of the first correct answer among these, or 0.
    """
    right = set(map(_folded, synonyms))
    places = [place for place, answer in enumerate(ranked[:MOST_ANSWERS], 1)
              if _folded(answer) in right]
    return float(1 in places), float(bool(places)), 1 / places[0] if places else 0.0


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


# Files for the official evaluation scripts


def squad_answers(records: Iterable[Record], reject: Reject,
                  predicted: str = "predicted") -> dict[str, str]:
    """Return each record's best predicted answer or label by its id; empty if it has no answer.

    Sources: the prediction format of the evaluation scripts of SQuAD 1.1 and 2.0, and
    evaluation.py of PubMedQA (repository pubmedqa/pubmedqa).

    Args:
        records: records with `answers` or `label` as `predict` writes them.
        reject: receives records without predictions, and repeated ids.
        predicted: key of the object with predictions, or `answers` or `label` itself.
    """
    return {record["id"]: held["label"] if "label" in held else
            next((answer["text"] for answer in held["answers"]), "")
            for record, held in _predicted(records, predicted, ("answers", "label"), reject)}


def bioasq_answers(records: Iterable[Record], reject: Reject,
                   predicted: str = "predicted") -> list[JsonObject]:
    """Return questions with exact answers, as under `questions` in the files of BioASQ's task B.

    A factoid question has the five best answers from all its texts, without synonyms. A yes/no
    question has its label.

    Args:
        records: records with `answers` or `label` as `predict` writes them.
        reject: receives records without both keys, and repeated ids.
        predicted: key of the object with predictions, or `answers` or `label` itself.
    """
    bodies, labels = dict[str, str](), dict[str, str]()
    answers: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for record, held in _predicted(records, predicted, ("answers", "label"), reject):
        name = question_of(record)
        bodies.setdefault(name, record.get("question", ""))
        if "answers" in held:
            answers[name] += [(one["text"], one.get("score", -place))
                              for place, one in enumerate(held["answers"])]
        else:
            labels[name] = held["label"]
    merged = merge_answers(answers, answers.values())
    return [{"id": name, "body": body, "type": "factoid" if name in answers else "yesno",
             "exact_answer": [[one] for one in merged[name]] if name in answers else labels[name]}
            for name, body in bodies.items()]


def _predicted(records: Iterable[Record], predicted: str, keys: Sequence[str],
               reject: Reject) -> Iterator[tuple[Record, Record]]:
    """Yield each record with a record of its predictions that contains one of the keys."""
    for record in distinct(records, reject):
        held = record if predicted in keys else record.get(predicted)
        key = next((one for one in keys if isinstance(held, dict) and one in held), None)
        if held is None or key is None:
            reject(RecordError(record.place, f"key '{predicted}.{keys[0]}' is missing; expected "
                               f"{' or '.join(keys)} as bmtools predict writes them", record))
            continue
        made = Record(id=record["id"], text=record["text"], place=record.place, **{key: held[key]})
        try:
            check(made)
        except RecordError as error:
            reject(error)
        else:
            yield record, made
