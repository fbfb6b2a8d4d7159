"""DDI-2013: drugs and their interactions, in the XML of the shared task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bmtools.corpus.formats.sets.mentions import Arc, Mention, annotated
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.xml_stream import xml_elements
from bmtools.errors import RecordError
from bmtools.io.folders import set_files
from bmtools.io.sources import source_name
from bmtools.records import Record

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_SPAN = re.compile(r"(\d{1,18})-(\d{1,18})")


@reader
def ddi_records(names: Iterable[str], tally: Tally, default_type: str = "int") -> Iterator[Record]:
    """Yield a record for every sentence, with its drugs and the pairs that interact.

    The corpus lists every pair of a sentence's drugs. Pairs with `ddi="true"` become relations, so
    the other pairs are two entities without a relation. Inclusive ends of offsets become exclusive.

    Source: Herrero-Zazo et al. 2013.

    Args:
        names: files, folders or zip archives; `-` for stdin.
        default_type: type of an interacting pair without a type; the corpus uses `int` for an
            interaction without further information.
        tally: counts pairs, interacting pairs, repairs and omissions.
            It rejects sentences that cannot be read.
    """
    for name in set_files(names, ".xml", counts=tally.counts):
        sentences = xml_elements(name, ("document",), ("sentence",))
        for number, sentence in enumerate(sentences):
            tally.counts["documents"] += number == 0
            with tally.rejecting():
                record = _record(sentence, source_name(name), default_type, tally)
                if record["text"].strip():
                    yield record
                else:
                    tally.counts["sentences without text left out"] += 1


def _record(sentence: Element, name: str, default_type: str, tally: Tally) -> Record:
    place = f"{name}:{sentence.sourceline}"
    text, counts = _get(sentence, "text", name), tally.counts
    mentions = [_mention(element, name) for element in sentence.iterfind("entity")]
    arcs = []
    for pair in sentence.iterfind("pair"):
        counts["pairs"] += 1
        if _get(pair, "ddi", name) == "true":
            kind = pair.get("type")
            counts["pairs that interact"] += 1
            counts[f"of them without a type, read as {default_type!r}"] += kind is None
            arcs.append(Arc(_get(pair, "e1", name), _get(pair, "e2", name), kind or default_type,
                            place=f"{name}:{pair.sourceline}", content=dict(pair.attrib)))
    document = sentence.getparent()
    meta = {"meta": {"document": document.get("id")}} if document is not None and document.get(
        "id") else {}
    return annotated(_get(sentence, "id", name), text, mentions, arcs, tally, place, **meta)


def _mention(entity: Element, name: str) -> Mention:
    place, content = f"{name}:{entity.sourceline}", dict(entity.attrib)
    offsets = _get(entity, "charOffset", name)
    matches = [_SPAN.fullmatch(part) for part in offsets.split(";")]
    if not all(matches):
        raise RecordError(place, f"found charOffset {offsets!r}, expected FIRST-LAST, or several "
                          "separated by semicolons", content)
    spans = tuple((int(match[1]), int(match[2]) + 1) for match in matches if match)
    return Mention(_get(entity, "type", name), spans, _get(entity, "text", name),
                   _get(entity, "id", name), place=place, content=content)


def _get(element: Element, key: str, name: str) -> str:
    value = element.get(key)
    if value is None or (key == "id" and not value):
        raise RecordError(f"{name}:{element.sourceline}", f"found <{element.tag}> without {key}, "
                          "expected one", dict(element.attrib))
    return str(value)
