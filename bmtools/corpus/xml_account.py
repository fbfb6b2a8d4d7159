"""Text nodes of XML files, read by a parser of their own, for accounts of characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from xml.parsers import expat

from bmtools.corpus.account import LEFT_OUT, Piece, squeezed
from bmtools.corpus.xml_stream import character_names
from bmtools.errors import DataError
from bmtools.io.sources import open_bytes, source_name

STRAY = "stray text"
_PARAGRAPH = "p"
_CHUNK = 1 << 16  # bytes
Attributes = Mapping[str, str]
Path = Sequence[str]


@dataclass(frozen=True)
class XmlClasses:
    """Classes of elements that the reader of an XML format leaves out, moves or adds text to.

    Args:
        left_out: names the class of an element whose text is left out, from its path, itself last,
            and its attributes; empty for the others. The outermost class counts.
        units: elements that records are made of; text outside them should be left out.
        in_unit: gives the pieces of a unit, each with the class of one that is in no record, which
            depends on the others; empty for those that are.
        added: gives text that the reader puts before that of an element.
        moved: elements whose text comes behind the outermost paragraph that they are in.
        textless: elements that may have no text of their own, where some is left out as stray.
        may_be_left_out: names the class of an element whose text a record may have or not.
    """

    left_out: Callable[[Path, Attributes], str]
    units: Sequence[str]
    in_unit: Callable[[Sequence[Piece]], Iterable[tuple[Piece, str]]]
    added: Callable[[Path, Attributes], str]
    moved: frozenset[str] = frozenset()
    textless: frozenset[str] = frozenset()
    may_be_left_out: Callable[[Path, Attributes], str] = lambda _path, _attributes: ""


def xml_pieces(name: str, classes: XmlClasses, counts: Counter[str]) -> Iterator[Piece]:
    """Yield the text nodes of an XML file that records should have, by a parser of their own.

    Args:
        name: of the file, which its reader has found to be whole.
        classes: of the format.
        counts: counts the characters left out, by class.
    """
    nodes = _Nodes(name, classes, counts)
    with open_bytes(name) as stream:
        if not stream.peek(1):  # type: ignore[attr-defined]
            return
        for chunk in chain(iter(partial(stream.read, _CHUNK), b""), [b""]):
            nodes.read(chunk)
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
        self._pieces: list[Piece] = []
        self._paragraph = 0  # depth of the outermost
        self._behind: list[Piece] = []  # what comes behind it
        # Around what moves: its depth, and the three above.
        self._around: list[tuple[int, list[Piece], int, list[Piece]]] = []
        self._ready: list[Piece] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        self.parser.ExternalEntityRefHandler = self._use_own_dtd
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def read(self, chunk: bytes) -> None:
        """Read the next bytes; none at the end.

        Raises:
            DataError: the XML is damaged.
        """
        try:
            self.parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            raise DataError(f"{self._name}:{error.lineno}: damaged XML ({error}); copy or download "
                            "the file again") from error

    def taken(self) -> list[Piece]:
        """Return the pieces of units that have ended, once."""
        ready, self._ready = self._ready, []
        return ready

    def _use_own_dtd(self, context: str | None, *_: object) -> int:
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
        if self._paragraph and tag in self._classes.moved:
            self._around.append((depth, self._pieces, self._paragraph, self._behind))
            self._pieces, self._paragraph, self._behind = [], 0, []
        elif tag == _PARAGRAPH and not self._paragraph:
            self._paragraph = depth
        if not self._may_be[0] and (left_out := self._classes.may_be_left_out(path, attributes)):
            self._may_be = depth, left_out
        if text := squeezed(self._classes.added(path, attributes)):
            self._pieces.append(Piece(self._place(), text, added=True))

    def _end(self, _tag: str) -> None:
        depth = len(self._path)
        if self._left_out and self._left_out[0] == depth:
            self._left_out = None
        if depth == self._paragraph:
            self._pieces += self._behind
            self._paragraph, self._behind = 0, []
        elif self._around and self._around[-1][0] == depth:
            moved = self._pieces
            _, self._pieces, self._paragraph, self._behind = self._around.pop()
            self._behind += moved
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
        elif self._path[-1] in self._classes.textless:
            self._counts[LEFT_OUT.format(STRAY)] += len(text)
        else:
            self._pieces.append(Piece(self._place(), text, left_out=self._may_be[1]))

    def _release(self) -> None:
        """Let the pieces of a unit go to the records, or count them."""
        pieces, self._pieces = self._pieces, []
        for piece, left_out in self._classes.in_unit(pieces):
            if not left_out:
                self._ready.append(piece)
            elif not piece.added:
                self._counts[LEFT_OUT.format(left_out)] += len(piece.text)

    def _place(self) -> str:
        return f"{self._name}:{self.parser.CurrentLineNumber}: {'/'.join(self._path)}"
