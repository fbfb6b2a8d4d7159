"""Stand-off annotation: a file of texts and a file of mentions with offsets."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from bmtools.errors import RecordError, Reject, refuse
from bmtools.io.jsonl import read_lines, source_name
from bmtools.records import Record

Lose = Callable[[RecordError], None]
MATCHED = "annotations at their offset"
MOVED = "moved to the nearest occurrence of their mention"
LOST = "annotations lost"
REPEATED = "repeated annotations left out"
# Two texts in one field, as a JSON object leaves them when it is quoted as CSV.
_TITLE_ABSTRACT = re.compile(
    r'"(?P<title>.*?)"", ""(?:Astratto|Abstract)"": ""(?P<abstract>.*?)(?:""\}")?', re.DOTALL)
_SHORT = 5  # characters
_OFFSET = re.compile(r"-?\d+")
# A marker put into the text for its translation, and left in the mention.
_MARKER = re.compile(r"^\^+_\w+_ ?> *")


@dataclass(frozen=True)
class _Annotation:
    """A line of an annotation file.

    Args:
        start: offset in code points, from the start of its part.
        end: the end of the mention, exclusive.
        in_abstract: whether the offset counts from the abstract and not from the whole text.
        place: of the line, as `file:line`.
        line: the line itself.
    """

    document: str
    start: int
    end: int
    mention: str
    type: str
    in_abstract: bool
    place: str = field(compare=False)
    line: str = field(compare=False)


def standoff_records(corpora: Iterable[str], annotations: Iterable[str],
                     counts: Counter[str] | None = None, reject: Reject = refuse,
                     lose: Lose | None = None) -> Iterator[Record]:
    """Yield every text of `id|text` files with its annotations as entities.

    An annotation whose mention is not at its offset moves to the nearest occurrence without
    another annotation, in its own letters first and then in any case; a short one prefers whole
    words. Without any it is lost, and its document stays. White space at the ends of a mention is
    removed. A text in two parts, `"title"", ""Abstract"": ""abstract`, becomes title, a space and
    abstract. Bars at the end of a line are dropped, and so is a document that repeats an earlier
    one. All annotations are held in memory, the texts one at a time.

    Args:
        corpora: files of texts; `-` for stdin.
        annotations: files of mentions, by tab: `id start end mention type`, or with `T` or `A`
            after the id where offsets count from the title or from the abstract.
        counts: counts matched, moved, lost and repeated annotations.
        reject: receives lines that cannot be read.
        lose: receives annotations without an occurrence; they are dropped by default.
    """
    counts = Counter() if counts is None else counts

    def lose_annotation(annotation: _Annotation, reason: str) -> None:
        counts[LOST] += 1
        if lose is not None:
            lose(RecordError(annotation.place, reason, annotation.line))

    waiting = _by_document(annotations, counts, reject)
    seen: dict[str, bytes] = {}
    for place, line in _lines(corpora):
        document, bar, content = line.partition("|")
        if not bar or not document.strip():
            reject(RecordError(place, f"found {line[:40]!r}, expected id|text", line))
            continue
        text, abstract = content.rstrip("|"), 0
        if parts := _TITLE_ABSTRACT.fullmatch(text):
            text, abstract = f"{parts['title']} {parts['abstract']}", len(parts["title"]) + 1
        digest = blake2b(text.encode()).digest()
        if seen.get(document) == digest:
            counts["repeated documents left out"] += 1
            continue
        seen[document] = digest
        entities = _entities(text, abstract, waiting.get(document, ()), counts, lose_annotation)
        yield Record(id=document, text=text, entities=entities, place=place)
    for document, unmatched in waiting.items():
        for annotation in unmatched if document not in seen else ():
            lose_annotation(annotation, f"found the document {document!r}, which no file of texts "
                                        "contains")


def _lines(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines that are not blank, each after its `file:line`."""
    for name in names:
        for number, line in read_lines(name):
            if line.strip():
                yield f"{source_name(name)}:{number}", line


def _by_document(names: Iterable[str], counts: Counter[str],
                 reject: Reject) -> dict[str, dict[_Annotation, None]]:
    """Read all annotations in order; one that repeats another to the letter is left out."""
    found: dict[str, dict[_Annotation, None]] = defaultdict(dict)
    for place, line in _lines(names):
        try:
            annotation = _annotation(line, place)
        except RecordError as error:
            reject(error)
            continue
        counts[REPEATED] += annotation in found[annotation.document]
        found[annotation.document].setdefault(annotation)
    return found


def _annotation(line: str, place: str) -> _Annotation:
    fields = line.split("\t")
    part = fields.pop(1) if len(fields) == 6 and fields[1] in ("T", "A") else "T"
    if len(fields) != 5:
        raise RecordError(place, f"found {len(fields)} columns in {line[:40]!r}, expected id, "
                                 "start, end, mention and type by tab, with T or A after the id "
                                 "or without", line)
    document, start, end, mention, kind = fields
    if not (_OFFSET.fullmatch(start) and _OFFSET.fullmatch(end)):
        raise RecordError(place, f"found the offsets {start!r} and {end!r}, expected whole numbers",
                          line)
    if not kind.strip():
        raise RecordError(place, "found no type in the last column, expected one", line)
    return _Annotation(document, int(start), int(end), mention, kind.strip(), part == "A", place,
                       line)


def _entities(text: str, abstract: int, annotations: Iterable[_Annotation], counts: Counter[str],
              lose: Callable[[_Annotation, str], None]) -> list[dict[str, Any]]:
    """Match the annotations of one text: those at their offset first, then the others."""
    matched: dict[tuple[int, int], list[str]] = defaultdict(list)
    unmatched = []
    for annotation in annotations:
        shift = abstract if annotation.in_abstract else 0
        start, end = annotation.start + shift, annotation.end + shift
        mention = annotation.mention
        if not mention.strip():
            lose(annotation, "found a mention of white space only, expected a word")
        elif 0 <= start < end and text[start:end] == mention:
            counts[MATCHED] += 1
            first = start + len(mention) - len(mention.lstrip())
            matched[first, start + len(mention.rstrip())].append(annotation.type)
        else:
            unmatched.append((annotation, start))
    for annotation, start in unmatched:
        spans = _occurrences(text, annotation.mention)
        free = [span for span in spans if span not in matched]
        if free:
            counts[MOVED] += 1
            nearest = min(free, key=lambda span: (_is_scrap(text, *span), abs(span[0] - start)))
            matched[nearest].append(annotation.type)
        else:
            why = "every occurrence is annotated already" if spans else \
                "the text does not contain it"
            lose(annotation, f"found the mention {annotation.mention!r} at {annotation.start}, "
                             f"but {why}")
    counts[REPEATED] += sum(len(kinds) - len(set(kinds)) for kinds in matched.values())
    return [{"start": start, "end": end, "type": kind, "text": text[start:end]}
            for (start, end), kinds in sorted(matched.items()) for kind in dict.fromkeys(kinds)]


def _occurrences(text: str, mention: str) -> list[tuple[int, int]]:
    """Find a mention in a text: as it is, else in any case, else without its marker."""
    plain = mention.strip()
    for candidate in (plain, _MARKER.sub("", plain)):
        for flags in (re.NOFLAG, re.IGNORECASE):
            found = re.finditer(re.escape(candidate), text, flags)
            spans = [match.span() for match in found if match.start() < match.end()]
            if spans:
                return spans
    return []


def _is_scrap(text: str, start: int, end: int) -> bool:
    """Return whether a short mention is only a part of a word there, as `Se` is in `Senza`.

    A long one may well be a part: translation glues words, as in `doxorubicinaindotta`.
    """
    if end - start >= _SHORT:
        return False
    joined_before = start > 0 and text[start - 1:start + 1].isalnum()
    return joined_before or (end < len(text) and text[end - 1:end + 1].isalnum())
