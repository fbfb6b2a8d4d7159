"""Accounts of characters: each character of a source is in a record, or in a class of omitted text.

An account does not use the format's reader. Another parser reads the source a second time into
pieces of text. Pieces that do not belong to an omitted class must then occur in the records, in
order, except for white space. So an account detects text that a reader drops, repeats or invents.
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
_MOST_WAYS = 32  # of matching a record
# A reader may write the exponent of `10<sup>6</sup>` with superscript characters.
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻\u2212\u2013", "0123456789+---")
Path = Sequence[str]
Attributes = Mapping[str, str]


class Piece(NamedTuple):
    """Text of a source that records should have.

    Args:
        place: file and path of elements.
        text: the text without white space.
        is_added: whether a reader may write it although it is not in a text node.
        is_optional: whether records may omit it, such as brackets around a title.
        left_out: class of text that records omit; empty for other text.
    """

    place: str
    text: str
    is_added: bool = False
    is_optional: bool = False
    left_out: str = ""

    def without_ends(self, signs: str) -> Iterator[Piece]:
        """Yield each sign at both ends as an optional piece, and the text between them."""
        first = len(self.text) - len(self.text.lstrip(signs))
        last = max(first, len(self.text.rstrip(signs)))
        for text in (*self.text[:first], self.text[first:last], *self.text[last:]):
            yield self._replace(text=text, is_optional=self.is_optional or text in signs)


def squeezed(text: str) -> str:
    """Remove white space, which readers may change, and write superscripts as plain digits."""
    text = "".join(text.split())
    return text if text.isascii() else text.translate(_PLAIN)


def accounted(records: Iterable[Record], pieces: Iterable[Piece], name: str,
              counts: Counter[str], optional_are: str = "") -> Iterator[Record]:
    """Yield the records of a source, and check that they contain its text in order exactly once.

    Args:
        records: records from the reader.
        pieces: pieces of the source.
        name: name of the source in messages.
        counts: counts characters in records, characters left out, and characters that readers add.
        optional_are: class of optional pieces that records omit.

    Raises:
        DataError: text of the source is missing in the records, or a record contains other text.
    """
    waiting, text = iter(records), ""
    # Some text may be absent, so there may be several ways to match a record. The keys are the
    # positions that the ways have reached in the text, the values are their counts.
    ways = {0: Counter[str]()}

    def take(least: int) -> Iterator[Record]:
        nonlocal text, ways
        while len(text) < max(ways) + least and (record := next(waiting, None)):
            yield record
            read = min(ways)
            text = text[read:] + squeezed(record.get("title", "") + record["text"])
            ways = {at - read: found for at, found in ways.items()}

    yield from take(1)  # so the reader checks the file before another parser reads it
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
    """Keep the shortest and longest ways: usually, nearly all or no optional signs are present."""
    ordered = sorted(ways) if len(ways) > _MOST_WAYS else list(ways)
    kept = ordered[:_MOST_WAYS // 2] + ordered[-_MOST_WAYS // 2:]
    return {at: ways[at] for at in dict.fromkeys(kept)}


def _unaccounted(place: str, text: str, found: str) -> DataError:
    way_out = f"report it, and run without {setting('account')} to continue"
    if not text:
        return DataError(f"{place}: found the text {_sample(found)} at the end of a record, "
                         f"expected each character of the file once; please {way_out}")
    alike = sum(takewhile(bool, map(eq, text, found)))
    instead = f"where the record has {_sample(found[alike:])}" if found[alike:] else "at the end"
    return DataError(f"{place}: the text {_sample(text[alike:])} is not accounted for, {instead}; "
                     "expected it in a record or in a class that is left out; check whether the "
                     f"file is damaged there, otherwise {way_out}")


def account_in_words(counts: Counter[str]) -> str:
    """Remove the counts of characters from the counts, and return them as a sentence.

    Args:
        counts: a reader's counts; the counts of characters are removed.
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
    """Text nodes of an XML format, read by expat, and the way in which its reader uses them."""

    units: Sequence[str] = ()
    """Elements that become records; text outside them should be left out."""
    moved: frozenset[str] = frozenset()
    """Elements whose text is placed after the outermost paragraph that contains them."""
    textless: frozenset[str] = frozenset()
    """Elements that should not contain text directly; such text is left out as stray."""

    def left_out(self, path: Path, attributes: Attributes) -> str:
        """Return the class of an element whose text is left out; empty for other elements."""
        raise NotImplementedError

    def added(self, path: Path, attributes: Attributes) -> str:
        """Return text that the reader inserts before an element's text."""
        return ""

    def in_unit(self, pieces: Sequence[Piece]) -> Iterable[Piece]:
        """Change the pieces of a unit if they depend on each other."""
        return pieces

    def pieces(self, name: str) -> Iterator[Piece]:
        """Yield the text nodes of a file that its reader has checked, unit by unit.

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
             after: list[Piece] | None) -> None:
        """Add an element's pieces to `found`, and those to move after its paragraph to `after`."""
        place = f"{name}: {'/'.join(path)}"
        if left_out := self.left_out(path, element.attrib):
            found.append(Piece(place, squeezed("".join(element.itertext())), left_out=left_out))
            return
        stray = STRAY if path[-1] in self.textless else ""
        begins = path[-1] == "p" and after is None
        after = [] if begins else after
        texts = [Piece(place, squeezed(text or ""), left_out=stray)
                 for text in (element.text, *(child.tail for child in element))]
        found += [Piece(place, squeezed(self.added(path, element.attrib)), True), texts[0]]
        for child, tail in zip(element, texts[1:], strict=True):
            inner = (*path, _local(child.tag))
            if after is not None and inner[-1] in self.moved:
                self._add(child, inner, name, after, None)
            else:
                self._add(child, inner, name, found, after)
            is_numerator = path[-1] == "mfrac" and len(element) == 2 and child is element[0]
            found += [Piece(place, "/" * is_numerator, is_added=True), tail]
        if begins:
            found += after or ()


def _local(tag: str) -> str:
    """Return the name of an element without its namespace."""
    return tag.rpartition("}")[2]
