"""Cloze items: sentences with domain words, each converted to sentences with one masked word.

Source: Buonocore et al. 2023, whose set for mean reciprocal rank masks the biomedical words of a
sentence one at a time. People chose their words; here a list or annotated entities do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.records import MASK, Record, span_faults
from bmtools.scoring.evaluation import gather_records
from bmtools.text.case_folding import Folding
from bmtools.text.matching import Matcher
from bmtools.text.word_lists import WordList
from bmtools.vocab.words import find_words

_CHARACTERS_AT_ONCE = 1 << 20
_RECORDS_AT_ONCE = 1000
_APOSTROPHES = frozenset("'’")  # noqa: RUF001
_OFFSET_KEYS = frozenset(("start", "end", "spans"))


class _Span(NamedTuple):
    """A span to mask, in code points; `kind` is the type of its entity, or None for a term."""

    start: int
    end: int
    kind: str | None


def make_clozes(records: Iterable[Record], terms: WordList | None, reject: Reject = refuse,
                skipped: Counter[str] | None = None,
                check: Callable[[Record], None] | None = None) -> Iterator[Record]:
    """Yield a record for each word of each mention, with only this word masked, in text order.

    Mentions are the record's entities and the terms that occur as whole words, ignoring case.
    Words are defined by `find_words`: hyphens and apostrophes separate words and are kept, and
    function words within a mention count. A single letter at an apostrophe (`Crohn's`, `l'asma`)
    stays with its neighbour. Each character is masked at most once: of overlapping spans the
    longest is used, or the entity if an entity and a term are equally long.

    Each record has `target`, the masked text as written, and `type`, the type of its entity, if
    the record had no such key. Its id is `ID-m1`, `ID-m2` and so on. Keys that refer to offsets
    are left out (`entities`, `relations`, and lists of objects with offsets); other keys are kept.
    Records that already contain `[MASK]` are passed on unchanged. Some megabytes of records are
    kept in memory.

    Args:
        records: sentences; a long text is copied completely for each word.
        terms: terms to mask in addition to entities.
        reject: receives records whose entities are outside their text.
        skipped: counts records without a word to mask, and discontinuous entities, which are not
            masked.
        check: raises `RecordError` for a record whose words should not be masked.
    """
    skipped = Counter() if skipped is None else skipped
    matcher = Matcher(terms.folded, Folding(terms.rule)) if terms is not None else None
    for chunk in gather_records(records, _CHARACTERS_AT_ONCE, _RECORDS_AT_ONCE):
        terms_in: list[list[_Span]] = [[] for _ in chunk]
        if matcher is not None:
            matches = matcher.find(
                ["" if MASK in record["text"] else record["text"] for record in chunk])
            for text, start, end in zip(matches.texts.tolist(), matches.starts.tolist(),
                                        matches.ends.tolist(), strict=True):
                terms_in[text].append(_Span(start, end, None))
        for record, found in zip(chunk, terms_in, strict=True):
            if MASK in record["text"]:
                yield record
                continue
            if terms is None and "entities" not in record:
                reject(RecordError(record.place, f"key 'text': found no {MASK}, expected one; add "
                                                 "it, or give the words to mask as entities or "
                                                 f"{setting('terms')}", record))
                continue
            try:
                mentions = [*_entity_spans(record, skipped), *found]
                if check and mentions:
                    check(record)
            except RecordError as error:
                reject(error)
                continue
            spans = _choose_spans(record["text"], mentions)
            skipped["records without a word to mask skipped"] += not spans
            yield from _mask_spans(record, spans)


def _entity_spans(record: Record, skipped: Counter[str]) -> Iterator[_Span]:
    """Yield the spans of continuous entities.

    Raises:
        RecordError: if offsets are outside the text, or the entity has another text.
    """
    for number, entity in enumerate(record.get("entities", ())):
        for fault in span_faults(record["text"], entity, f"entities[{number}]"):
            raise RecordError(record.place, fault, record)
        if len(entity.get("spans", ())) > 1:
            skipped["discontinuous entities skipped"] += 1
        else:
            yield _Span(entity["start"], entity["end"], entity["type"])


def _choose_spans(text: str, mentions: Iterable[_Span]) -> list[_Span]:
    """Choose words to mask, in order and without overlaps."""
    ordered = sorted(mentions, key=_precedence)
    words = (word for mention in ordered for word in _word_spans(text, mention))
    masked = bytearray(len(text))
    chosen = []
    for span in sorted(words, key=_precedence):
        if not any(masked[span.start:span.end]):
            masked[span.start:span.end] = b"\1" * (span.end - span.start)
            chosen.append(span)
    return sorted(chosen)


def _precedence(span: _Span) -> tuple[int, bool]:
    """Sort the longest span first, and entities before terms; otherwise keep the order."""
    return span.start - span.end, span.kind is None


def _word_spans(text: str, mention: _Span) -> Iterator[_Span]:
    """Find the words of a mention; they come in order, so each is the next with its spelling."""
    end = mention.start
    # Ideographs in a mention stay together, as after segmentation.
    for word in find_words(text[mention.start:mention.end], lambda _: []):
        start = text.index(word, end)
        end = start + len(word)
        # A single letter that an apostrophe joins to another word is not a separate word.
        around = text[max(start - 1, 0):start] + text[end:end + 1]
        if len(word) > 1 or not word.isalpha() or _APOSTROPHES.isdisjoint(around):
            yield _Span(start, end, mention.kind)


def _mask_spans(record: Record, spans: Iterable[_Span]) -> Iterator[Record]:
    text, name = record["text"], record["id"]
    # Relations refer to offsets through their entities.
    rest = record.without(*(
        key for key, value in record.items() if key in ("entities", "relations") or (
            isinstance(value, list) and any(
                isinstance(one, dict) and not _OFFSET_KEYS.isdisjoint(one) for one in value))))
    for number, (start, end, kind) in enumerate(spans, 1):
        typed = {} if kind is None or "type" in record else {"type": kind}
        yield rest.replace(id=f"{name}-m{number}", text=f"{text[:start]}{MASK}{text[end:]}",
                           target=text[start:end], **typed)
