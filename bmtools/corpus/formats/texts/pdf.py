"""Text of PDF files, page by page, by pypdf: words and paragraphs, without heads and feet."""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from bmtools.corpus.formats.texts.documents import (
    MOST_RECORDS,
    document_records,
    filled,
    joined,
    whole_file,
)
from bmtools.errors import DataError, Reject, refuse
from bmtools.installation import require_extra
from bmtools.io.failures import reading
from bmtools.io.record_size import check_record_size
from bmtools.io.sources import source_name
from bmtools.records import JsonObject, Record
from bmtools.text.languages import two_letters

if TYPE_CHECKING:
    from pypdf import PdfReader

_EDGE = 3  # lines at the top and at the bottom of a page that may be heads and feet
_FULL = 0.75  # of the usual length: a shorter line ends a paragraph
_PLAIN = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st",
          0xFB06: "st", **dict.fromkeys((*range(9), *range(11, 32), 127))}
_HYPHENS = "-\u2010\u00ad"
_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"[ivxlc]+", re.IGNORECASE)
_SPLIT = re.compile(rf"([^\W\d_]+)[{_HYPHENS}]$")
_START = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ITEM = re.compile(r"[•◦▪‣\u2013\u2014*·]\s|\(?[a-z]\)\s|\(?\d{1,3}(?:\.\d+)*[.)]\s|\[\d+\]\s")
_ENDS = ".!?:;…"
_LEADERS = re.compile(r"(?<!\.)(?<!\. )(?:\. ?){4,}+\w{0,6}$")  # of a table of contents

_BLANK = 250  # thousandths of the size of a font: width of a blank that has none
_BLANK_CODE = 32
_TO_BLANK = re.compile(rb"<\w+>[ \t]*<0020>[ \t]*[\r\n]")  # in a table of characters
_MOST_STREAM_BYTES = 32_000_000
_MOST_OPERATORS = 10_000_000  # of all pages; pypdf does some 90,000 a second
_FORM_WORK = 300  # operators that take as long as a form, or an image
_MOST_FORMS = 5000  # of a page; pypdf reads no more
_SOURCES = (".doc", ".docx", ".tex", ".dvi", ".indd", ".pdf", ".qxd")  # titles by programs
_MAGIC, _MAGIC_WITHIN = b"%PDF-", 1024  # bytes


def pdf_records(names: Iterable[str], counts: Counter[str] | None = None,
                reject: Reject = refuse, folder: str = "") -> Iterator[Record]:
    """Yield a record for every PDF, with its text in paragraphs, one a line.

    Columns come in the order in which the file has them. `meta.sections` has the offsets of
    pages: a paragraph belongs to the page that it begins on. See `paragraphs` for what is mended.

    Args:
        names: PDF files, folders or archives of such, compressed or not; `-` for stdin.
        counts: counts lines that are left out, and hyphens that are removed.
        reject: receives a file that is damaged, encrypted, or has no text but images.
        folder: that the names were found in, if by `files_in_folders`.
    """
    require_extra("pypdf", "import pdf", "documents")
    counts = Counter() if counts is None else counts
    return document_records(names, (".pdf",), _read_pdf, counts, reject, folder)


def _read_pdf(name: str, counts: Counter[str]) -> JsonObject:
    """Read a PDF.

    Raises:
        DataError: see `pdf_records`, or it needs far more work or memory than texts do.
    """
    from pypdf import PdfReader

    place, content = source_name(name), whole_file(name, MOST_RECORDS)
    if _MAGIC not in content[:_MAGIC_WITHIN]:
        raise DataError(f"{place}: found no {_MAGIC.decode()} at the start, expected a PDF")
    with reading(place, "this PDF cannot be read", "print it to a new one, or copy or download it "
                 "again", DataError), _limits():
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DataError(f"{place}: found an encrypted PDF, expected one that opens without a "
                            "password; qpdf --password=... --decrypt removes it")
        pages = _page_texts(reader, place, counts)
        about = _about(reader)
    found = paragraphs(pages, counts)
    if not found:
        raise DataError(f"{place}: found no text in {len(pages)} pages, which may be images; "
                        "ocrmypdf recognises text in them")
    text, sections = joined((f"page {page}", "\n".join(text for _, text in own))
                            for page, own in groupby(found, attrgetter("page")))
    meta = filled(pages=len(pages), sections=sections, year=about.pop("year", 0))
    return {**about, "text": text, "meta": meta}


def _limits() -> AbstractContextManager[object]:
    """Limit what pypdf does, and silence it."""
    from pypdf import apply_configuration

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    limits: JsonObject = dict.fromkeys((f"{one}_maximum_output_length" for one in (
        "array_based_stream", "lzw", "run_length", "zlib", "brotli")), _MOST_STREAM_BYTES)
    return apply_configuration(xform_maximum_invocations_per_extraction=_MOST_FORMS, **limits)


def _page_texts(reader: PdfReader, place: str, counts: Counter[str]) -> list[str]:
    """Extract the text of all pages, with a limit on the work: forms can nest, and pages repeat."""
    left, forms = _MOST_OPERATORS, 0

    def count(operator: bytes = b"", *_: object) -> None:
        nonlocal left, forms
        forms += operator == b"Do"
        left -= _FORM_WORK if operator == b"Do" else 1
        if left < 0:
            raise DataError(f"{place}: found more than {_MOST_OPERATORS} operators on its pages, "
                            "expected less; such files can take days")

    texts, size, seen = [], 0, set[int]()
    for page in reader.pages:
        forms = 0
        _mend_blanks(page.get("/Resources"), seen)
        text = page.extract_text(space_width=_BLANK, visitor_operand_before=count)
        if forms > _MOST_FORMS:
            counts[f"pages with more than {_MOST_FORMS} forms, not all read"] += 1
        size += len(text)
        check_record_size(size, place)
        count()
        texts.append(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return texts


def _about(reader: PdfReader) -> JsonObject:
    """Read title, language and year, as far as the file states them."""
    about: Mapping[str, object] = reader.metadata or {}
    title = str(about.get("/Title") or "").strip()
    is_file_name = title.lower().endswith(_SOURCES)
    year = str(about.get("/CreationDate") or "").removeprefix("D:")[:4]
    language = reader.root_object.get("/Lang")
    return filled(title="" if is_file_name or title.lower() == "untitled" else title,
                  lang=two_letters(language[:3].rstrip("-_")) if isinstance(language, str) else "",
                  year=int(year) if year.isdecimal() else 0)


def _mend_blanks(resources: object, seen: set[int]) -> None:
    """Remove the width that such fonts give code 32, which is that of some other character.

    pypdf takes it for that of a blank, and runs words together that are less far apart than half
    of it (pypdf 7.1; most words of texts set by XeLaTeX).

    Args:
        resources: of a page or a form, which may hold further forms.
        seen: identities of what was looked at before.
    """
    waiting = [resources]
    while waiting:
        found = _resolved(waiting.pop())
        if not isinstance(found, dict) or id(found) in seen:
            continue
        seen.add(id(found))
        for font in _values(found, "/Font"):
            if id(font) not in seen:
                seen.add(id(font))
                _mend_font(font)
        waiting += [form.get("/Resources") for form in _values(found, "/XObject")]


def _values(resources: JsonObject, key: str) -> list[JsonObject]:
    found = _resolved(resources.get(key))
    values = map(_resolved, found.values()) if isinstance(found, dict) else ()
    return [value for value in values if isinstance(value, dict)]


def _resolved(value: object) -> object:
    return value.get_object() if hasattr(value, "get_object") else value


def _mend_font(font: JsonObject) -> None:
    from pypdf.generic import ArrayObject, NameObject, NumberObject

    descendants, encoding, widths, first = (_resolved(font.get(key)) for key in (
        "/DescendantFonts", "/Encoding", "/Widths", "/FirstChar"))
    zero, code = NumberObject(0), NumberObject(_BLANK_CODE)
    if isinstance(descendants, list) and descendants:
        table, inner = _resolved(font.get("/ToUnicode")), _resolved(descendants[0])
        if hasattr(table, "get_data") and isinstance(inner, dict) \
                and not _TO_BLANK.search(table.get_data()):
            old = _resolved(inner.get("/W"))
            new = [*(old if isinstance(old, list) else ()), code, code, zero]
            inner[NameObject("/W")] = ArrayObject(new)
    elif isinstance(encoding, dict) and isinstance(widths, list) and isinstance(first, int):
        differences = _resolved(encoding.get("/Differences"))
        has_blank = "/BaseEncoding" in encoding or not isinstance(differences, list) \
            or "/space" in differences
        if not has_blank and first <= _BLANK_CODE < first + len(widths):
            place = _BLANK_CODE - first
            font[NameObject("/Widths")] = ArrayObject([*widths[:place], zero, *widths[place + 1:]])


class Paragraph(NamedTuple):
    """Text that stands on one page or more; the number of the first, from 1."""

    page: int
    text: str


def paragraphs(pages: Sequence[str], counts: Counter[str]) -> list[Paragraph]:
    """Make running text of pages.

    - Lines at the edges of pages that come again on others are running heads, feet and page
      numbers, and are left out.
    - A word that is divided at the end of a line loses its hyphen, unless the document has it with
      the hyphen elsewhere, or both its parts as words and not the whole.
    - Lines are joined to paragraphs, which end with a short line, before an item of a list, or at
      a blank line, and may go on over pages.

    Args:
        pages: lines of each, as they were printed.
        counts: counts lines that are left out and hyphens that are removed.
    """
    lines = [[_plain(line) for line in page.split("\n")] for page in pages]
    kept = _without_running(lines, counts)
    found: list[tuple[int, list[str]]] = []
    words = _words(kept)
    for number, page in enumerate(kept, 1):
        usual, before = _usual_length(page), ""
        for line in page:
            if line and found and _goes_on(before, line, usual, found[-1], number):
                _join(found[-1][1], line, words, counts)
            elif line:
                found.append((number, [line]))
            before = line
    return [Paragraph(number, "".join(parts)) for number, parts in found]


def _plain(line: str) -> str:
    """Write ligatures as letters, drop control characters, set single blanks between words."""
    return " ".join(line.translate(_PLAIN).split())


def _without_running(pages: Sequence[list[str]], counts: Counter[str]) -> list[list[str]]:
    """Remove the outermost lines of pages that other pages have, too."""
    edges = [(_filled(page)[:_EDGE], _filled(page[::-1])[:_EDGE]) for page in pages]
    seen = Counter(key for number, sides in enumerate(edges) for side, lines in enumerate(sides)
                   for key in {(side, key) for line in lines for key in _keys(line, number)})
    least = max(2, min(3, len(pages)))
    kept = []
    for number, (page, sides) in enumerate(zip(pages, edges, strict=True)):
        top, bottom = (_running(lines, side, number, seen, least)
                       for side, lines in enumerate(sides))
        filled = _filled(page)
        top, bottom = (top, bottom) if top + bottom <= len(filled) else (len(filled), 0)
        counts["running heads, feet and page numbers left out"] += top + bottom
        kept.append(_without_ends(page, top, bottom))
    return kept


def _running(lines: Sequence[str], side: int, number: int, seen: Counter[tuple[int, str]],
             least: int) -> int:
    """Count the outermost lines that come again; the title does on later pages, as their head."""
    may_be_title = number == side == 0
    return sum(1 for _ in takewhile(lambda line: any(
        seen[side, key] >= least and not (may_be_title and key == line)
        for key in _keys(line, number)), lines))


def _filled(lines: Sequence[str]) -> list[str]:
    return list(filter(None, lines))


def _without_ends(page: list[str], top: int, bottom: int) -> list[str]:
    """Remove so many lines that are not blank from either end."""
    places = [place for place, line in enumerate(page) if line]
    kept = places[top:len(places) - bottom]
    return page[kept[0]:kept[-1] + 1] if kept else []


def _keys(line: str, page: int) -> Iterator[str]:
    """Name what a head or foot has in common with those of other pages.

    That is the line as it is, or with one number that grows with the pages.
    """
    if _NUMBER.sub("", line).strip():
        yield line
    for found in _NUMBER.finditer(line):
        if len(found[0]) < 6:
            yield f"{line[:found.start()]}\0{int(found[0]) - page}{line[found.end():]}"
    if _ROMAN.fullmatch(line):
        yield f"\1{_roman(line) - page}"


def _roman(numeral: str) -> int:
    values = [dict(zip("ivxlc", (1, 5, 10, 50, 100), strict=True))[letter]
              for letter in numeral.lower()]
    return sum(-one if one < after else one
               for one, after in zip(values, [*values[1:], 0], strict=True))


def _usual_length(page: Sequence[str]) -> int:
    lengths = sorted(len(line) for line in page if line)
    return lengths[int(len(lengths) * 0.8)] if lengths else 0


def _goes_on(before: str, line: str, usual: int, last: tuple[int, list[str]], page: int) -> bool:
    """Tell whether a line belongs to the paragraph before it."""
    end = last[1][-1]
    if _SPLIT.search(end) and line[0].islower():
        return True
    if (before == "" and page == last[0]) or _ITEM.match(line) or _LEADERS.search(end):
        return False
    if page != last[0] and before == "":
        return end[-1] not in _ENDS and line[0].islower()
    is_short = len(before) < _FULL * usual
    return not is_short or (before[-1] not in _ENDS and line[0].islower())


def _join(parts: list[str], line: str, words: Counter[str], counts: Counter[str]) -> None:
    """Add a line to a paragraph, with a blank, or as the rest of a divided word."""
    divided, rest = _SPLIT.search(parts[-1]), _START.match(line)
    if divided and rest and _is_one_word(divided[1], rest[0], words):
        parts[-1] = parts[-1][:-1]
        counts["hyphens at ends of lines removed"] += 1
    elif not divided:
        parts.append(" ")
    parts.append(line)


def _is_one_word(first: str, second: str, words: Counter[str]) -> bool:
    """Tell whether a hyphen at the end of a line only divides a word, by the document's words."""
    if len(first) == 1 or not second[0].islower():
        return False
    first, second = first.lower(), second.lower()
    if words[first + second]:
        return True
    is_compound = words[f"{first}-{second}"] or (words[first] and words[second])
    return not is_compound


def _words(pages: Sequence[Sequence[str]]) -> Counter[str]:
    """Count the words within lines; those at ends and starts may be parts."""
    return Counter(word for page in pages for line in page
                   for word in _WORD.findall(line.lower())[:-1])
