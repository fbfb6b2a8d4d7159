"""Main text of HTML pages, in files and in WARC archives."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, Literal, cast, get_args

from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.formats.texts.documents import (
    HEAD_BYTES,
    decoded,
    document_records,
    file_error,
    filled,
    whole_file,
)
from bmtools.corpus.xml_stream import raise_exponents
from bmtools.errors import DataError
from bmtools.installation import require_extra
from bmtools.io.folders import corpus_files
from bmtools.io.provenance.licence_names import licence_name
from bmtools.io.record_size import check_record_size, most_bytes
from bmtools.io.sources import open_bytes, source_name, source_stem
from bmtools.records import JsonObject, Record
from bmtools.text.languages import two_letters

if TYPE_CHECKING:
    from fastwarc.warc import WarcRecord
    from lxml.html import HtmlElement

HTML = (".html", ".htm", ".xhtml")
WARC = (".warc",)
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_LANG = re.compile(r"""<html\b[^>]{0,1000}?\s(?:xml:)?lang\s*=\s*["']?([A-Za-z]{2,3})\b""",
                   re.IGNORECASE)
_Packing = Literal["all", "transfer", "none"]  # packing to remove, the most first
_BEFORE_TAGS = b"\xef\xbb\xbf \t\r\n"
_WHITE = re.compile(r"[ \t\r\n\f]+")
_ENDS_OF_LINES = re.compile(r"(?<![ \t])[ \t]+$|^ (?=\S)|(?<=^- ) +", re.MULTILINE)
_LONGEST_NOTICE = 300  # characters
_NEEDS_SCRIPT = re.compile(
    r"\b(abilit|activ|aktiv|allow|attiv|enabl|habilit|need|requi|support|turn|us)\w*\W+(\w+\W+){0,6}"
    r"javascript|javascript\W+(\w+\W+){0,6}(de|des|dis)?(abilit|abled|activ|aktiv|attiv|enabl|habilit"
    r"|requi)", re.IGNORECASE)
_LICENCE_LINK = re.compile(r"""<link\b(?=[^>]{0,500}\brel=["']?license)[^>]{0,500}>""",
                           re.IGNORECASE)


@reader
def html_records(names: Iterable[str], tally: Tally, folder: str = "") -> Iterator[Record]:
    """Yield the main text of HTML pages, without navigation, comments and advertisements.

    Title, language, licence and date are read from the page, without any download.

    Args:
        names: HTML files, or folders or archives of HTML files, compressed or not; `-` for stdin.
        tally: counts pages without a main text.
            It rejects a file that is not HTML.
        folder: folder that contains the names, if any.
    """
    _require_web("import html")
    return document_records(names, HTML, _read_page, tally, folder)


@reader
def warc_records(names: Iterable[str], tally: Tally) -> Iterator[Record]:
    """Yield the main text of the HTML pages in WARC archives, as in `html_records`.

    `meta` contains the page's address and the time of its download. Ids are the record ids of the
    archive.

    Args:
        names: WARC files, plain or compressed with gzip or zstd, or folders of them; `-` for stdin.
        tally: counts other records, other types of content, and responses other than 200 OK.
            It rejects a damaged record.

    Raises:
        DataError: a file is not WARC or is incomplete, or the length of a record is wrong.
    """
    _require_web("import warc")
    for name in names:
        for file in corpus_files(name, *WARC, counts=tally.counts):
            yield from _warc_pages(file, tally)


def _require_web(command: str) -> None:
    for package in ("trafilatura", "fastwarc", "lxml_html_clean"):
        require_extra(package, command, "web")


def _read_page(name: str, counts: Counter[str]) -> JsonObject | None:
    content = whole_file(name)
    if b"<" not in content[:HEAD_BYTES]:
        raise DataError(f"{source_name(name)}: found no tag in the first {HEAD_BYTES} bytes, "
                        "expected HTML")
    return page(content, counts)


def page(content: bytes, counts: Counter[str], charset: str | None = None,
         url: str | None = None) -> JsonObject | None:
    """Extract title, main text, language, licence and date of a page.

    Args:
        content: HTML in bytes.
        counts: counts a page without a main text.
        charset: charset that was sent with the page; None to use the one that the page declares.
        url: address of the page.

    Returns:
        keys of a record; None if there is no main text.
    """
    html = decoded(content, charset, counts)
    trafilatura = _trafilatura()
    tree = trafilatura.load_html(html)
    found, repeated = None, Counter[str]()
    if tree is not None:
        raise_exponents(tree)
        repeated = _prepare(_with_single_blanks(tree), counts)
        found = trafilatura.bare_extraction(
            tree, url=url, include_comments=False, with_metadata=True,
            date_extraction_params={"extensive_search": False})
    text = _ENDS_OF_LINES.sub("", found.text or "").strip() if found else ""
    if not found or not text:
        counts["pages without a main text left out"] += 1
        return None
    if len(text) < _LONGEST_NOTICE and _NEEDS_SCRIPT.search(text):
        counts["pages that need JavaScript to show their text left out"] += 1
        return None
    kept = Counter(text.split("\n"))
    if again := sum(times - kept[one] for one, times in repeated.items() if 0 < kept[one] < times):
        counts["repeated paragraphs left out"] += again
    language = _LANG.search(html)
    date, stated, link = found.date or "", found.license or "", _LICENCE_LINK.search(html)
    meta = filled(url=url or found.url, date=date, year=int(date[:4]) if date else 0,
                  author=found.author)
    return filled(title=found.title, text=text, lang=language and two_letters(language[1].lower()),
                  licence=licence_name(link[0] if link else "", stated) or stated, meta=meta)


def _prepare(tree: HtmlElement, counts: Counter[str]) -> Counter[str]:
    """Change elements that trafilatura leaves out of a main text into elements that it keeps.

    These elements are captions, listings in their figures, formulas without TeX, dates and
    quotations.

    Args:
        tree: tree of the page, changed in place.
        counts: counts asides of articles, which are left out.

    Returns:
        how often each repeated paragraph occurs; trafilatura may keep only one occurrence.
    """
    for caption in tree.xpath("//figure//figcaption[normalize-space()]"):
        for element in (caption, *caption.iterancestors("figure")):
            element.attrib.clear()  # trafilatura drops elements with a caption's class
            element.tag = "div" if element.tag == "figure" else "p"
    for formula in [*tree.iter("math")]:
        text = "".join(formula.itertext()).strip()
        if text and not formula.get("alttext") and not formula.xpath(".//annotation"):
            formula.tag = "p" if formula.get("display") == "block" else "span"
            formula.clear(keep_tail=True)
            formula.text = text
    for element in tree.xpath("//p//time | //li//time | //td//time | //dd//time | //q"):
        element.tag = "span"
    if asides := tree.xpath("//article//aside[normalize-space()]|//main//aside[normalize-space()]"):
        counts["asides of articles left out"] += len(asides)
    found = Counter(" ".join(one.text_content().split()) for one in tree.iter("p"))
    return Counter({text: times for text, times in found.items() if text and times > 1})


def _with_single_blanks(tree: HtmlElement) -> HtmlElement:
    """Replace white space by single spaces, except in preformatted text."""
    as_it_is = {inner for outer in tree.iter("pre", "textarea") for inner in outer.iter()}
    for element in tree.iter():
        if element.text and element not in as_it_is:
            element.text = _WHITE.sub(" ", element.text)
        if element.tail and element.getparent() not in as_it_is:
            element.tail = _WHITE.sub(" ", element.tail)
    return tree


@cache
def _trafilatura() -> ModuleType:
    """Import trafilatura, which takes half a second, and turn off its log about poor pages."""
    import trafilatura

    for name in ("trafilatura", "htmldate", "courlan", "justext"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return trafilatura


class _Forward:
    """Stream without `seek`, because fastwarc 2.0 would try to seek in pipes and panic."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes."""
        content = self._stream.read(size)
        self._position += len(content)
        return content

    def tell(self) -> int:
        """Return the number of bytes read."""
        return self._position


def _warc_pages(name: str, tally: Tally) -> Iterator[Record]:
    """Yield the pages of an archive."""
    from fastwarc.warc import ArchiveIterator

    position, record = 0, None
    with open_bytes(name) as stream:
        records = ArchiveIterator(cast("BinaryIO", _Forward(stream)), parse_http=False)
        while True:
            try:
                record = next(records, None)
            except OSError as error:
                raise DataError(f"{source_name(name)}: found no record of a WARC after the one at "
                                f"byte {position} ({error}); check that the file is a WARC with "
                                "correct Content-Lengths") from error
            if record is None:
                return
            position = record.stream_pos
            place = f"{source_name(name)}:{position}"
            try:
                found = _warc_page(record, tally.counts, place)
            except DataError as error:
                tally.reject(file_error(place, error))
                continue
            if found is not None:
                own_id = record.record_id or f"{source_stem(name)}:{position}"
                yield Record(id=own_id.strip("<>"), **found, place=place)


def _warc_page(record: WarcRecord, counts: Counter[str], place: str) -> JsonObject | None:
    """Extract the page of a record; for other content, count the reason and return None.

    Raises:
        DataError: the record is incomplete, or its page is damaged or larger than a record may be.
    """
    size = record.content_length
    if record.headers.get("WARC-Type") != "response":
        counts["records other than responses skipped"] += 1
        _require_whole(record.consume(), size, record, place)
        return None
    if size > most_bytes():  # other content may be larger, and is not read
        if _is_page(record, counts):
            check_record_size(size, place)
        return None
    whole = record.reader.read()
    _require_whole(len(whole), size, record, place)
    for encoding in get_args(_Packing):  # some archives keep the header of compressed pages
        try:
            own = _own_record(whole)
            if not _is_page(own, counts, encoding):
                return None
            content = own.reader.read(most_bytes() + 1)
        except OSError as error:
            fault = error
        else:
            if encoding == "all" or content.lstrip(_BEFORE_TAGS).startswith(b"<"):
                break
    else:
        raise DataError(f"{place}: found a response that cannot be read ({fault})") from fault
    check_record_size(len(content), place)
    if record.headers.get("WARC-Truncated"):
        counts["pages truncated by the crawler"] += 1
    found = page(content, counts, own.http_charset, record.headers.get("WARC-Target-URI"))
    crawled = filled(crawled=record.headers.get("WARC-Date"))
    return found and {**found, "meta": found.get("meta", {}) | crawled}


def _own_record(content: bytes) -> WarcRecord:
    """Make a separate record of a response, so that its errors do not end the archive."""
    from fastwarc.warc import WarcRecord

    return WarcRecord.from_bytes(
        b"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(content), content))


def _is_page(record: WarcRecord, counts: Counter[str], encoding: _Packing = "none") -> bool:
    """Read the header of a response, and count the response if it is not an HTML page."""
    record.parse_http(auto_decode=encoding)
    kind = (record.http_content_type or "").partition(";")[0].strip().lower()
    if record.http_headers and record.http_headers.status_code != 200:
        counts["responses with a status other than 200 left out"] += 1
    elif kind not in _HTML_TYPES:
        counts["responses other than HTML left out"] += 1
    else:
        return True
    return False


def _require_whole(found: int, expected: int, record: WarcRecord, place: str) -> None:
    """Raise an error for a record shorter than its length, as at the end of an incomplete file."""
    told = expected if "Content-Length" in record.headers else "a Content-Length"
    if found != told:
        raise DataError(f"{place}: found {found} bytes of a record, expected {told}; the file is "
                        "incomplete, so copy or download it again")
