"""Elements of large XML files, one at a time, from sources nobody vouches for."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from html.entities import html5
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO
from xml.parsers import expat

from lxml import etree

from bmtools.errors import DataError
from bmtools.io.record_size import check_record_size
from bmtools.io.sources import open_bytes, source_name

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_HUGE = "XML_PARSE_HUGE"  # libxml2 names it where one of its limits is passed
_XML_NAMES = ("amp;", "lt;", "gt;", "quot;", "apos;")
_UNKNOWN_ENTITY = (etree.ErrorTypes.ERR_UNDECLARED_ENTITY, etree.ErrorTypes.WAR_UNDECLARED_ENTITY)
_CHUNK = 1 << 17  # bytes; more would leave the processor's cache
_AHEAD = 1 << 20  # bytes that are read before the parser sees them
_WIDE = 4  # bytes by which UTF-16 and UTF-32 are known
_NAME = re.compile(rb"&([A-Za-z][A-Za-z0-9]*;)")
_BLANKS = re.compile(" {2,}")
_MOST_PROLOG_BYTES = 1 << 20
_TAG = re.compile(rb"\s*<([A-Za-z]+)[\s/>]")
_MOST_TAG_BYTES = 1000  # with the white space before it
_NODE_BYTES = 100  # of an element in memory, beside its text


def xml_elements(name: str, roots: Collection[str], tags: Collection[str]) -> Iterator[Element]:
    """Yield the elements with some tags as they end, in memory that does not grow.

    An element that is in no other one with these tags is emptied when the next one is requested,
    and those before it are removed. Nothing is fetched: in place of any DTD, the one of the file
    is that of HTML's and MathML's names of characters. libxml2 keeps its limits of ten megabytes
    for a piece of text and 256 levels (`huge_tree` would lift those on entities, too).

    Args:
        name: a file, or `-` for stdin.
        roots: the root elements that are expected; a source without a byte has none and passes.
        tags: elements to yield; one inside another of them comes first.

    Raises:
        DataError: another root, XML that is damaged or cut short or declares entities, or an
            element larger than a record may be.
    """
    with open_bytes(name) as stream:
        head = stream.read(_AHEAD)
        if head:
            chunks = chain(_chunks(BytesIO(head)), _chunks(stream))
            yield from _streamed(name, tags, map(_Prolog(name, roots).passing, chunks),
                                 _names_in(head) if len(head) < _AHEAD else None)


def xml_children(name: str, roots: Collection[str],
                 tags: Collection[str]) -> Iterator[tuple[int, Element]]:
    """Yield the children of the root with some tags, and their lines; faster than `xml_elements`.

    Children are cut from the file and parsed without what is around them. Where that is not
    well-formed (names of characters, damage) or not certain, the file is read on as by
    `xml_elements`, with the same result.

    Raises:
        DataError: as `xml_elements`; or the root has elements, but none of these.
    """
    with open_bytes(name) as stream:
        if not stream.peek(1):  # type: ignore[attr-defined]
            return
        is_found = False

        def refuse_others(root: Element) -> None:
            if not is_found and len(root):
                raise DataError(f"{source_name(name)}: found <{root[0].tag}> in <{root.tag}>, "
                                f"expected {' or '.join(f'<{tag}>' for tag in tags)}")

        cutter = _Cutter(name, stream, _Prolog(name, roots), tags)
        for line, element in cutter.children():
            is_found = True
            yield line, element
        for element in _streamed(name, tags, cutter.rest(), None, cutter.before(), refuse_others):
            if element.getparent().getparent() is None:
                is_found = True
                yield element.sourceline, element


_SAFELY: dict[str, object] = {
    "resolve_entities": "internal", "no_network": True, "huge_tree": False,
    "remove_comments": True, "remove_pis": True, "collect_ids": False}


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    return iter(partial(stream.read, _CHUNK), b"")


def _streamed(name: str, tags: Collection[str], chunks: Iterable[bytes],
              characters: frozenset[str] | None, before: Iterable[bytes] = (),
              at_end: Callable[[Element], object] = id) -> Iterator[Element]:
    size, line = 0, 1  # since the last element, and where that began
    parser = etree.XMLPullParser(events=("end",), tag=tuple(tags), load_dtd=True, **_SAFELY)
    parser.resolvers.add(_OwnDtd(characters))
    for chunk in before:
        parser.feed(chunk)
    try:
        for chunk in chunks:
            parser.feed(chunk)
            _refuse_unknown_entity(parser, name)
            element = None
            for element in _released(parser, tags):
                yield element
            if element is not None:
                size, line = 0, element.sourceline
                continue
            size += _memory(chunk)
            check_record_size(size, f"{source_name(name)}:{line}")
        root = parser.close()
    except etree.XMLSyntaxError as error:
        _refuse_unknown_entity(parser, name)
        # The first entry of the log is the cause of the others.
        cause = next(iter(parser.feed_error_log), None)
        line, fault = (cause.line, cause.message) if cause else (error.lineno, error.msg)
        fault = fault.partition(", line ")[0].strip()
        if _HUGE in fault:
            raise DataError(f"{source_name(name)}:{line}: found more than a text of ten megabytes "
                            "or 256 levels of elements, expected less; such files can exhaust "
                            "memory") from error
        raise DataError(f"{source_name(name)}:{line}: damaged XML ({fault}); "
                        "copy or download the file again") from error
    yield from _released(parser, tags)
    at_end(root)


def _memory(content: bytes) -> int:
    return len(content) + _NODE_BYTES * content.count(b"<")


class _Cutter:
    """Cutter of a file into the children of its root, as long as these are plain.

    Args:
        name: of the file.
        stream: at its beginning.
        prolog: reads up to the root.
        tags: of the children.
    """

    def __init__(self, name: str, stream: BinaryIO, prolog: _Prolog, tags: Collection[str]) -> None:
        self._name, self._stream, self._prolog = source_name(name), stream, prolog
        self._closing = {tag.encode(): f"</{tag}>".encode() for tag in tags}
        self._tags = tags
        self._parser = etree.XMLParser(**_SAFELY)
        self._head = self._content = b""
        self._first = self._line = 1  # behind the head, and at the content

    def children(self) -> Iterator[tuple[int, Element]]:
        """Yield children and their lines, up to the first that is not plain."""
        while not self._prolog.is_done and (chunk := self._stream.read(_CHUNK)):
            self._content += self._prolog.passing(chunk)
        body = self._prolog.plain_body(self._content)
        self._head, self._content = self._content[:body], self._content[body:]
        self._first = self._line = self._head.count(b"\n") + 1
        while body and (piece := self._next_piece()):
            try:
                root = etree.fromstring(b"<x>" + piece + b"</x>", self._parser)
            except (etree.XMLSyntaxError, ValueError):  # damaged, or more than children
                return
            for child in root.iterchildren(*self._tags):
                yield self._line + child.sourceline - 1, child
            self._content = self._content[len(piece):]
            self._line += piece.count(b"\n")

    def before(self) -> Iterator[bytes]:
        """Yield the prolog, and as many lines as were cut."""
        yield self._head
        for line in range(self._first, self._line, _CHUNK):  # as text they would be too large
            yield b"<!--" + b"\n" * min(_CHUNK, self._line - line) + b"-->"

    def rest(self) -> Iterator[bytes]:
        """Yield what follows the children."""
        yield self._content
        yield from _chunks(self._stream)

    def _next_piece(self) -> bytes | None:
        """Return the next children, as many as were read whole, with the white space before."""
        while True:
            start = _TAG.match(self._content)
            closing = start and self._closing.get(start[1])
            if start and closing and (end := self._content.rfind(closing, start.end())) >= 0:
                return self._content[:end + len(closing)]
            if (start and not closing) or (not start and len(self._content) > _MOST_TAG_BYTES):
                return None
            check_record_size(_memory(self._content), f"{self._name}:{self._line}")
            if not (more := self._stream.read(max(_CHUNK, len(self._content)))):
                return None
            self._content += more


class _OwnDtd(etree.Resolver):
    """DTD in place of those that files name, which are never read.

    Args:
        names: of the characters to declare; None for all, which takes longer than most articles.
    """

    def __init__(self, names: frozenset[str] | None) -> None:
        self._names = names

    def resolve(self, _url: str, _public_id: str, context: object) -> object:
        return self.resolve_string(character_names(self._names), context)


def _names_in(content: bytes) -> frozenset[str] | None:
    """Find the names of characters in a whole file; None where its encoding hides them."""
    if b"\0" in content[:_WIDE]:
        return None
    return frozenset(name.decode() for name in set(_NAME.findall(content)))


@cache
def _declarations() -> dict[str, str]:
    return {name: f'<!ENTITY {name[:-1]} "{"".join(map(_reference, characters))}">'
            for name, characters in html5.items()
            if name.endswith(";") and name not in _XML_NAMES}


def character_names(names: frozenset[str] | None = None) -> str:
    """Declare the names of characters in HTML, which include MathML's, as a DTD.

    Args:
        names: as `beta;`, of those to declare; None for all.
    """
    declared = _declarations()
    return "".join(declared.values() if names is None else (
        declared[name] for name in sorted(names & declared.keys())))


def _reference(character: str) -> str:
    # Twice escaped, what would be markup stays text.
    return f"&{'#38;' * (character in '<&')}#{ord(character)};"


def _refuse_unknown_entity(parser: etree.XMLPullParser, name: str) -> None:
    """Refuse an entity that libxml2 would leave out of attributes, and spell in text."""
    for entry in parser.feed_error_log:
        if entry.type in _UNKNOWN_ENTITY:
            entity = entry.message.partition("'")[2].partition("'")[0]
            raise DataError(f"{source_name(name)}:{entry.line}: found the entity '&{entity};', "
                            "which the file does not declare; write the character in its place")


def _released(parser: etree.XMLPullParser, tags: Collection[str]) -> Iterator[Element]:
    outer = None  # parent of elements that are in no other one with these tags
    for _, element in parser.read_events():
        yield element
        parent = element.getparent()
        if parent is None:  # the root, with which the file ends
            continue
        if parent is outer or not any(True for _ in element.iterancestors(*tags)):
            outer = parent
            element.clear()
            while (earlier := element.getprevious()) is not None:
                outer.remove(earlier)


def plain(element: Element | None) -> str:
    """Join the text inside an element, without markup and with single spaces."""
    if element is None:
        return ""
    if not len(element):
        return single_spaced(element.text or "")
    # Four times as fast as `itertext`.
    return single_spaced(etree.tostring(element, method="text", encoding="unicode",
                                        with_tail=False))


def single_spaced(text: str) -> str:
    """Replace white space in the sense of XML by single spaces, and drop it at the ends.

    A non-breaking or thin space is part of the text.
    """
    for white in "\n\t\r":
        text = text.replace(white, " ")
    if "  " in text:
        text = _BLANKS.sub(" ", text)
    return text.strip(" ")


class _RootFound(Exception):
    pass


class _Prolog:
    """Reader up to the root element, which refuses declarations that could do harm.

    Entities could stand for gigabytes of text or for files, and the formats read here declare
    none, so any declaration is refused before lxml sees it.
    """

    def __init__(self, name: str, roots: Collection[str]) -> None:
        self._name = source_name(name)
        self._roots = roots
        self._expected = " or ".join(f"<{root}>" for root in roots)
        self._parser = expat.ParserCreate()
        self.is_done = False  # the root was found
        self._size = 0
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.StartElementHandler = self._check_root
        self._parser.XmlDeclHandler = self._note_declaration
        self._parser.StartDoctypeDeclHandler = self._note_doctype
        self._is_plain = True
        self._root_at, self._plain_root = 0, b""

    def passing(self, chunk: bytes) -> bytes:
        """Read the next bytes, up to the root element, and return them."""
        if self.is_done:
            return chunk
        self._size += len(chunk)
        if self._size > _MOST_PROLOG_BYTES:
            raise DataError(f"{self._name}: found no element in the first megabyte, expected "
                            f"{self._expected}")
        try:
            self._parser.Parse(chunk, False)
        except _RootFound:
            self.is_done = True
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise DataError(f"{self._name}:{self._parser.CurrentLineNumber}: not XML ({error}); "
                            f"expected an XML file with {self._expected}") from error
        return chunk

    def plain_body(self, content: bytes) -> int:
        """Return where the content of the root begins, if that is plain; otherwise 0.

        Args:
            content: from the beginning.
        """
        end = self._root_at + len(self._plain_root)
        return end if self._plain_root and content[self._root_at:end] == self._plain_root else 0

    def _note_declaration(self, version: str, encoding: str | None, _: int) -> None:
        self._is_plain = version == "1.0" and (encoding or "utf-8").lower() == "utf-8"

    def _note_doctype(self, _name: str, _system: str | None, _public: str | None,
                      has_declarations: bool) -> None:
        self._is_plain = self._is_plain and not has_declarations

    def _refuse_entity(self, entity: str, *_: object) -> None:
        raise DataError(f"{self._name}:{self._parser.CurrentLineNumber}: found a declaration of "
                        f"the entity {entity!r}, expected none; such files can exhaust memory or "
                        "read others, so take the declarations out if you trust it")

    def _check_root(self, root: str, attributes: Mapping[str, str]) -> None:
        if root not in self._roots:
            raise DataError(f"{self._name}:{self._parser.CurrentLineNumber}: found the root "
                            f"element <{root}>, expected {self._expected}")
        if self._is_plain and not attributes:
            self._root_at, self._plain_root = self._parser.CurrentByteIndex, f"<{root}>".encode()
        raise _RootFound
