"""Predict without a model, as a baseline that a model must beat.

Entities are the longest matches of mentions that are marked in at least half of their occurrences
in the training set. Two entities get the most frequent training relation between entities with the
same texts. Labels are the most frequent labels of the training set. The similarity of two sentences
is their share of common words. The answer to a question is the most frequent training answer to the
same question that the text contains.

Usage: python baseline.py train.jsonl test.jsonl [TYPE ...] > predictions.jsonl
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

Record = dict[str, Any]
_WORD = re.compile(r"\w+|[^\w\s]")


def records(name: str) -> list[Record]:
    """Read a file of records."""
    with Path(name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def words(text: str) -> list[str]:
    """Split a text into words and signs, in lower case."""
    return _WORD.findall(text.lower())


def dictionary(train: list[Record], types: Iterable[str]) -> Callable[[Record], Record]:
    """Learn the mentions that are marked in at least half of their occurrences."""
    marked: Counter[tuple[str, ...]] = Counter()
    type_of: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for record in train:
        for entity in record["entities"]:
            if entity["type"] in types:
                mention = tuple(words(record["text"][entity["start"]:entity["end"]]))
                marked[mention] += 1
                type_of[mention][entity["type"]] += 1
    longest = max(map(len, marked), default=0)
    seen: Counter[tuple[str, ...]] = Counter()
    for record in train:
        text = words(record["text"])
        seen.update(tuple(text[at:at + size]) for size in range(1, longest + 1)
                    for at in range(len(text) - size + 1) if tuple(text[at:at + size]) in marked)
    known = {mention for mention, count in marked.items() if 2 * count >= seen[mention]}

    def predict(record: Record) -> Record:
        places = list(_WORD.finditer(record["text"]))
        text, entities, at = words(record["text"]), [], 0
        while at < len(text):
            size = next((size for size in range(longest, 0, -1)
                         if tuple(text[at:at + size]) in known), 0)
            if size:
                start, end = places[at].start(), places[min(at + size, len(places)) - 1].end()
                kind = type_of[tuple(text[at:at + size])].most_common(1)[0][0]
                entities.append({"start": start, "end": end, "type": kind,
                                 "text": record["text"][start:end]})
            at += size or 1
        return {"entities": entities}
    return predict


def known_pairs(train: list[Record]) -> Callable[[Record], Record]:
    """Learn the most frequent relation between two texts, including "no relation"."""
    types: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    all_types: Counter[str] = Counter()
    for record in train:
        text = {entity["id"]: entity["text"].lower() for entity in record["entities"]}
        relation = {(one["head"], one["tail"]): one["type"] for one in record["relations"]}
        for head, tail in combinations(text, 2):
            found = relation.get((head, tail)) or relation.get((tail, head)) or ""
            types[text[head], text[tail]][found] += 1
            all_types[found] += 1
    otherwise = all_types.most_common(1)[0][0]

    def predict(record: Record) -> Record:
        text = {entity["id"]: entity["text"].lower() for entity in record["entities"]}
        chosen = {(head, tail): types[text[head], text[tail]].most_common(1) or [(otherwise, 1)]
                  for head, tail in combinations(text, 2)}
        return {"entities": record["entities"],
                "relations": [{"head": head, "tail": tail, "type": best[0][0]}
                              for (head, tail), best in chosen.items() if best[0][0]]}
    return predict


def most_frequent(train: list[Record], key: str) -> Callable[[Record], Record]:
    """Learn the most frequent value of `label` or `labels`, ignoring empty values."""
    value = Counter(json.dumps(record[key]) for record in train if record[key]).most_common(1)[0][0]
    return lambda record: {key: json.loads(value)}


def common_words(record: Record) -> Record:
    """Compare two texts by their share of common words (Jaccard), as a score from 0 to 4."""
    one, other = set(words(record["text"])), set(words(record["text_pair"]))
    return {"score": 4 * len(one & other) / len(one | other)}


def known_answers(train: list[Record]) -> Callable[[Record], Record]:
    """Learn the answers to questions; predict the most frequent answer in the text."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for record in train:
        answers[record["question"]].update(answer["text"].lower() for answer in record["answers"])

    def predict(record: Record) -> Record:
        places = ((record["text"].lower().find(answer), len(answer))
                  for answer, _ in answers[record["question"]].most_common())
        return {"answers": [{"text": record["text"][start:start + size], "start": start}
                            for start, size in places if start >= 0][:1]}
    return predict


def baseline(train: list[Record], types: list[str]) -> Callable[[Record], Record]:
    """Choose the baseline for the annotations of these records."""
    first = train[0]
    if "relations" in first:
        return known_pairs(train)
    if "entities" in first:
        return dictionary(train, types or {entity["type"] for record in train
                                           for entity in record["entities"]})
    if "answers" in first:
        return known_answers(train)
    if "score" in first:
        return common_words
    return most_frequent(train, "labels" if "labels" in first else "label")


if __name__ == "__main__":
    predict = baseline(records(sys.argv[1]), sys.argv[3:])
    for record in records(sys.argv[2]):
        print(json.dumps({**record, "predicted": predict(record)}, ensure_ascii=False))
