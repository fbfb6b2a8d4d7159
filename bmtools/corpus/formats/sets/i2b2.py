"""The clinical sets of i2b2 (n2c2): 2010 as lines of concepts, 2012 and 2014 as XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from bmtools.corpus.formats.sets.mentions import REPEATED, Arc, Mention, Span, annotated
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.xml_stream import xml_elements
from bmtools.errors import DataError, RecordError
from bmtools.io.folders import member_ending, read_raw, set_files
from bmtools.io.sources import source_name, source_stem
from bmtools.records import JsonObject, Record

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

Position = tuple[int, int, int, int]
"""Line and token of the first and last word; lines count from 1, tokens from 0."""
_TEXT, _CONCEPT, _RELATION, _ASSERTION = ".txt", ".con", ".rel", ".ast"
_WHERE = r'c="(.*)" (\d{1,9}):(\d{1,9}) (\d{1,9}):(\d{1,9})'
_CONCEPTS = re.compile(rf'{_WHERE}\|\|t="([^"]*)"(?:\|\|a="([^"]*)")?')
_RELATIONS = re.compile(rf'{_WHERE}\|\|r="([^"]*)"\|\|{_WHERE}')
_HEADS = {"Tr": "treatment", "Te": "test", "PI": "problem"}  # of relations, by type
_ROOTS = ("ClinicalNarrativeTemporalAnnotation", "deIdi2b2", "root")


@reader
def i2b2_2010_records(names: Iterable[str], tally: Tally) -> Iterator[Record]:
    """Yield a record for every text, with its problems, tests, treatments and their relations.

    Files with the same name belong together, even in different folders: `.txt`, `.con`, `.rel`, and
    `.ast`, whose assertions are stored under `assertion`. Concepts are found by line and token,
    because the set spells them in lower case. All files are kept in memory.

    Source: Uzuner et al. 2011.

    Args:
        names: files, folders or zip archives.
        tally: counts annotations at their offset, moved and lost, and relations lost.
            It rejects lines that cannot be read, and lost annotations if `reject` is given.

    Raises:
        DataError: a text is missing, or two files have the same name and ending.
    """
    files: dict[str, dict[str, tuple[str, str]]] = {}
    for name in set_files(names, _TEXT, _CONCEPT, _RELATION, _ASSERTION, counts=tally.counts):
        ending, found = member_ending(name), files.setdefault(source_stem(name), {})
        if ending in found:
            raise DataError(f"{source_name(name)}: found a second {source_stem(name)}{ending}, "
                            f"after {found[ending][0]}; import the parts of the set one by one")
        found[ending] = source_name(name), read_raw(name)
    for stem, found in files.items():
        if _TEXT not in found:
            name = next(iter(found.values()))[0]
            raise DataError(f"{name}: found no {stem}{_TEXT}, expected the annotated text")
        yield _record_2010(stem, found, tally)


def _record_2010(stem: str, files: dict[str, tuple[str, str]], tally: Tally) -> Record:
    name, text = files[_TEXT]
    tokens: list[list[Span]] = []  # tokens of every line
    start = 0
    for line in text.split("\n"):
        tokens.append([(start + one.start(), start + one.end())
                       for one in re.finditer(r"\S+", line)])
        start += len(line) + 1
    assertions = {_position(match): match[7]
                  for _, match, _ in _matches(files, _ASSERTION, _CONCEPTS, tally)}
    ids: dict[Position, dict[str, str]] = {}  # by type, as concepts may share a position
    mentions: list[Mention] = []
    for place, match, line in _matches(files, _CONCEPT, _CONCEPTS, tally):
        position = _position(match)
        of_type = ids.setdefault(position, {})
        if match[6] in of_type:
            tally.counts[REPEATED] += 1
            continue
        identity = of_type[match[6]] = f"T{len(mentions) + 1}"
        more = {"assertion": assertions[position]} if assertions.get(position) else {}
        mentions.append(_mention_2010(match, text, tokens, identity, more, place, line))
    arcs = [Arc(_concept(ids.get(_position(match), {}), _HEADS.get(match[6][:2], ""), match[1]),
                _concept(ids.get(_position(match, 7), {}), "problem", match[7]),
                match[6], {}, place, line)
            for place, match, line in _matches(files, _RELATION, _RELATIONS, tally)]
    return annotated(stem, text, mentions, arcs, tally, name)


def _concept(ids: dict[str, str], kind: str, mention: str) -> str:
    """Return the id of the concept with a type at a position, or of the first concept there."""
    return ids.get(kind) or next(iter(ids.values()), mention)


def _matches(files: dict[str, tuple[str, str]], ending: str, pattern: re.Pattern[str],
             tally: Tally) -> Iterator[tuple[str, re.Match[str], str]]:
    """Yield place, match and text of a file's lines, and reject lines that do not match."""
    name, content = files.get(ending, ("", ""))
    for number, line in enumerate(content.split("\n"), 1):
        match = pattern.fullmatch(line.strip())
        if match:
            yield f"{name}:{number}", match, line
        elif line.strip():
            tally.reject(RecordError(f"{name}:{number}", f"found {line[:60]!r}, expected "
                                     'c="..." 1:0 1:2||t="...", or ||r="..."||c="..." 1:4 1:5',
                                     line))


def _position(match: re.Match[str], first: int = 1) -> Position:
    a, b, c, d = (int(match[number]) for number in range(first + 1, first + 5))
    return a, b, c, d


def _mention_2010(match: re.Match[str], text: str, tokens: list[list[Span]], identity: str,
                  more: JsonObject, place: str, line: str) -> Mention:
    first_line, first, last_line, last = _position(match)
    mention: str | None = match[1]
    try:
        start, end = tokens[first_line - 1][first][0], tokens[last_line - 1][last][1]
    except IndexError:
        start = end = 0
    if " ".join(text[start:end].lower().split()) == " ".join(match[1].lower().split()):
        mention = None
    return Mention(match[6], ((start, end),), mention, identity, more, place, line)


@reader
def i2b2_xml_records(names: Iterable[str], tally: Tally) -> Iterator[Record]:
    """Yield a record for every file of 2012 (events, times, links) or 2014 (identifiers).

    An entity's type is the attribute `type`, such as PROBLEM or PATIENT. Its element, such as EVENT
    or NAME, is stored under `tag`, and all other attributes under `attributes`. TLINKs become
    relations. Tags without offsets are counted.

    Sources: Sun et al. 2013; Stubbs and Uzuner 2015.

    Args:
        names: files, folders or zip archives; `-` for stdin.
        tally: counts annotations at their offset, moved and lost, and relations lost.
            It rejects files that cannot be read, and lost annotations if `reject` is given.
    """
    for name in set_files(names, ".xml", counts=tally.counts):
        for root in xml_elements(name, _ROOTS, _ROOTS):
            with tally.rejecting():
                yield _record_xml(root, name, tally)


def _record_xml(root: Element, name: str, tally: Tally) -> Record:
    place = f"{source_name(name)}:{root.sourceline}"
    text = root.findtext("TEXT")
    if text is None:
        raise RecordError(place, "found no <TEXT>, expected the annotated text")
    mentions, arcs = [], []
    for tag in chain.from_iterable(tags.iterdescendants() for tags in root.iterfind("TAGS")):
        where = f"{source_name(name)}:{tag.sourceline}"
        attributes = {str(key): str(value) for key, value in tag.attrib.items()}
        if "fromID" in attributes and "toID" in attributes:
            arcs.append(Arc(attributes["fromID"], attributes["toID"],
                            attributes.get("type") or str(tag.tag), {}, where, attributes))
        elif {"start", "end", "id"} <= attributes.keys():
            mentions.append(_mention_xml(str(tag.tag), attributes, where))
        else:
            tally.counts["tags without offsets left out"] += 1
    return annotated(source_stem(name), text, mentions, arcs, tally, place)


def _mention_xml(tag: str, attributes: dict[str, str], place: str) -> Mention:
    content = dict(attributes)
    identity, start, end = (attributes.pop(key) for key in ("id", "start", "end"))
    if not (start.isdecimal() and end.isdecimal()):
        raise RecordError(place, f"found the offsets {start!r} and {end!r}, expected whole numbers",
                          content)
    text = attributes.pop("text", None)
    kind = attributes.pop("TYPE", "") or attributes.pop("type", "") or tag
    more: JsonObject = {"tag": tag} if tag != kind else {}
    if kept := {key: value for key, value in attributes.items() if value}:
        more["attributes"] = kept
    return Mention(kind, ((int(start), int(end)),), text, identity, more, place, content)
