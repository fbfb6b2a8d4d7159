"""Accounts of characters: every one of a source is in a record, or in a class that was left out.

The reader of a format takes no part in its account. The source is read a second time, by another
parser, into pieces of text; those that are in no class of what is left out are then followed
through the records, white space aside. So text that a reader drops, doubles or makes up shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from xml.parsers import expat

from bmtools.corpus.xml_stream import character_names
from bmtools.errors import DataError, setting
from bmtools.io.jsonl import open_bytes, source_name
from bmtools.records import Record

IN_RECORDS = "characters in records"
LEFT_OUT = "characters left out as {}"
ADDED = "characters added"
_CHUNK = 1 << 16  # bytes
_SAMPLE = 60  # characters
Attributes = Mapping[str, str]
Path = Sequence[str]


# A reader may write the exponent of `10<sup>6</sup>` by characters of its own.
SUPERSCRIPTS = str.maketrans("0123456789+-\u2212\u2013", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻\u2212\u2013", "0123456789+---")


def squeezed(text: str) -> str:
    """Remove white space, which readers set as they like, and raise or lower no number."""
    text = "".join(text.split())
    return text if text.isascii() else text.translate(_PLAIN)


@dataclass
class Piece:
    """Text of a source that records should have.

    Args:
        place: `file:line: path/of/elements`.
        text: without white space.
        added: whether it stands in no text node, and may be absent from the record.
        left_out: class of text that may be absent, as of citations; empty for all other.
        parts: of what may come later in the record than in the source, as a caption.
        unit: number of the element of `XmlClasses.units` that it is in.
    """

    place: str
    text: str
    added: bool = False
    left_out: str = ""
    parts: list[Piece] = field(default_factory=list)
    unit: int = 0


def accounted(records: Iterable[Record], pieces: Iterable[Piece], name: str,
              counts: Counter[str], signs: str = "", signs_are: str = "",
              signs_in: str = "") -> Iterator[Record]:
    """Yield the records of a source, and prove that they hold its text, in order and once.

    Args:
        records: as the reader yields them.
        pieces: of the source, without what is left out; see `xml_pieces`.
        name: of the source in messages.
        counts: counts the characters in records, and those that readers added.
        signs: characters that a reader may leave out, as brackets around citations.
        signs_are: class of these.
        signs_in: element that has them; empty for all.

    Raises:
        DataError: text in no record, or text of a record that the source does not have there.
    """
    matching = _Matching(iter(pieces), name, counts, dict.fromkeys(signs, signs_are),
                         signs_in)
    for record in records:
        matching.follow(squeezed(record.get("title", "")) + squeezed(record["text"]))
        yield record
    matching.end()


@dataclass
class _Matching:
    """State of the walk through the pieces of a source and the records made of it."""

    pieces: Iterator[Piece]
    name: str
    counts: Counter[str]
    signs: Mapping[str, str]
    signs_in: str
    now: Piece | None = None
    waiting: list[Piece] = field(default_factory=list)

    def follow(self, text: str) -> None:
        """Find the text of a record in the next pieces."""
        at = 0
        while at < len(text):
            self.now = self.now or next(self.pieces, None)
            if self.now and self.now.parts:
                self.waiting.append(self.now)
                self.now = None
            else:
                at = self._matched(self.now, text, at)

    def end(self) -> None:
        """Refuse what is left of the source, but for what may be left out."""
        for piece in chain([self.now] if self.now else [], self.waiting, self.pieces):
            for part in piece.parts or [piece]:
                self._without(part)

    def _matched(self, piece: Piece | None, text: str, at: int) -> int:
        """Match a piece, or one that moved here; return where the record goes on."""
        moved, end, counts = self._moved(text, at)
        if moved and (piece is None or end - at > len(piece.text)
                      or not text.startswith(piece.text, at)):
            self.waiting.remove(moved)
            self.counts.update(counts)
            return end
        if piece is None:
            raise DataError(f"{self.name}: found the text {_sample(text[at:])} in a record at its "
                            "end, expected each character of the file once; please report it, and "
                            f"leave out {setting('account')} to go on")
        self.now = None
        if text.startswith(piece.text, at):
            self.counts[ADDED if piece.added else IN_RECORDS] += len(piece.text)
            return at + len(piece.text)
        if piece.added or piece.left_out:
            self._without(piece)
            return at
        return self._in_part(piece, text, at)

    def _in_part(self, piece: Piece, text: str, at: int) -> int:
        """Match a piece character by character, without signs; its end may be in a later record."""
        for number, character in enumerate(piece.text):
            if at == len(text):
                self.now = Piece(piece.place, piece.text[number:])
                return at
            if text[at] == character:
                at += 1
                self.counts[IN_RECORDS] += 1
            elif self._is_sign(character, piece):
                self.counts[LEFT_OUT.format(self.signs[character])] += 1
            else:
                raise _unaccounted(piece.place, piece.text[number:], text[at:])
        return at

    def _moved(self, text: str, at: int) -> tuple[Piece | None, int, Counter[str]]:
        """Find the longest waiting piece that the record goes on with, and where that ends."""
        found: tuple[Piece | None, int, Counter[str]] = (None, at, Counter())
        for piece in self.waiting:
            end, counts = self._end_of(piece, text, at)
            if end > found[1]:
                found = piece, end, counts
        return found

    def _end_of(self, piece: Piece, text: str, at: int) -> tuple[int, Counter[str]]:
        """Return where a moved piece ends and what it counts; 0 where it does not stand there."""
        counts: Counter[str] = Counter()
        for part in piece.parts:
            if part.left_out and not text.startswith(part.text, at):
                counts[LEFT_OUT.format(part.left_out)] += len(part.text)
                continue
            for character in part.text:
                if text.startswith(character, at):
                    at += 1
                    counts[IN_RECORDS] += 1
                elif self._is_sign(character, part):
                    counts[LEFT_OUT.format(self.signs[character])] += 1
                else:
                    return 0, counts
        return at, counts

    def _is_sign(self, character: str, piece: Piece) -> bool:
        return character in self.signs and self.signs_in in piece.place

    def _without(self, piece: Piece) -> None:
        """Count a piece that is in no record, which it must be allowed to be."""
        if piece.left_out:
            self.counts[LEFT_OUT.format(piece.left_out)] += len(piece.text)
        elif not piece.added:
            for number, character in enumerate(piece.text):
                if not self._is_sign(character, piece):
                    raise _unaccounted(piece.place, piece.text[number:])
                self.counts[LEFT_OUT.format(self.signs[character])] += 1


def _unaccounted(place: str, text: str, found: str = "") -> DataError:
    instead = f"where the record has {_sample(found)}" if found else "at the end"
    return DataError(f"{place}: the text {_sample(text)} is not accounted for, {instead}; "
                     "expected it in a record or in a class that is left out; please report "
                     f"it, and leave out {setting('account')} to go on")


def account_in_words(counts: Counter[str]) -> str:
    """Take what was counted of characters out of the counts, and say it.

    Args:
        counts: of a reader; those of characters are removed.
    """
    prefix = LEFT_OUT.format("")
    left_out = {name.removeprefix(prefix): counts.pop(name) for name in list(counts)
                if name.startswith(prefix)}
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


def line_pieces(name: str) -> Iterator[Piece]:
    """Yield the lines of a text."""
    with open_bytes(name) as stream:
        for number, line in enumerate(stream, 1):
            if text := squeezed(line.decode()):
                yield Piece(f"{source_name(name)}:{number}", text)


def _none(_path: Path, _attributes: Attributes) -> str:
    return ""


@dataclass(frozen=True)
class XmlClasses:
    """What the reader of an XML format leaves out, moves and adds, by elements.

    Args:
        left_out: names the class of an element whose text is left out, from its path, itself last,
            and its attributes; empty for the others. The outermost class counts.
        units: elements that records are made of; text outside them should be left out.
        unit_left_out: names the class of a unit whose pieces make no record; empty for the others.
        moves: elements whose text may come after the paragraph that they are in.
        added: gives text that the reader puts before that of an element.
        may_be_left_out: names the class of an element whose text a record may have or not.
    """

    left_out: Callable[[Path, Attributes], str]
    units: Sequence[str] = ()
    unit_left_out: Callable[[Sequence[Piece]], str] = lambda _: ""
    moves: frozenset[str] = frozenset()
    added: Callable[[Path, Attributes], str] = _none
    may_be_left_out: Callable[[Path, Attributes], str] = _none


def xml_pieces(name: str, classes: XmlClasses, counts: Counter[str]) -> Iterator[Piece]:
    """Yield the text nodes of an XML file that records should have, by a parser of their own.

    Args:
        name: of the file, which its reader has found to be whole.
        classes: of the format.
        counts: counts the characters left out, by class.
    """
    nodes = _Nodes(name, classes, counts)
    with open_bytes(name) as stream:
        while chunk := stream.read(_CHUNK):
            nodes.parser.Parse(chunk, False)
            yield from nodes.taken()
    nodes.parser.Parse(b"", True)
    yield from nodes.taken()


class _Nodes:
    """Text nodes of an XML file, sorted as they come.

    Args:
        name: of the file.
        classes: of the format.
        counts: counts the characters left out.
    """

    def __init__(self, name: str, classes: XmlClasses, counts: Counter[str]) -> None:
        self._name, self._classes, self._counts = source_name(name), classes, counts
        self._path: list[str] = []
        self._left_out: tuple[int, str] | None = None  # depth of the element, class
        self._may_be: tuple[int, str] = (0, "")
        self._unit = 0  # depth
        self._moving: list[tuple[int, list[Piece]]] = []  # depth, parts
        self._pieces: list[Piece] = []
        self._ready: list[Piece] = []
        self._units = 0
        self.parser: Any = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        self.parser.ExternalEntityRefHandler = self._use_own_dtd
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def taken(self) -> list[Piece]:
        """Return the pieces of units that have ended, once."""
        ready, self._ready = self._ready, []
        return ready

    def _use_own_dtd(self, context: str | None, *_: Any) -> int:
        self.parser.ExternalEntityParserCreate(context).Parse(character_names(), True)
        return 1

    def _start(self, tag: str, attributes: Attributes) -> None:
        path, depth = self._path, len(self._path) + 1
        path.append(tag)
        if self._left_out:
            return
        if tag in self._classes.units and not self._unit:
            self._unit = depth
        if left_out := self._classes.left_out(path, attributes):
            self._left_out = depth, left_out
            return
        if tag in self._classes.moves:
            self._moving.append((depth, []))
        if not self._may_be[0] and (left_out := self._classes.may_be_left_out(path, attributes)):
            self._may_be = depth, left_out
        if text := squeezed(self._classes.added(path, attributes)):
            self._pieces.append(Piece(self._place(), text, added=True))

    def _end(self, _tag: str) -> None:
        depth = len(self._path)
        if self._left_out and self._left_out[0] == depth:
            self._left_out = None
        if self._moving and self._moving[-1][0] == depth:
            _, parts = self._moving.pop()
            if parts:
                self._pieces.append(Piece("", "", parts=parts))
        if self._may_be[0] == depth:
            self._may_be = 0, ""
        self._path.pop()
        if depth == self._unit:
            self._unit = 0
        if not self._unit:
            self._release()

    def _text(self, text: str) -> None:
        if not (text := squeezed(text)):
            return
        if self._left_out:
            self._counts[LEFT_OUT.format(self._left_out[1])] += len(text)
        else:
            pieces = self._moving[-1][1] if self._moving else self._pieces
            pieces.append(Piece(self._place(), text, left_out=self._may_be[1]))

    def _release(self) -> None:
        """Let the pieces of a unit go to the records, unless it makes none."""
        pieces, self._pieces = self._pieces, []
        if not pieces:
            return
        self._units += 1
        for piece in pieces:
            piece.unit = self._units
        if left_out := self._classes.unit_left_out(pieces):
            self._counts[LEFT_OUT.format(left_out)] += sum(
                len(part.text) for piece in pieces for part in piece.parts or [piece]
                if not part.added)
        else:
            self._ready += pieces

    def _place(self) -> str:
        return f"{self._name}:{self.parser.CurrentLineNumber}: {'/'.join(self._path)}"
