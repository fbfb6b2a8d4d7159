"""Projection of annotations from records to their translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

from bmtools.errors import Reject, refuse
from bmtools.io.jsonl import as_records
from bmtools.records import Record
from bmtools.status import set_status
from bmtools.translation.projection.documents import (
    DocumentPair,
    is_located,
    pair_document,
    pair_records,
)
from bmtools.translation.projection.pairs import Projection, Projector, SentencePair
from bmtools.translation.projection.settings import ProjectionConfig

PROJECTED = "annotations projected"
RELATIONS_LOST = "relations lost with their entities"


def project(sources: str | PathLike[str] | Iterable[Any],
            translations: str | PathLike[str] | Iterable[Any],
            config: ProjectionConfig | None = None, reject: Reject = refuse,
            counts: Counter[str] | None = None) -> Iterator[Record]:
    """Carry annotations from records to their translations.

    All records are held in memory: methods learn from the whole corpus before the first span is
    projected.

    Args:
        sources: files, records or dictionaries with entities, relations and answers.
        translations: likewise, with the same ids and no annotations.
        config: methods, and the treatment of spans without a place.
        reject: receives records that cannot be projected.
        counts: updated with what was projected, and what was lost by cause.

    Yields:
        the translations with the annotations of their sources, in the order of the sources.
    """
    config = config or ProjectionConfig()
    counts = Counter() if counts is None else counts
    documents = [pair_document(*pair) for pair in pair_records(
        as_records(sources, reject), as_records(translations, reject), reject)]
    places = iter(_project_pairs([pair for one in documents for pair in one.pairs], config))
    for document in documents:
        of_pairs = [next(places) for _ in document.pairs]
        found = [of_pairs[at][number] for at, number in document.places]
        record = _annotated(document, found, counts)
        yield record


def _project_pairs(pairs: Sequence[SentencePair],
                   config: ProjectionConfig) -> list[list[Projection | None]]:
    """Project the spans of sentence pairs by all methods."""
    by_method = []
    for projector in map(load_projector, config.methods):
        set_status(f"projecting by {projector.name}")
        projector.fit(pairs)
        by_method.append(projector.project(pairs))
    return [[next(filter(None, votes), None) for votes in zip(*spans, strict=True)]
            for spans in zip(*by_method, strict=True)]


def load_projector(method: str) -> Projector:
    """Load a method; only its own libraries are imported."""
    from bmtools.translation.projection.exact import ExactProjector

    return ExactProjector()


def _annotated(document: DocumentPair, found: Sequence[Projection | None],
               counts: Counter[str]) -> Record:
    """Give a translation the annotations of its source."""
    source, record = document.source, document.translation
    placed = iter([None if one is None else
                   (document.segments[at][2] + one.start, document.segments[at][2] + one.end,
                    one.score)
                   for (at, _), one in zip(document.places, found, strict=True)])
    text, keys = record["text"], {}
    if "entities" in source:
        entities = []
        for entity in source["entities"]:
            parts = [next(placed) for _ in entity.get("spans") or [entity]]
            whole = [part for part in parts if part is not None]
            counts[PROJECTED if len(whole) == len(parts) else "without a place"] += 1
            if len(whole) == len(parts):
                entities.append(_entity(entity, sorted(whole), text))
        keys["entities"] = entities
    if "relations" in source:
        ids = {entity.get("id") for entity in keys["entities"]}
        keys["relations"] = [arc for arc in source["relations"]
                             if {arc["head"], arc["tail"]} <= ids]
        counts[RELATIONS_LOST] += len(source["relations"]) - len(keys["relations"])
    if "answers" in source:
        keys["answers"] = []
        for answer in source["answers"]:
            part = next(placed) if is_located(answer) else None
            counts[PROJECTED if part else "without a place"] += 1
            if part:
                keys["answers"].append({**answer, "text": text[part[0]:part[1]],
                                        "start": part[0], "score": round(part[2], 4)})
    return record.replace(**keys)


def _entity(entity: dict[str, Any], parts: Sequence[tuple[int, int, float]],
            text: str) -> dict[str, Any]:
    """Move an entity to its places in the translation; its score is that of its weakest part."""
    moved = {**entity, "start": parts[0][0], "end": max(part[1] for part in parts),
             "text": " ".join(text[start:end] for start, end, _ in parts),
             "score": round(min(part[2] for part in parts), 4)}
    moved.pop("spans", None)
    if len(parts) > 1:
        moved["spans"] = [[start, end] for start, end, _ in parts]
    return moved
