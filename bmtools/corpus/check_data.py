"""Faults of an annotated set that lower scores without an error, each with a fix."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from bmtools.corpus.overlap import SHARED, overlaps, text_key
from bmtools.records import JsonObject, Record

FEWEST_EXAMPLES = 50
"""Examples of a label below which a model rarely learns it (spaCy's limit for new labels)."""
_FIXES = {
    "empty text": "remove these records",
    "white space at an edge": "trim the entities",
    "edge inside a word": "correct the offsets, or: bmtools finetune ner --tags tokens",
    "overlapping entities": "bmtools finetune ner --set overlapping=true; without it, only the "
                            "longest is tagged",
    "discontinuous entity": "split it; taggers read it together with the text between its parts",
    "repeated entity": "remove the copies",
    "repeated record": "remove the copies: bmtools dedup",
    "conflicting annotations": "decide on one annotation of the same text",
    "few examples": "add examples, or merge the label with another one",
    "label not in the first file": "split again, or remove it: a model cannot predict it",
    **{f"shared {what}": "split by document: bmtools split" for what in SHARED}}


def entity_faults(record: Record) -> Counter[str]:
    """Count the entities of a record that a tagger of words cannot represent, by fault."""
    text, found = record["text"], Counter[str]()
    spans = _spans(record)
    for start, end, _ in spans:
        cuts = [text[max(at - 1, 0):at + 1] for at in (start, end) if 0 < at < len(text)]
        found["edge inside a word"] += any(cut.isalnum() for cut in cuts)
        found["white space at an edge"] += text[start:end].strip() != text[start:end]
    distinct = sorted(set(spans))
    found["repeated entity"] = len(spans) - len(distinct)
    latest = 0
    for start, end, _ in distinct:
        found["overlapping entities"] += start < latest
        latest = max(latest, end)
    found["discontinuous entity"] = sum(len(entity.get("spans", ())) > 1
                                        for entity in record.get("entities", ()))
    return +found


def labels_of(record: Record) -> list[str]:
    """Return the types and labels that a model would learn from a record."""
    annotations = chain(record.get("entities", ()), record.get("relations", ()))
    return [*(one["type"] for one in annotations), *record.get("labels", ()),
            *([record["label"]] if "label" in record else [])]


def check_data(parts: Mapping[str, Iterable[Record]]) -> Iterator[JsonObject]:
    """Yield a line for each fault of a set, with its file, count, first place and fix.

    Args:
        parts: records by part; the first part is the one that a model learns from.
    """
    records = {name: list(own) for name, own in parts.items()}
    learned: Counter[str] = Counter()
    for name, own in records.items():
        counts, places = Counter[str](), dict[str, str]()
        labels = Counter(chain.from_iterable(map(labels_of, own)))
        known: dict[str, set[str]] = defaultdict(set)
        for record in own:
            found = entity_faults(record)
            found["empty text"] = not record["text"].strip()
            key, annotation = _identity(record)
            found["repeated record"] = annotation in known[key]
            found["conflicting annotations"] = bool(known[key] - {annotation})
            known[key].add(annotation)
            for fault in +found:
                places.setdefault(fault, record.place)
            counts += found
        yield from (_line(name, fault, count, places[fault])
                    for fault, count in sorted(counts.items()))
        learned = learned or labels
        for label, count in sorted(labels.items()):
            if labels is learned and count < FEWEST_EXAMPLES:
                yield _line(name, "few examples", count, label)
            if label not in learned:
                yield _line(name, "label not in the first file", count, label)
    for line in overlaps(records):
        yield from (_line(line["of"], f"shared {what}", line[what], f"in {line['in']}")
                    for what in SHARED if line[what])


def _spans(record: Record) -> list[tuple[int, int, str]]:
    return sorted((one["start"], one["end"], one["type"]) for one in record.get("entities", ()))


def _identity(record: Record) -> tuple[str, str]:
    """Return what a model reads of a record, and what it learns."""
    spans = _spans(record)
    relations = sorted(one["type"] for one in record.get("relations", ()))
    read = [text_key(record), record.get("question"), spans if "relations" in record else ()]
    learned = [record.get("label"), record.get("labels"), record.get("answers"),
               relations if "relations" in record else spans]
    return repr(read), repr(learned)


def _line(part: str, fault: str, count: int, where: str) -> JsonObject:
    return {"file": part, "fault": fault, "count": count, "where": where, "fix": _FIXES[fault]}
