"""Text of books in EPUB: a zip archive with XHTML files, in the order of its package document."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lxml import etree

from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.formats.texts.documents import (
    MOST_RECORDS,
    decoded,
    document_records,
    filled,
    joined,
    whole_file,
)
from bmtools.corpus.xml_stream import raise_exponents
from bmtools.errors import DataError
from bmtools.io.folders import member_path, naming_damage
from bmtools.io.provenance.licence_names import licence_name
from bmtools.io.record_size import limited_bytes
from bmtools.io.sources import source_name
from bmtools.records import JsonObject, Record
from bmtools.text.languages import two_letters

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_FONTS = (".otf", ".ttf", ".woff", ".woff2")
_BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
    "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "td", "th", "tr",
    "ul"))
_LEFT_OUT = frozenset((
    "annotation", "annotation-xml", "head", "script", "style", "svg", "template"))
_HEADINGS = frozenset(("h1", "h2", "h3"))
_YEAR = re.compile(r"\d{4}")


@reader
def epub_records(names: Iterable[str], tally: Tally, folder: str = "") -> Iterator[Record]:
    """Yield a record for every book, with one paragraph per line.

    `meta.sections` lists the files of the book with their offsets and first headings. Tables
    of contents (`nav`) and files that are not in the reading order are left out.

    Args:
        names: EPUB files, or folders or archives of EPUB files; `-` for stdin.
        tally: counts the files of a book that are left out.
            It rejects a book that is damaged or encrypted, or has no text.
        folder: folder that contains the names, if any.
    """
    return document_records(names, (".epub",), _read_epub, tally, folder)


def _read_epub(name: str, counts: Counter[str]) -> JsonObject:
    """Read a book.

    Raises:
        DataError: see `epub_records`, or the text is larger than a record may be.
    """
    place, content = source_name(name), whole_file(name, MOST_RECORDS)
    with naming_damage(place), zipfile.ZipFile(io.BytesIO(content)) as archive:
        book = _Book(archive, place)
        parts = list(book.parts(counts))
    text, sections = joined((title or f"file {number}", text)
                            for number, (title, text) in enumerate(parts, 1) if text)
    if not text:
        raise DataError(f"{place}: found no text in {len(parts)} files of the book, expected some")
    stated = partial(_stated, book.package)
    year = _YEAR.match(stated("date"))
    about = filled(title=stated("title"), lang=two_letters(stated("language")),
                   licence=licence_name(stated("rights")))
    return {**about, "text": text, "meta": filled(
        sections=sections, author=stated("creator"), date=stated("date"),
        year=int(year[0]) if year else 0, rights=stated("rights"))}


class _Book:
    """Files of a book.

    Args:
        archive: archive, open for reading.
        place: place of the book, in messages.

    Attributes:
        package: document that describes the book.
    """

    def __init__(self, archive: zipfile.ZipFile, place: str) -> None:
        self._archive = archive
        self._place = place
        self._names = {member_path(one): one for one in archive.infolist()}
        self._size = 0
        rootfile = next(self._xml(_CONTAINER).iter("{*}rootfile"), None)
        path = "" if rootfile is None else rootfile.get("full-path", "")
        self.package = self._xml(path)
        self._package_folder = posixpath.dirname(path)

    def parts(self, counts: Counter[str]) -> Iterator[tuple[str, str]]:
        """Yield titles and texts in the order of the spine."""
        scrambled = {unquote(one.get("URI", "")) for one in self._xml(_ENCRYPTION).iter(
            "{*}CipherReference") if not one.get("URI", "").lower().endswith(_FONTS)} \
            if _ENCRYPTION in self._names else set()  # readable books may have encrypted fonts
        items = {item.get("id"): item for item in self.package.iterfind("{*}manifest/{*}item")}
        for reference in self.package.iterfind("{*}spine/{*}itemref"):
            item = items.get(reference.get("idref"))
            path = "" if item is None else posixpath.normpath(posixpath.join(
                self._package_folder, unquote(item.get("href", "").partition("#")[0])))
            if path in scrambled:
                raise DataError(f"{self._place}: found an encrypted book; use a copy without "
                                "digital rights management")
            if item is None or path not in self._names:
                counts["files missing in a book"] += 1
            elif "html" not in item.get("media-type", "html"):
                counts["non-HTML files of books left out"] += 1
            elif "nav" in item.get("properties", "").split():
                counts["tables of contents left out"] += 1
            else:
                page = _without_cdata(decoded(self._content(path), None, counts))
                yield _part(self._parsed(path, page.encode(errors="replace"), etree.HTMLParser(
                    encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)))

    def _xml(self, path: str) -> Element:
        """Parse an XML file without resolving entities or downloading files."""
        return self._parsed(path, self._content(path), etree.XMLParser(
            resolve_entities=False, no_network=True, huge_tree=False))

    def _content(self, path: str) -> bytes:
        """Decompress a file; all files of a book together must not be larger than a record."""
        if path not in self._names:
            raise DataError(f"{self._place}: found no {path or 'package document'}, expected an "
                            "EPUB")
        with self._archive.open(self._names[path]) as stream:
            content = limited_bytes(stream, f"{self._place}/{path}", self._size)
        self._size += len(content)
        return content

    def _parsed(self, path: str, content: bytes,
                parser: etree.XMLParser | etree.HTMLParser) -> Element:
        try:
            root = etree.fromstring(content, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            reason = str(error).partition(" (<string>")[0]
            raise DataError(f"{self._place}: damaged {path} ({reason}); copy or download the book "
                            "again") from error
        return etree.Element("html") if root is None else root


def _without_cdata(page: str) -> str:
    """Escape the text of CDATA sections, which HTML parsers leave out."""
    before, *sections = page.split("<![CDATA[")
    parts = [section.partition("]]>") for section in sections]
    return before + "".join(escape(text, quote=False) + rest if end else f"<![CDATA[{text}"
                            for text, end, rest in parts)


def _part(root: Element) -> tuple[str, str]:
    """Return the title and the paragraphs of a page."""
    raise_exponents(root)
    blocks: list[list[str]] = [[]]
    title = ""
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = element.tag if isinstance(element.tag, str) else ""
        if tag in _BLOCKS:
            blocks.append([])
        if event == "end":
            title = title or (_plain(element.itertext()) if tag in _HEADINGS else "")
            blocks[-1].append(element.tail or "")
        elif tag in _LEFT_OUT or not tag:
            walk.skip_subtree()
        else:
            blocks[-1].append(element.text or "")
    return title, "\n".join(filter(None, map(_plain, blocks)))


def _plain(texts: Iterable[str]) -> str:
    return " ".join("".join(texts).split())


def _stated(package: Element, name: str) -> str:
    found = package.find(f"{{*}}metadata/{{*}}{name}")
    return "" if found is None else _plain(found.itertext())
