"""Scores of answers: SQuAD's exact match and F1, BioASQ's measures of factoids and lists."""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence

from bmtools.records import JsonObject

MOST_ANSWERS = 5
"""Answers to a factoid question that BioASQ takes."""
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


# SQuAD


def question_of(record: JsonObject) -> str:
    """Name the question of a record: `meta.question` where it has one, else its id."""
    return str(record.get("meta", {}).get("question", record["id"]))


def right_answers(record: JsonObject) -> list[str]:
    """List the right answers: those of `meta.exact_answer`, of which a snippet may have none."""
    exact = record.get("meta", {}).get("exact_answer")
    if exact is None:
        return [answer["text"] for answer in record["answers"]]
    return [spelling for item in exact for spelling in ([item] if isinstance(item, str) else item)]


def language_of(record: JsonObject) -> str:
    """Name the language of a record, English where it says none."""
    return str(record.get("lang") or "en")


def normalize_answer(text: str, lang: str = "en") -> str:
    """Fold case, drop ASCII punctuation and English articles, and join words by one space.

    Source: Rajpurkar et al. 2016, section 6.1; the order of the steps is that of their script.
    Words of other languages that look like an article, such as Italian `a`, stay.
    """
    words = text.lower().translate(_NO_PUNCTUATION)
    return " ".join((_ARTICLES.sub(" ", words) if lang.startswith("en") else words).split())


def match_answer(gold: Sequence[str], predicted: str, lang: str = "en") -> tuple[float, float]:
    """Compare an answer with each gold one by SQuAD's rules; the best counts, measure by measure.

    Gold answers of which nothing is left do not count, unless all are; then, or where there are
    none, the answer must be empty (SQuAD 2.0).

    Returns:
        1 if it is equal to one but for case, punctuation and articles, else 0; and F1 over words.
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
    """Merge the answers found in each snippet of a question: the best come first, each once.

    Of answers that differ in case alone the best one's spelling and score count. Equal scores stay
    in order. Source: Yoon et al. 2019, section 3.3.

    Args:
        questions: the question of each snippet.
        answers: of each snippet, with their scores.
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
    """Find the first right answer among the first five; case does not count.

    Source: Tsatsaronis et al. 2015, and BioASQ's published evaluator.

    Args:
        synonyms: spellings of the right answer.
        ranked: answers, best first.

    Returns:
        strict: 1 if the first answer is right, else 0; lenient: 1 if one of the first five is; and
        1 over the place of the first right one of those, else 0.
    """
    right = set(map(_folded, synonyms))
    places = [place for place, answer in enumerate(ranked[:MOST_ANSWERS], 1)
              if _folded(answer) in right]
    return float(1 in places), float(bool(places)), 1 / places[0] if places else 0.0


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
