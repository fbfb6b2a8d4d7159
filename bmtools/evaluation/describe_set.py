"""Counts of a set's annotations, and how uneven its labels are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from bmtools.evaluation.answers import question_of
from bmtools.evaluation.counts import rounded
from bmtools.evaluation.spans import find_words, words_in
from bmtools.records import document_of


def describe_set(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Count records, and their annotations by type or label.

    `label_bias` is, by the key of the annotation: of labels and types of relations, those of all
    but the most frequent one divided by those of that; of entities, words inside of any divided by
    words outside of all; of answers, the least times that a question and its answer occur divided
    by the most.

    Source: Shin et al. 2020 (BioMegatron), table 8. Its tags are of tokens, not of words.

    Returns:
        `records`, `documents`, for each kind of annotation that occurs its counts, and
        `label_bias`; `repeats`: the least and the most of a question and its answer.
    """
    total, documents, words = 0, set(), Counter[str]()
    kinds: dict[str, Counter[str]] = {}
    repeats: Counter[tuple[str, str]] = Counter()
    for record in records:
        total += 1
        documents.add(document_of(record))
        for key, found in _kinds(record).items():
            kinds.setdefault(key, Counter()).update(found)
        if "entities" in record:
            words.update(_words(record))
        question = record.get("question", question_of(record))
        repeats.update((question, one["text"]) for one in record.get("answers", ())[:1])
    bias = {key: _share(counts.total() - max(counts.values()), max(counts.values()))
            for key, counts in kinds.items() if counts and key not in ("entities", "answers")}
    bias |= {"entities": _share(words["inside"], words["outside"])} if words else {}
    ends = [min(repeats.values()), max(repeats.values())] if repeats else []
    bias |= {"answers": _share(*ends)} if ends else {}
    return {"records": total, "documents": len(documents),
            **{key: dict(counts.most_common()) for key, counts in kinds.items() if counts},
            **({"repeats": ends} if ends else {}), **({"label_bias": bias} if bias else {})}


def _kinds(record: Mapping[str, Any]) -> dict[str, list[str]]:
    """List the types or labels of a record, by the key of the annotation."""
    found = {key: [one["type"] for one in record[key]]
             for key in ("entities", "relations") if key in record}
    found |= {"label": [record["label"]]} if "label" in record else {}
    found |= {"labels": record["labels"]} if "labels" in record else {}
    return found | ({"answers": ["answered" if record["answers"] else "none"]}
                    if "answers" in record else {})


def _words(record: Mapping[str, Any]) -> dict[str, int]:
    spans = find_words(record["text"])
    inside = {word for word, _ in words_in(spans, (
        (one["start"], one["end"], one["type"]) for one in record["entities"]))}
    return {"inside": len(inside), "outside": len(spans) - len(inside)}


def _share(part: int, whole: int) -> float | None:
    return rounded(part / whole) if whole else None
