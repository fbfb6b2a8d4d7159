"""Sentences with domain words in them, made into sentences with one word hidden each.

Source: Buonocore et al. 2023, whose set for mean reciprocal rank hides the biomedical words of a
sentence one at a time. There people chose the words; here a list or marked entities do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

from bmtools.errors import RecordError, Reject, refuse
from bmtools.records import MASK, Record, span_faults
from bmtools.search.case_folding import CASELESS, Folding
from bmtools.search.matching import Matcher
from bmtools.search.word_lists import WordList as Terms
from bmtools.search.word_lists import read_word_list
from bmtools.vocab.words import find_words

Unit = Literal["word", "mention"]

_CHARACTERS_AT_ONCE = 1 << 20
_RECORDS_AT_ONCE = 1000
_APOSTROPHES = frozenset("'’")  # noqa: RUF001
_PLACES = frozenset(("start", "end", "spans"))


class _Span(NamedTuple):
    """A stretch to hide, in code points; `kind` is its entity's type, None for a term."""

    start: int
    end: int
    kind: str | None


def read_terms(name: str) -> Terms:
    """Read terms from a file, one a line, to be found in any case; see `read_word_list`."""
    return read_word_list(name, CASELESS)


def make_clozes(records: Iterable[Record], terms: Terms | None, unit: Unit = "word",
                reject: Reject = refuse, counts: Counter[str] | None = None) -> Iterator[Record]:
    """Hide each word of each mention once, alone: a record for each, in order of place.

    Mentions are the record's entities and the terms that stand between borders of words, in any
    case. A word is what `find_words` takes for one, so hyphens and apostrophes stand between words
    and stay, and function words within a mention count; a single letter at an apostrophe
    (`Crohn's`, `l'asma`) is left with its neighbour. Nothing is hidden twice: of stretches that
    overlap the longest counts, an entity before a term.

    Each record has `target`, the hidden text as it stands there, and `type`, that of its entity,
    if it had no such key. Its id is `ID-m1`, `ID-m2` and so on. What refers to places of the text
    is left out (`entities`, `relations`, and lists of objects with offsets); other keys stay.
    Records that hold `[MASK]` already pass as they are. Some megabytes of records are held.

    Args:
        records: sentences; long texts are copied whole for each word.
        terms: what to look for beside entities.
        unit: word, or mention to hide whole mentions.
        reject: receives records whose entities lie outside their text.
        counts: counts the records in which nothing was found, and the entities of several parts,
            which are passed over.
    """
    counts = Counter() if counts is None else counts
    matcher = Matcher(terms.folded, Folding(terms.rule)) if terms is not None else None
    for chunk in _chunks(records):
        texts = ["" if MASK in record["text"] else record["text"] for record in chunk]
        for record, found in zip(chunk, _terms_in(texts, matcher), strict=True):
            if MASK in record["text"]:
                yield record
                continue
            if terms is None and "entities" not in record:
                reject(RecordError(record.place, f"key 'text': found no {MASK}, expected one; or "
                                                 "mark what to mask: entities, or --terms", record))
                continue
            try:
                mentions = [*_entities(record, counts), *found]
            except RecordError as error:
                reject(error)
                continue
            places = _places(record["text"], mentions, unit)
            counts["records without a word to hide left out"] += not places
            yield from _maskings(record, places)


def _chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    chunk: list[Record] = []
    characters = 0
    for record in records:
        chunk.append(record)
        characters += len(record["text"])
        if len(chunk) == _RECORDS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _terms_in(texts: Sequence[str], matcher: Matcher | None) -> list[list[_Span]]:
    """Find terms in each text, those inside others included."""
    found: list[list[_Span]] = [[] for _ in texts]
    if matcher is not None:
        matches = matcher.find(texts)
        for text, start, end in zip(matches.texts.tolist(), matches.starts.tolist(),
                                    matches.ends.tolist(), strict=True):
            found[text].append(_Span(start, end, None))
    return found


def _entities(record: Record, counts: Counter[str]) -> Iterator[_Span]:
    """Yield the entities of one part.

    Raises:
        RecordError: offsets outside the text, or other text than the entity names.
    """
    for number, entity in enumerate(record.get("entities", ())):
        for fault in span_faults(record["text"], entity, f"entities[{number}]"):
            raise RecordError(record.place, fault, record)
        if len(entity.get("spans", ())) > 1:
            counts["entities of several parts passed over"] += 1
        else:
            yield _Span(entity["start"], entity["end"], entity["type"])


def _places(text: str, mentions: Iterable[_Span], unit: Unit) -> list[_Span]:
    """Choose what to hide, in order; nothing overlaps."""
    ordered = sorted(mentions, key=_precedence)
    if unit == "word":
        ordered = sorted(chain.from_iterable(_words(text, mention) for mention in ordered),
                         key=_precedence)
    else:
        ordered = [_trimmed(text, mention) for mention in ordered
                   if find_words(text[mention.start:mention.end])]
    hidden = bytearray(len(text))
    chosen = []
    for place in ordered:
        if not any(hidden[place.start:place.end]):
            hidden[place.start:place.end] = b"\1" * (place.end - place.start)
            chosen.append(place)
    return sorted(chosen)


def _precedence(place: _Span) -> tuple[int, bool]:
    """The longest first, an entity before a term; otherwise the order stays."""
    return place.start - place.end, place.kind is None


def _words(text: str, mention: _Span) -> Iterator[_Span]:
    """Find the words of a mention; words come in order, so each is the next of its spelling."""
    end = mention.start
    for word in find_words(text[mention.start:mention.end]):
        start = text.index(word, end)
        end = start + len(word)
        if not _is_clitic(text, start, end):
            yield _Span(start, end, mention.kind)


def _is_clitic(text: str, start: int, end: int) -> bool:
    """Whether a word is a single letter that an apostrophe ties to another word."""
    around = text[max(start - 1, 0):start] + text[end:end + 1]
    return (end - start == 1 and text[start].isalpha()
            and not _APOSTROPHES.isdisjoint(around))


def _trimmed(text: str, mention: _Span) -> _Span:
    """Leave white space around a mention in the text."""
    within = text[mention.start:mention.end]
    start = mention.start + len(within) - len(within.lstrip())
    return mention._replace(start=start, end=start + len(within.strip()))


def _maskings(record: Record, places: Iterable[_Span]) -> Iterator[Record]:
    text, name = record["text"], record["id"]
    rest = record.without(*(key for key, value in record.items() if _has_places(key, value)))
    for number, (start, end, kind) in enumerate(places, 1):
        typed = {} if kind is None or "type" in record else {"type": kind}
        yield rest.replace(id=f"{name}-m{number}", text=f"{text[:start]}{MASK}{text[end:]}",
                           target=text[start:end], **typed)


def _has_places(key: str, value: Any) -> bool:
    """Whether a key speaks of places in the text; relations do, by the entities that they name."""
    return key in ("entities", "relations") or (isinstance(value, list) and any(
        isinstance(one, dict) and not _PLACES.isdisjoint(one) for one in value))
