"""Conversion of annotated records to sentence pairs, and of projected spans to annotations.

Answers of questions are prepared before the projection and completed after it.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from math import inf

import msgspec

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.records import JsonObject, Record, check, distinct
from bmtools.text.segment import sentence_spans
from bmtools.translation.engines.engine import plain_line
from bmtools.translation.projection.align import MOST_WORD_PAIRS
from bmtools.translation.projection.confidence import Vote
from bmtools.translation.projection.links import word_spans
from bmtools.translation.projection.pairs import Projection, SentencePair, Span
from bmtools.translation.projection.settings import Pairing

UNANSWERABLE = "questions without an answer, kept as such"
LOST = "questions left out, they lost all answers"
TRANSLATED = "exact answers in the words of the translated texts"
_ORIGINAL = "original"  # key of an answer during projection: its words in the source
NOT_FOUND = "annotations lost: no method found them"
UNTRANSLATED = "annotations lost: their sentence has no translation"
UNSURE = "annotations lost: below the minimum confidence"
DECIDED = "annotations removed by a person's decision"
UNLOCATED = "annotations lost: an answer without an offset"
RELATIONS_LOST = "relations lost with their entities"
_LONG = 600  # characters; shorter texts are not split
BLOCK = 10_000_000
"""Word pairs that are aligned together: about 14,000 sentence pairs, which need 1.3 GB."""
_PAIR_COST = 100  # fixed cost of a sentence pair, in word pairs
Segment = tuple[int, int, int, int]
"""Start and end in the source, start and end in the translation."""


@dataclass(frozen=True)
class DocumentPair:
    """A record and its translation, as sentence pairs.

    Args:
        source: record with annotations.
        translation: translation of the source, without annotations.
        segments: sentences; sentences that share an annotation form one segment.
        pairs: texts and spans of the segments.
        places: for each annotated span, its segment and its number in the segment.
    """

    source: Record
    translation: Record
    segments: list[Segment]
    pairs: list[SentencePair]
    places: list[Span]

    @property
    def languages(self) -> tuple[str, str]:
        """Languages of source and translation; empty if a record does not state its language."""
        return self.source.get("lang") or "", self.translation.get("lang") or ""


def blocks(documents: Iterable[DocumentPair], most: int = BLOCK) -> Iterator[list[DocumentPair]]:
    """Group documents into blocks of similar size; the last two blocks share the rest equally.

    Args:
        documents: documents of a corpus; a small corpus is one block.
        most: word pairs per block, counted within sentence pairs.
    """
    waiting: list[DocumentPair] = []
    costs: list[int] = []  # cumulative
    for document in documents:
        waiting.append(document)
        costs.append((costs or [0])[-1] + sum(map(_cost, document.pairs)))
        if costs[-1] >= 2 * most:
            cut = bisect_left(costs, most) + 1
            block, waiting = waiting[:cut], waiting[cut:]
            costs = [cost - costs[cut - 1] for cost in costs[cut:]]
            yield block
    cut = bisect_left(costs, costs[-1] / 2) + 1 if costs and costs[-1] > most else len(costs)
    yield from filter(None, (waiting[:cut], waiting[cut:]))


def _cost(pair: SentencePair) -> int:
    """Count word pairs; sentence pairs that alignment leaves out do not count."""
    size = len(word_spans(pair.source)) * len(word_spans(pair.target))
    return _PAIR_COST + (size if size <= MOST_WORD_PAIRS else 0)


def annotated_spans(record: Record) -> list[Span]:
    """Return the spans of entities, part by part, and of answers with an offset."""
    spans = [(start, end) for entity in record.get("entities", ())
             for start, end in entity.get("spans") or [(entity["start"], entity["end"])]]
    return spans + [(answer["start"], answer["start"] + len(answer["text"]))
                    for answer in record.get("answers", ()) if is_located(answer)]


def is_located(answer: JsonObject) -> bool:
    """Return whether an answer has an offset, and a word at it."""
    return answer.get("start") is not None and bool(answer["text"])


def pair_document(source: Record, translation: Record,
                  mentions: Mapping[str, str] | None = None) -> DocumentPair:
    """Split a record and its translation into sentence pairs.

    Args:
        source: record with annotations.
        translation: translation of the source.
        mentions: translations of annotated phrases on their own, by the phrase from `plain_line`.
    """
    spans = annotated_spans(source)
    # No sentence may end inside an annotation, even between its parts.
    hulls = [(entity["start"], entity["end"]) for entity in source.get("entities", ())] + \
        annotated_spans(source.without("entities"))
    segments = _joined(_segments(source, translation), hulls)
    inside: list[list[Span]] = [[] for _ in segments]
    starts = [segment[0] for segment in segments]
    places = []
    for start, end in spans:
        at = bisect_right(starts, start) - 1
        places.append((at, len(inside[at])))
        inside[at].append((start - segments[at][0], end - segments[at][0]))
    pairs = []
    for (start, end, first, last), own in zip(segments, inside, strict=True):
        text = source["text"][start:end]
        words = [plain_line(text[slice(*span)]) for span in own] if mentions else []
        pairs.append(SentencePair(text, translation["text"][first:last], tuple(own),
                                  tuple((mentions or {}).get(one, "") for one in words)))
    return DocumentPair(source, translation, segments, pairs, places)


def _segments(source: Record, translation: Record) -> list[Segment]:
    """Return the sentence pairs that the translation recorded, or split both texts.

    Short texts, and texts that split into different numbers of sentences, are one pair.
    """
    left, right = source["text"], translation["text"]
    found: object = translation.get("meta", {})
    for key in ("translation", "sentence_spans", "text"):
        found = found.get(key) if isinstance(found, dict) else None
    with suppress(msgspec.ValidationError):
        noted = msgspec.convert(found, list[Segment])
        if noted and _are_parts([one[:2] for one in noted], left) and \
                _are_parts([one[2:] for one in noted], right):
            return noted
    return list(_split_alike(source, translation)) if len(left) >= _LONG else \
        [(0, len(left), 0, len(right))]


def _split_alike(source: Record, translation: Record) -> Iterator[Segment]:
    """Split both texts into lines and sentences, as far as their numbers are equal."""
    left, right = source["text"], translation["text"]
    lines = [[match.span() for match in re.finditer(r"[^\n]+", text)] for text in (left, right)]
    if len(lines[0]) != len(lines[1]):
        lines = [[(0, len(left))], [(0, len(right))]]
    for one, other in zip(*lines, strict=True):
        sentences, translated = ([(start + first, start + last) for first, last in sentence_spans(
            record["text"][start:end], record.get("lang") or "en", None)]
            for record, (start, end) in ((source, one), (translation, other)))
        if len(sentences) != len(translated):
            sentences, translated = [one], [other]
        yield from ((*first, *second) for first, second in zip(sentences, translated, strict=True))


def _are_parts(spans: Sequence[tuple[int, ...]], text: str) -> bool:
    """Return whether spans follow each other in a text and contain all of its words."""
    borders = [0, *(border for span in spans for border in span), len(text)]
    return borders == sorted(borders) and not any(
        text[end:start].strip() for end, start in zip(borders[::2], borders[1::2], strict=True))


def _joined(segments: Sequence[Segment], hulls: Iterable[Span]) -> list[Segment]:
    """Join the sentences that share an annotation."""
    joined: list[list[float]] = []
    for start, end, first, last in sorted([*segments, *((*hull, inf, 0) for hull in hulls)]):
        if joined and start < joined[-1][1]:
            united = joined[-1]
            united[1:] = max(united[1], end), min(united[2], first), max(united[3], last)
        else:
            joined.append([start, end, first, last])
    return [(int(start), int(end), int(min(first, last)), int(last))
            for start, end, first, last in joined]


def pair_records(sources: Iterable[Record], translations: Iterable[Record], reject: Reject,
                 pairing: Pairing = "id") -> Iterator[tuple[Record, Record]]:
    """Pair records with their translations, in the order of the sources.

    Both are read in parallel. Memory holds the ids and, compressed, the translations that come
    before their source. If there are no sources, the translations are not rejected, because the
    reader already reports empty input.

    Args:
        sources: records with annotations.
        translations: their translations.
        reject: receives records that are missing on the other side, and records with repeated ids.
        pairing: by id or by order.
    """
    if pairing == "order":
        for source, other in zip_longest(sources, translations):
            if source is not None and other is not None:
                yield source, other
            else:
                alone = source or other
                reject(RecordError(alone.place, f"found the record {alone['id']!r} after the last "
                                   "of the other files, expected as many translations as records",
                                   alone))
        return
    waiting: dict[str, bytes] = {}
    names: tuple[dict[str, None], dict[str, None]] = {}, {}
    others = _noting(distinct(translations, reject), names[1])
    for record in _noting(distinct(sources, reject), names[0]):
        translation = _unpacked(waiting.pop(record["id"], None))
        while translation is None and (other := next(others, None)):
            if other["id"] == record["id"]:
                translation = other
            else:
                waiting[other["id"]] = _packed(other)
        if translation is None:
            files = ", ".join(names[1])
            reject(RecordError(record.place, f"found no translation with the id {record['id']!r}"
                               f"{files and f' in {files}'}; add it, remove the record, or pair "
                               f"both files with {setting('pairing')} order", record))
        else:
            yield record, translation
    for rest in chain(map(_unpacked, waiting.values()), others):
        if names[0] and rest:
            reject(RecordError(rest.place, f"found a translation with the id {rest['id']!r}, but "
                               f"no such record in {', '.join(names[0])}; remove it", rest))


def _noting(records: Iterable[Record], names: dict[str, None]) -> Iterator[Record]:
    """Yield records, and note the names of their files."""
    for record in records:
        names[record.place.rpartition(":")[0]] = None
        yield record


def _packed(record: Record) -> bytes:
    """Compress a record that waits for its source."""
    return zlib.compress(msgspec.json.encode((record, record.place)), 1)


def _unpacked(content: bytes | None) -> Record | None:
    if content is None:
        return None
    record, place = msgspec.json.decode(zlib.decompress(content))
    return Record(record, place=place)


def annotated(document: DocumentPair, votes: Sequence[Sequence[Vote]], min_confidence: float,
              lost: Counter[str]) -> Record:
    """Return a translation with the annotations of its source.

    Args:
        document: the source with its translation.
        votes: votes on each span in each of its pairs.
        min_confidence: minimum confidence of the spans to keep.
        lost: updated with the number of lost annotations by cause.
    """
    source, text = document.source, document.translation["text"]
    parts = iter(_parts(document, votes, min_confidence))
    keys: JsonObject = {}
    if "entities" in source:
        found = [_moved(entity, [next(parts) for _ in entity.get("spans") or [entity]], text, lost)
                 for entity in source["entities"]]
        keys["entities"] = sorted(filter(None, found), key=lambda one: (one["start"], one["end"]))
    if "relations" in source:
        ids = {entity.get("id") for entity in keys.get("entities", ())}
        keys["relations"] = [arc for arc in source["relations"]
                             if arc["head"] in ids and arc["tail"] in ids]
        lost.update({RELATIONS_LOST: len(source["relations"]) - len(keys["relations"])})
    if "answers" in source:
        found = [_moved(answer, [next(parts) if is_located(answer) else UNLOCATED], text, lost)
                 for answer in source["answers"]]
        keys["answers"] = [{key: value for key, value in one.items() if key != "end"}
                           for one in found if one]
    assert not list(parts)
    record = document.translation.replace(**keys)
    check(record)
    for key in [key for key, number in lost.items() if not number]:
        del lost[key]
    return record


def _parts(document: DocumentPair, votes: Sequence[Sequence[Vote]],
           min_confidence: float) -> Iterator[Projection | str]:
    """Yield the place of each annotated span in the translation, or the cause of its loss."""
    for at, number in document.places:
        place, offset = votes[at][number].place, document.segments[at][2]
        if votes[at][number].is_decided and place is None:
            yield DECIDED
        elif place is None:
            yield NOT_FOUND if document.pairs[at].target.strip() else UNTRANSLATED
        elif place.score < min_confidence:
            yield UNSURE
        else:
            yield Projection(offset + place.start, offset + place.end, place.score)


def _moved(annotation: JsonObject, parts: Sequence[Projection | str], text: str,
           lost: Counter[str]) -> JsonObject | None:
    """Move an annotation to its places; if a part has no place, count the cause and return None.

    Its score is the lowest score of its parts. Parts that touch or overlap become one.
    """
    cause = next((part for part in parts if isinstance(part, str)), None)
    if cause is not None:
        lost[cause] += 1
        return None
    spans: list[list[int]] = []
    places = [part for part in parts if isinstance(part, Projection)]
    for start, end in sorted((part.start, part.end) for part in places):
        if spans and start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    moved = {**annotation, "start": spans[0][0], "end": spans[-1][1],
             "text": " ".join(text[start:end] for start, end in spans),
             "score": round(min(part.score for part in places), 4)}
    moved.pop("spans", None)
    return {**moved, "spans": spans} if len(spans) > 1 else moved


def prepare_answers(record: Record) -> Record:
    """Add offsets to the answers of a question, for the projection.

    An answer without an offset gets the offset of its first occurrence as whole words.
    """
    if not record.get("answers"):
        return record
    answers: dict[tuple[int | None, str], JsonObject] = {}
    for answer in record["answers"]:
        words, start = answer["text"], answer.get("start")
        if start is None and words:
            found = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", record["text"])
            start = found and found.start()
        prepared = {**answer, _ORIGINAL: words}
        answers.setdefault((start, words), prepared if start is None else
                           {**prepared, "start": start})
    return record.replace(answers=list(answers.values()))


def settle_questions(projected: Iterable[tuple[Record, Record]], counts: Counter[str],
                     reject: Reject = refuse) -> Iterator[Record]:
    """Complete questions after projection; other records are not changed.

    A question that has lost all of its answers is left out, because it would look unanswerable. A
    question that had no answers is kept. The exact answers of BioASQ's questions, against which
    answers are scored, are replaced by the projected answers in any text of the same question. An
    exact answer that no text contains is not changed.

    Args:
        projected: sources, from `prepare_answers`, and their translations with answers. Records
            from the first one with exact answers onwards are kept in memory.
        counts: counts questions without an answer and questions left out.
        reject: receives translations without their question and, unless it is `refuse`, the
            questions left out.
    """
    known: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    waiting: list[Record] = []
    for source, record in projected:
        is_of_several = {"question", "exact_answer"} & record.get("meta", {}).keys()
        for answer in record.get("answers", ()):
            if is_of_several and _ORIGINAL in answer:
                known[_question(record)][answer[_ORIGINAL].casefold()].append(answer["text"])
        if source.get("question") and not record.get("question"):
            reject(RecordError(record.place, "key 'question' is missing; add the translation "
                               f"of {source['question']!r:.80}", record))
        elif source.get("question") and source.get("answers") and not record["answers"]:
            counts[LOST] += 1
            if reject is not refuse:
                reject(RecordError(record.place, "found none of the answers "
                                   f"{[one['text'] for one in source['answers']]!r:.80} in the "
                                   "translation", record))
        else:
            counts[UNANSWERABLE] += "question" in source and source.get("answers") == []
            if waiting or record.get("meta", {}).get("exact_answer"):
                waiting.append(record)
            else:
                yield _settled(record, {}, counts)
    for record in waiting:
        yield _settled(record, known.get(_question(record), {}), counts)


def _question(record: Record) -> str:
    return str(record.get("meta", {}).get("question", record["id"]))


def _settled(record: Record, known: Mapping[str, Sequence[str]], counts: Counter[str]) -> Record:
    """Remove repeated answers, and translate exact answers."""
    changed: JsonObject = {}
    if record.get("answers"):
        distinct = {(one["start"], one["text"]): one for one in reversed(record["answers"])}
        changed["answers"] = [{key: value for key, value in one.items() if key != _ORIGINAL}
                              for one in reversed(distinct.values())]
    meta = record.get("meta", {})
    exact = meta.get("exact_answer")
    if exact and isinstance(exact, list):
        items = [one if isinstance(one, list) else [one] for one in exact]
        words = [_spellings(item, known) for item in items]
        counts[TRANSLATED] += sum(str(one).casefold() in known for item in items for one in item)
        changed["meta"] = {**meta, "exact_answer": words if isinstance(exact[0], list) else
                           _spellings([one for item in words for one in item], {})}
    return record.replace(**changed)


def _spellings(item: Sequence[object], known: Mapping[str, Sequence[str]]) -> list[object]:
    found = [word for one in item for word in known.get(str(one).casefold(), [one])]
    return [word for at, word in enumerate(found) if word not in found[:at]]
