"""Elements of large XML files, read one at a time from sources that are not trusted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
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
    from lxml.etree import _ElementTree as ElementTree

_HUGE = "XML_PARSE_HUGE"  # in libxml2's message if one of its limits is exceeded
_XML_NAMES = ("amp;", "lt;", "gt;", "quot;", "apos;")
_UNKNOWN_ENTITY = (etree.ErrorTypes.ERR_UNDECLARED_ENTITY, etree.ErrorTypes.WAR_UNDECLARED_ENTITY)
_CHUNK = 1 << 17  # bytes; more would leave the processor's cache
_AHEAD = 1 << 20  # bytes that are checked before parsing
_DECLARATION = re.compile(rb"\A(?:<\?xml[^>]*>)?")
_WIDE = 4  # bytes that show UTF-16 or UTF-32
_NAME = re.compile(rb"&([A-Za-z][A-Za-z0-9]*;)")
_BLANKS = re.compile(" {2,}")
_EXPONENT = re.compile("[+\u2212\u2013-]?[0-9]+")
SUPERSCRIPTS = str.maketrans("0123456789+-\u2212\u2013", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
_NODE_BYTES = 100  # memory for an element, in addition to its text


def xml_elements(name: str, roots: Collection[str], tags: Collection[str],
                 children: bool = False) -> Iterator[Element]:
    """Yield the elements with some tags as they end, in memory that does not grow.

    An element outside other elements with these tags is emptied or removed when the next one is
    requested, and earlier elements are removed. Files are never downloaded: any DTD is replaced by
    one that declares HTML's and MathML's character names. The limits of libxml2 apply, ten
    megabytes for a text and 256 levels (`huge_tree` would also lift the limits on entities).

    Args:
        name: a file, or `-` for stdin.
        roots: the expected root elements; an empty source has no root and is accepted.
        tags: elements to yield; inner elements are yielded before outer ones.
        children: whether the elements are children of the root; a root with only other children is
            then an error.

    Raises:
        DataError: the root is a different one or has none of these elements, the XML is damaged or
            incomplete or declares entities, or an element is larger than a record may be.
    """
    with open_bytes(name) as stream:
        head = stream.read(_AHEAD)
        if head:
            _check_prolog(head, source_name(name), roots)
            # All character names of a small file, unless its encoding hides them.
            names = frozenset(name.decode() for name in set(_NAME.findall(head))) \
                if len(head) < _AHEAD and b"\0" not in head[:_WIDE] else None
            event = "comment" if children and b"\0" not in head[:_WIDE] else "end"
            if event == "comment":
                head = _DECLARATION.sub(rb"\g<0><!---->", head, count=1)
            yield from _streamed(name, tags, chain(_chunks(BytesIO(head)), _chunks(stream)),
                                 names, children, event)


def _check_prolog(head: bytes, name: str, roots: Collection[str]) -> None:
    """Read up to the root element, and reject a wrong root and harmful declarations.

    Entities can expand to gigabytes of text or read other files. The supported formats do not
    declare entities, so any declaration is rejected before lxml reads it.
    """
    expected = " or ".join(f"<{root}>" for root in roots)
    parser, found = expat.ParserCreate(), list[str]()

    def reject_entity(entity: str, *_: object) -> None:
        raise DataError(f"{name}:{parser.CurrentLineNumber}: found a declaration of the entity "
                        f"{entity!r}, which can exhaust memory or read other files; if you trust "
                        "this file, remove the declarations")

    def check_root(root: str, _attributes: object) -> None:
        if not found and root not in roots:
            raise DataError(f"{name}:{parser.CurrentLineNumber}: found the root element <{root}>, "
                            f"expected {expected}")
        found.append(root)

    parser.EntityDeclHandler, parser.StartElementHandler = reject_entity, check_root
    try:
        for chunk in _chunks(BytesIO(head)):
            if not found:
                parser.Parse(chunk, False)
    except (expat.ExpatError, LookupError, ValueError) as error:
        if not found:
            raise DataError(f"{name}:{parser.CurrentLineNumber}: not XML ({error}); expected an "
                            f"XML file with {expected}") from error
    if not found and len(head) == _AHEAD:
        raise DataError(f"{name}: found no element in the first megabyte, expected {expected}")


_SAFELY: dict[str, object] = {
    "resolve_entities": "internal", "no_network": True, "huge_tree": False,
    "remove_pis": True, "collect_ids": False}


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    return iter(partial(stream.read, _CHUNK), b"")


def _streamed(name: str, tags: Collection[str], chunks: Iterable[bytes],
              characters: frozenset[str] | None, children: bool, event: str) -> Iterator[Element]:
    size, line, is_found = 0, 1, False  # bytes since the last element, and its line
    parser = etree.XMLPullParser(events=(event,), tag=tuple(tags), load_dtd=True,
                                 remove_comments=not children, **_SAFELY)
    parser.resolvers.add(_OwnDtd(characters))
    release = partial(_ended_children, parser, tags, []) if children else \
        partial(_released, parser, tags)
    try:
        for chunk in chunks:
            parser.feed(chunk)
            _reject_unknown_entity(parser, name)
            element = None
            for element in release():
                is_found = True
                yield element
            if element is not None:
                size, line = 0, element.sourceline
                continue
            size += len(chunk) + _NODE_BYTES * chunk.count(b"<")
            check_record_size(size, f"{source_name(name)}:{line}")
        root = parser.close()
    except etree.XMLSyntaxError as error:
        _reject_unknown_entity(parser, name)
        # The first entry of the log is the cause of the other entries.
        cause = next(iter(parser.feed_error_log), None)
        line, fault = (cause.line, cause.message) if cause else (error.lineno, error.msg)
        fault = fault.partition(", line ")[0].strip()
        if _HUGE in fault:
            raise DataError(f"{source_name(name)}:{line}: found a text over ten megabytes or more "
                            "than 256 levels of elements, which can exhaust memory; split the "
                            "file") from error
        raise DataError(f"{source_name(name)}:{line}: damaged XML ({fault}); "
                        "copy or download the file again") from error
    for element in release(is_end=True):
        is_found = True
        yield element
    other = next(root.iterchildren("*"), None)
    if children and not is_found and other is not None:
        raise DataError(f"{source_name(name)}: found <{other.tag}> in <{root.tag}>, "
                        f"expected {' or '.join(f'<{tag}>' for tag in tags)}")


class _OwnDtd(etree.Resolver):
    """DTD with HTML's and MathML's characters, which replaces any DTD that a file refers to.

    Args:
        names: names of the characters to declare; None for all, which takes longer than parsing
            most articles.
    """

    def __init__(self, names: frozenset[str] | None) -> None:
        self._names = names

    def resolve(self, _url: str, _public_id: str, context: object) -> object:
        known = _declarations()
        names = known if self._names is None else sorted(self._names & known.keys())
        return self.resolve_string("".join(map(known.__getitem__, names)), context)


@cache
def _declarations() -> dict[str, str]:
    # Markup characters are escaped twice, so that they remain text.
    return {name: '<!ENTITY {} "{}">'.format(name[:-1], "".join(
        f"&{'#38;' * (character in '<&')}#{ord(character)};" for character in characters))
            for name, characters in html5.items()
            if name.endswith(";") and name not in _XML_NAMES}


def _reject_unknown_entity(parser: etree.XMLPullParser, name: str) -> None:
    """Reject an unknown entity; libxml2 would drop it in attributes and keep it as text elsewhere.
    """
    for entry in parser.feed_error_log:
        if entry.type in _UNKNOWN_ENTITY:
            entity = entry.message.partition("'")[2].partition("'")[0]
            raise DataError(f"{source_name(name)}:{entry.line}: found the entity '&{entity};', "
                            "which the file does not declare; replace it by the character")


def _ended_children(parser: etree.XMLPullParser, tags: Collection[str],
                    trees: list[ElementTree], is_end: bool = False) -> Iterator[Element]:
    """Yield the children of the root that have ended, and remove them.

    lxml takes a fifth of the time of parsing to report the end of each element. So only comments
    are reported, and the comment that was put before the root leads to the tree.
    """
    for _, found in parser.read_events():
        trees[:] = [found.getroottree()]
    if not trees or (root := trees[0].getroot()) is None:
        return
    for child in root[:None if is_end else -1]:
        if child.tag in tags:
            etree.strip_tags(child, etree.Comment)
            yield child
        elif child.tag is not etree.Comment and child.getprevious() is None:
            continue  # named in a message if there are only other children
        root.remove(child)


def _released(parser: etree.XMLPullParser, tags: Collection[str],
              is_end: bool = False) -> Iterator[Element]:
    outer = None  # parent of elements that are not inside others with these tags
    for _, element in parser.read_events():
        yield element
        parent = element.getparent()
        if parent is None:  # the root, which ends the file
            continue
        if parent is outer or not any(True for _ in element.iterancestors(*tags)):
            outer = parent
            element.clear()
            while (earlier := element.getprevious()) is not None:
                outer.remove(earlier)


def raise_exponents(root: Element) -> None:
    """Write exponents after numbers as superscript characters, `10⁶`, and fractions as `1/2`.

    Plain digits would change the number: `10<sup>6</sup>` would become 106.
    """
    for fraction in root.iter("{*}mfrac"):
        if len(fraction) == 2:
            fraction[0].tail = "/"
    powers = (power[1] for power in root.iter("{*}msup") if len(power) == 2)
    for sup in chain(root.iter("sup"), powers):
        exponent, before = (sup.text or "").strip(), sup.getprevious()
        outer = sup.getparent()
        text = (outer.text if outer is not None else "") if before is None else \
            before.tail or "".join(before.itertext())
        if text and (text[-1].isdecimal() or text[-1] == ")") and not len(sup) \
                and _EXPONENT.fullmatch(exponent):
            sup.text = exponent.translate(SUPERSCRIPTS)


def plain(element: Element | None) -> str:
    """Return the text inside an element, without markup and with single spaces."""
    if element is None:
        return ""
    if not len(element):
        return single_spaced(element.text or "")
    # Four times as fast as `itertext`.
    return single_spaced(etree.tostring(element, method="text", encoding="unicode",
                                        with_tail=False))


def single_spaced(text: str) -> str:
    """Replace XML white space by single spaces, and remove it at the ends.

    Non-breaking and thin spaces are part of the text.
    """
    for white in "\n\t\r":
        text = text.replace(white, " ")
    if "  " in text:
        text = _BLANKS.sub(" ", text)
    return text.strip(" ")
