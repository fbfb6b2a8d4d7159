"""CoNLL columns of records: tokens and their tags."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bmtools.corpus.formats.settings import Scheme, Tokenization
from bmtools.records import Record

Span = tuple[int, int]
_TOKENS = {"whitespace": re.compile(r"\S+"), "punctuation": re.compile(r"\w+|[^\w\s]")}
# Prefixes of a single token, and of the first, middle and last of several.
_PREFIXES = {"iob2": "BBII", "iobes": "SBIE", "bilou": "UBIL", "io": "IIII"}
_LINES = re.compile(r"[^\r\n]+")


def conll_lines(records: Iterable[Record], scheme: Scheme = "iob2",
                tokenization: Tokenization = "whitespace",
                counts: Counter[str] | None = None) -> Iterator[str]:
    """Yield tokens and tags by tab, a blank line behind every sentence.

    A line of a record's text is a sentence. `meta.document`, or the id of a record with several
    lines, is in a -DOCSTART- line before its first sentence. A token that an entity begins or
    ends within is divided there.

    Args:
        records: their `entities` become tags.
        scheme: prefixes of the tags.
        tokenization: tokens are what white space separates, or punctuation too.
        counts: counts what the format cannot hold.
    """
    counts = Counter() if counts is None else counts
    written = None
    for record in records:
        text = record["text"]
        lines = [match.span() for match in _LINES.finditer(text) if match[0].strip()]
        document = record.get("meta", {}).get("document") or (
            record["id"] if len(lines) > 1 else None)
        if document != written and document is not None:
            yield f"-DOCSTART- ({document})\n\n"
        written = document
        entities = _flat(record.get("entities", ()), counts)
        for start, end in lines:
            tokens = list(_tokens(text, start, end, entities, tokenization, counts))
            tags = _tags(tokens, entities, _PREFIXES[scheme])
            yield "".join(f"{text[first:last]}\t{tag}\n"
                          for (first, last), tag in zip(tokens, tags, strict=True)) + "\n"
        counts["entities over several lines, tagged line by line"] += sum(
            "\n" in text[entity["start"]:entity["end"]] for entity in entities)


def _flat(entities: Iterable[dict[str, Any]], counts: Counter[str]) -> list[dict[str, Any]]:
    """Leave out entities in parts, and those that overlap another that is longer or comes first."""
    kept: list[dict[str, Any]] = []
    for entity in sorted(entities, key=lambda one: one["start"] - one["end"]):
        if entity.get("spans"):
            counts["entities in parts left out"] += 1
        elif any(entity["start"] < one["end"] and one["start"] < entity["end"] for one in kept):
            counts["entities that overlap another left out"] += 1
        else:
            kept.append(entity)
    return sorted(kept, key=lambda one: one["start"])


def _tokens(text: str, start: int, end: int, entities: Sequence[dict[str, Any]],
            tokenization: Tokenization, counts: Counter[str]) -> Iterator[Span]:
    borders = sorted({entity[key] for entity in entities for key in ("start", "end")
                      if start < entity[key] < end})
    for match in _TOKENS[tokenization].finditer(text, start, end):
        first, last = match.span()
        within = [border for border in borders if first < border < last]
        counts["tokens divided at the border of an entity"] += bool(within)
        yield from zip([first, *within], [*within, last], strict=True)


def _tags(tokens: Sequence[Span], entities: Sequence[dict[str, Any]],
          prefixes: str) -> Iterator[str]:
    """Yield the tags of a line's tokens."""
    waiting = iter(entities)
    entity = next(waiting, None)
    for number, (first, last) in enumerate(tokens):
        while entity is not None and entity["end"] <= first:
            entity = next(waiting, None)
        if entity is None or entity["start"] >= last:
            yield "O"
            continue
        opens = number == 0 or tokens[number - 1][1] <= entity["start"]
        closes = number + 1 == len(tokens) or tokens[number + 1][0] >= entity["end"]
        at = (0 if closes else 1) if opens else 3 if closes else 2
        yield f"{prefixes[at]}-{'_'.join(entity['type'].split())}"
