"""Counts of a data set's annotations, and the imbalance of its labels."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from bmtools.records import JsonObject
from bmtools.tasks.metrics.answers import question_of
from bmtools.tasks.metrics.errors import typed_spans
from bmtools.tasks.metrics.spans import find_words, rounded

_KINDS = ("entities", "relations", "label", "labels", "answers")


@dataclass
class AnnotationCounts:
    """Counts of annotations by their key in the record and by type or label.

    Attributes:
        kinds: number of annotations by key, then by type or label.
        words: number of words by label: O, and B- and I- with the type of their entity.
        repeats: how often each question occurs with its first answer; kept in memory, because data
            sets are small.
    """

    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)
    repeats: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, records: Iterable[JsonObject]) -> None:
        """Count the annotations of some records."""
        for record in records:
            for key in record.keys() & _KINDS:
                self.kinds.setdefault(key, Counter()).update(_annotations(record, key))
            if "entities" in record:
                self.words.update(_labels_of_words(record))
            if record.get("answers"):
                question = record.get("question", question_of(record))
                self.repeats[question, record["answers"][0]["text"]] += 1

    def merge(self, other: AnnotationCounts) -> None:
        """Add the counts of other records."""
        for key, counts in other.kinds.items():
            self.kinds.setdefault(key, Counter()).update(counts)
        self.words.update(other.words)
        self.repeats.update(other.repeats)

    def line(self) -> JsonObject:
        """Return the counts of each key and a measure of their imbalance.

        `label_bias` has one value for each key. For labels and relations, it is the count of all
        labels or types except the most frequent one, divided by the count of the most frequent one.
        For entities, it is the number of words inside entities divided by the number of words
        outside. For answers, it is the minimum number of times that a question occurs with its
        answer, divided by the maximum; `repeats` contains both numbers.

        `token_labels` counts words by B-, I- and O. A word in two entities counts for the first.

        Sources: Shin et al. 2020 (BioMegatron), table 8; Pavlova and Makhlouf 2023 (BIOptimus),
        figure 6. They count tags of tokens, not of words.
        """
        kinds = {key: self.kinds[key] for key in _KINDS if self.kinds.get(key)}
        bias = {key: _share(counts.total() - max(counts.values()), max(counts.values()))
                for key, counts in kinds.items() if key not in ("entities", "answers")}
        outside = self.words["O"]
        bias |= {"entities": _share(self.words.total() - outside, outside)} if self.words else {}
        ends = [min(self.repeats.values()), max(self.repeats.values())] if self.repeats else []
        bias |= {"answers": _share(*ends)} if ends else {}
        kinds |= {"token_labels": self.words} if kinds.get("entities") else {}
        return {**{key: dict(counts.most_common()) for key, counts in kinds.items()},
                **({"repeats": ends} if ends else {}), **({"label_bias": bias} if bias else {})}


def _annotations(record: JsonObject, key: str) -> list[str]:
    """List the types or labels that a record has under a key."""
    found = record[key]
    if key == "answers":
        return ["answered" if found else "none"]
    if key == "label":
        return [found]
    return [one if key == "labels" else one["type"] for one in found]


def _labels_of_words(record: JsonObject) -> Counter[str]:
    spans = find_words(record["text"])
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    labels = ["O"] * len(spans)
    for start, end, kind in sorted(typed_spans(record)):
        prefix = "B"
        for word in range(bisect_right(ends, start), bisect_left(starts, end)):
            if labels[word] == "O":
                labels[word] = f"{prefix}-{kind}"
            prefix = "I"
    return Counter(labels)


def _share(part: int, whole: int) -> float | None:
    return rounded(part / whole) if whole else None
