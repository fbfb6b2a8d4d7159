"""Sentences of documents, with their entities, relations and sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.records import JsonObject, Record
from bmtools.text.abbreviations import Abbreviations
from bmtools.text.segment import sentence_spans

# Keys whose value describes the complete document and would be wrong for one sentence.
_WHOLE = ("answers", "target", "text_pair")


def sentence_records(records: Iterable[Record], counts: Counter[str] | None = None,
                     reject: Reject = refuse,
                     abbreviations: Abbreviations | None = None) -> Iterator[Record]:
    """Yield a record for every sentence, with the ids `ID-s1`, `ID-s2` and so on.

    A blank line and the end of a section in `meta.sections` always end a sentence. Sentences that
    share an entity or a relation stay together, so that it is not lost. Offsets of entities
    and sections are recomputed. `meta.document` and `meta.start` record where a sentence is from.
    Every sentence gets a copy of all other keys.

    Args:
        records: documents whose `lang` is set.
        counts: counts the sentence borders that an entity or a relation removed.
        reject: receives documents without language, or with answers, a target or a second text.
        abbreviations: added to the abbreviations known for the languages.
    """
    counts = Counter() if counts is None else counts
    for record in records:
        unsplittable = next((key for key in _WHOLE if key in record), None)
        if not record.get("lang"):
            reject(RecordError(record.place, "found no language; add the key 'lang' or set "
                                             f"{setting('lang')} to split sentences", record))
        elif unsplittable is not None:
            reject(RecordError(record.place, f"found the key '{unsplittable}', which belongs to "
                                             "the complete document; run without "
                                             f"{setting('sentences')}", record))
        else:
            # A section begins where the previous one ends, so it includes its label.
            ends = [section["end"] for section in sections_of(record)]
            spans = list(spans_between(record["text"], ends, record["lang"], abbreviations))
            joined = _joined(spans, _links(record))
            counts["sentence borders inside an entity or a relation left out"] += max(
                0, len(spans) - len(joined))
            counts["records without words left out"] += not joined
            for number, (start, end) in enumerate(joined, 1):
                yield _sentence(record, number, start, end)


def sections_of(record: Record) -> list[JsonObject]:
    """Return the sections in `meta`, if they have offsets."""
    sections = record.get("meta", {}).get("sections", ())
    marked = isinstance(sections, list) and all(
        isinstance(section, dict) and isinstance(section.get("start"), int)
        and isinstance(section.get("end"), int) for section in sections)
    return sections if marked else []


def spans_between(text: str, borders: Iterable[int], lang: str,
                  abbreviations: Abbreviations | None) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence; sentences do not cross a border."""
    start = 0
    for border in [*borders, len(text)]:
        for first, last in sentence_spans(text[start:border], lang, abbreviations):
            yield start + first, start + last
        start = max(start, border)


def _links(record: Record) -> list[tuple[int, int]]:
    """Return the spans that must not be split: entities, and relations from head to tail."""
    hulls = [(entity["start"], entity["end"]) for entity in record.get("entities", ())]
    by_id = {entity.get("id"): hull
             for entity, hull in zip(record.get("entities", ()), hulls, strict=True)}
    for relation in record.get("relations", ()):
        head, tail = by_id[relation["head"]], by_id[relation["tail"]]
        hulls.append((min(head[0], tail[0]), max(head[1], tail[1])))
    return sorted(hulls)


def _joined(spans: list[tuple[int, int]], links: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join sentences and links that overlap, so that links do not cross a border."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted([*spans, *links]):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _sentence(record: Record, number: int, start: int, end: int) -> Record:
    meta = {**record.get("meta", {}), "document": record["id"], "start": start}
    if sections := sections_of(record):
        meta["sections"] = [{**section, "start": max(section["start"], start) - start,
                             "end": min(section["end"], end) - start} for section in sections
                            if max(section["start"], start) < min(section["end"], end)]
    keys: JsonObject = {"id": f"{record['id']}-s{number}", "text": record["text"][start:end],
                            "meta": meta}
    if "entities" in record:
        entities = [entity for entity in record["entities"] if start <= entity["start"] < end]
        keys["entities"] = [_shifted(entity, start) for entity in entities]
        if "relations" in record:
            ids = {entity.get("id") for entity in entities}
            keys["relations"] = [arc for arc in record["relations"] if arc["head"] in ids]
    return record.replace(**keys)


def _shifted(entity: JsonObject, start: int) -> JsonObject:
    moved = {**entity, "start": entity["start"] - start, "end": entity["end"] - start}
    if entity.get("spans"):
        moved["spans"] = [[first - start, last - start] for first, last in entity["spans"]]
    return moved
