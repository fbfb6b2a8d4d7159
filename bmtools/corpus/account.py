"""Accounts of characters: every one of a source is in a record, or in a class that was left out.

The reader of a format takes no part in its account. The source is read a second time, by another
parser, into pieces of text; those that are in no class of what is left out are then found in the
records in their order, white space aside. So text that a reader drops, doubles or makes up shows.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html.entities import html5
from itertools import takewhile
from operator import eq
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError, XMLParser, iterparse

from bmtools.errors import DataError, setting
from bmtools.io.sources import open_bytes, source_name
from bmtools.records import Record

IN_RECORDS = "characters in records"
LEFT_OUT = "characters left out as {}"
ADDED = "characters added"
STRAY = "stray text"
_SAMPLE = 60  # characters
_MOST_WAYS = 32  # to read a record
# A reader may write the exponent of `10<sup>6</sup>` by characters of its own.
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻\u2212\u2013", "0123456789+---")
Path = Sequence[str]
Attributes = Mapping[str, str]


class Piece(NamedTuple):
    """Text of a source that records should have.

    Args:
        place: file and path of elements.
        text: without white space.
        is_added: whether a reader may write it though it stands in no text node.
        is_optional: whether it may be in a record or not, as brackets around a title.
        left_out: class of text that is in no record; empty for all other.
    """

    place: str
    text: str
    is_added: bool = False
    is_optional: bool = False
    left_out: str = ""

    def without_ends(self, signs: str) -> Iterator[Piece]:
        """Yield the signs at both ends one by one, optional, and what is between them."""
        first = len(self.text) - len(self.text.lstrip(signs))
        last = max(first, len(self.text.rstrip(signs)))
        for text in (*self.text[:first], self.text[first:last], *self.text[last:]):
            yield self._replace(text=text, is_optional=self.is_optional or text in signs)


def squeezed(text: str) -> str:
    """Remove white space, which readers set as they like, and raise or lower no number."""
    text = "".join(text.split())
    return text if text.isascii() else text.translate(_PLAIN)


def accounted(records: Iterable[Record], pieces: Iterable[Piece], name: str,
              counts: Counter[str], optional_are: str = "") -> Iterator[Record]:
    """Yield the records of a source, and prove that they hold its text, in order and once.

    Args:
        records: as the reader yields them.
        pieces: of the source.
        name: of the source in messages.
        counts: counts the characters in records, those left out, and those that readers added.
        optional_are: class of optional pieces that are in no record.

    Raises:
        DataError: text in no record, or text of a record that the source does not have there.
    """
    waiting, text = iter(records), ""
    # As some text may be absent, a record can be read in several ways for a while: how far each of
    # them has read the text, and what it counted.
    ways = {0: Counter[str]()}

    def take(least: int) -> Iterator[Record]:
        nonlocal text, ways
        while len(text) < max(ways) + least and (record := next(waiting, None)):
            yield record
            read = min(ways)
            text = text[read:] + squeezed(record.get("title", "") + record["text"])
            ways = {at - read: found for at, found in ways.items()}

    yield from take(1)  # before another parser sees it, the reader finds a file to be whole
    for piece in pieces:
        size = len(piece.text)
        if piece.left_out and size and not piece.is_added:
            counts[LEFT_OUT.format(piece.left_out)] += size
        elif size and not piece.left_out:
            yield from take(size)
            read = {at + size: found + Counter({ADDED if piece.is_added else IN_RECORDS: size})
                    for at, found in ways.items() if text.startswith(piece.text, at)}
            if piece.is_added or piece.is_optional:
                absent = Counter({} if piece.is_added else {LEFT_OUT.format(optional_are): size})
                read |= {at: found + absent for at, found in ways.items()}
            if not read:
                raise _unaccounted(piece.place, piece.text, text[max(ways):])
            ways = _fewer(read)
            yield from take(1)
    yield from take(sys.maxsize)
    if len(text) not in ways:
        raise _unaccounted(name, "", text[max(ways):])
    counts.update(ways[len(text)])


def _fewer(ways: dict[int, Counter[str]]) -> dict[int, Counter[str]]:
    """Keep some of many ways: in long runs of signs, about all or about none are there."""
    ordered = sorted(ways) if len(ways) > _MOST_WAYS else list(ways)
    kept = ordered[:_MOST_WAYS // 2] + ordered[-_MOST_WAYS // 2:]
    return {at: ways[at] for at in dict.fromkeys(kept)}


def _unaccounted(place: str, text: str, found: str) -> DataError:
    way_out = f"report it, and leave out {setting('account')} to go on"
    if not text:
        return DataError(f"{place}: found the text {_sample(found)} in a record at its end, "
                         f"expected each character of the file once; please {way_out}")
    alike = sum(takewhile(bool, map(eq, text, found)))
    instead = f"where the record has {_sample(found[alike:])}" if found[alike:] else "at the end"
    return DataError(f"{place}: the text {_sample(text[alike:])} is not accounted for, {instead}; "
                     "expected it in a record or in a class that is left out, unless the file is "
                     f"damaged there; {way_out}")


def account_in_words(counts: Counter[str]) -> str:
    """Take what was counted of characters out of the counts, and say it.

    Args:
        counts: of a reader; those of characters are removed.
    """
    prefix = LEFT_OUT.format("")
    left_out = {name.removeprefix(prefix): count for name in list(counts)
                if name.startswith(prefix) and (count := counts.pop(name))}
    added, kept = counts.pop(ADDED, 0), counts.pop(IN_RECORDS, 0)
    total = kept + sum(left_out.values())
    classes = ", ".join(f"{name} {count:,}" for name, count in sorted(
        left_out.items(), key=lambda item: (-item[1], item[0])))
    share = 100 * kept / max(total, 1)
    return (f"{total:,} characters of text: {kept:,} in records ({share:.1f} %), "
            f"{total - kept:,} left out{classes and f' ({classes})'}, 0 unaccounted for"
            + f"; {added:,} added by the reader" * bool(added))


def _sample(text: str) -> str:
    return repr(text[:_SAMPLE] + "..." * (len(text) > _SAMPLE))


class XmlAccount:
    """Text nodes of an XML format, read by expat, and what its reader does with them."""

    units: Sequence[str] = ()
    """Elements that records are made of; text outside them should be left out."""
    moved: frozenset[str] = frozenset()
    """Elements whose text comes behind the outermost paragraph that they are in."""
    textless: frozenset[str] = frozenset()
    """Elements that may have no text of their own, where some is left out as stray."""

    def left_out(self, path: Path, attributes: Attributes) -> str:
        """Name the class of an element whose text is left out; empty for the others."""
        raise NotImplementedError

    def added(self, path: Path, attributes: Attributes) -> str:
        """Return text that the reader puts before that of an element."""
        return ""

    def in_unit(self, pieces: Sequence[Piece]) -> Iterable[Piece]:
        """Change the pieces of a unit by what the others are."""
        return pieces

    def pieces(self, name: str) -> Iterator[Piece]:
        """Yield the text nodes of a file, which its reader has found to be whole, unit by unit.

        Raises:
            DataError: the XML is damaged.
        """
        parser, path, unit = XMLParser(), list[str](), 0  # depth of the unit
        parser.entity.update({key[:-1]: value for key, value in html5.items() if key[-1] == ";"})
        with open_bytes(name) as stream:
            if not stream.peek(1):  # type: ignore[attr-defined]
                return
            try:
                for event, element in iterparse(stream, ("start", "end"), parser):
                    if event == "start":
                        path.append(_local(element.tag))
                        unit = unit or len(path) * (path[-1] in self.units)
                        continue
                    if len(path) in (unit, 1):
                        found: list[Piece] = []
                        self._add(element, path, source_name(name), found, None)
                        yield from self.in_unit(found)
                        element.clear()
                        unit = 0
                    path.pop()
            except ParseError as error:
                raise DataError(f"{source_name(name)}:{error.position[0]}: damaged XML ({error}); "
                                "copy or download the file again") from error

    def _add(self, element: Element, path: Path, name: str, found: list[Piece],
             behind: list[Piece] | None) -> None:
        """Add the pieces of an element; `behind` gets those that come behind its paragraph."""
        place = f"{name}: {'/'.join(path)}"
        if left_out := self.left_out(path, element.attrib):
            found.append(Piece(place, squeezed("".join(element.itertext())), left_out=left_out))
            return
        stray = STRAY if path[-1] in self.textless else ""
        begins = path[-1] == "p" and behind is None
        behind = [] if begins else behind
        texts = [Piece(place, squeezed(text or ""), left_out=stray)
                 for text in (element.text, *(child.tail for child in element))]
        found += [Piece(place, squeezed(self.added(path, element.attrib)), True), texts[0]]
        for child, tail in zip(element, texts[1:], strict=True):
            inner = (*path, _local(child.tag))
            if behind is not None and inner[-1] in self.moved:
                self._add(child, inner, name, behind, None)
            else:
                self._add(child, inner, name, found, behind)
            is_numerator = path[-1] == "mfrac" and len(element) == 2 and child is element[0]
            found += [Piece(place, "/" * is_numerator, is_added=True), tail]
        if begins:
            found += behind or ()


def _local(tag: str) -> str:
    """Return the name of an element without its namespace."""
    return tag.rpartition("}")[2]
