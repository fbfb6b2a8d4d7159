"""Text of PDF files, page by page, by pypdf: words and paragraphs, without heads and feet."""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING

from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.formats.texts.documents import (
    MOST_RECORDS,
    document_records,
    filled,
    joined,
    whole_file,
)
from bmtools.errors import DataError
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
_SPLIT = re.compile(rf"([^\W\d_]+)[{_HYPHENS}]$")
_START = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ITEM = re.compile(r"[•◦▪‣\u2013\u2014*·]\s|\(?[a-z]\)\s|\(?\d{1,3}(?:\.\d+)*[.)]\s|\[\d+\]\s")
_ENDS = ".!?:;…"
_MOST_STREAM_BYTES = 32_000_000
_MOST_FORMS = 5000  # of a page
_SOURCES = (".doc", ".docx", ".tex", ".dvi", ".indd", ".pdf", ".qxd")  # titles by programs
_MAGIC, _MAGIC_WITHIN = b"%PDF-", 1024  # bytes


@reader
def pdf_records(names: Iterable[str], tally: Tally, folder: str = "") -> Iterator[Record]:
    """Yield a record for every PDF, with its text in paragraphs, one a line.

    Columns come in the order in which the file has them. `meta.sections` has the offsets of
    pages: a paragraph belongs to the page that it begins on. See `paragraphs` for what is mended.

    Args:
        names: PDF files, folders or archives of such, compressed or not; `-` for stdin.
        tally: counts lines that are left out, and hyphens that are removed.
            It rejects a file that is damaged, encrypted, or has no text but images.
        folder: that the names were found in, if they are from one.
    """
    require_extra("pypdf", "import pdf", "documents")
    return document_records(names, (".pdf",), _read_pdf, tally, folder)


def _read_pdf(name: str, counts: Counter[str]) -> JsonObject:
    """Read a PDF.

    Raises:
        DataError: see `pdf_records`.
    """
    from pypdf import PdfReader, apply_configuration

    place, content = source_name(name), whole_file(name, MOST_RECORDS)
    if _MAGIC not in content[:_MAGIC_WITHIN]:
        raise DataError(f"{place}: found no {_MAGIC.decode()} at the start, expected a PDF")
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    limits: JsonObject = dict.fromkeys((f"{one}_maximum_output_length" for one in (
        "array_based_stream", "lzw", "run_length", "zlib", "brotli")), _MOST_STREAM_BYTES)
    with reading(place, "this PDF cannot be read", "print it to a new one, or copy or download it "
                 "again", DataError), \
            apply_configuration(xform_maximum_invocations_per_extraction=_MOST_FORMS, **limits):
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DataError(f"{place}: found an encrypted PDF, expected one that opens without a "
                            "password; qpdf --password=... --decrypt removes it")
        pages = _page_texts(reader, place)
        about = _about(reader)
    found = paragraphs(pages, counts)
    if not found:
        raise DataError(f"{place}: found no text in {len(pages)} pages, which may be images; "
                        "ocrmypdf recognises text in them")
    text, sections = joined((f"page {page}", "\n".join(text for _, text in own))
                            for page, own in groupby(found, itemgetter(0)))
    meta = filled(pages=len(pages), sections=sections, year=about.pop("year", 0))
    return {**about, "text": text, "meta": meta}


def _page_texts(reader: PdfReader, place: str) -> list[str]:
    texts, size = [], 0
    for page in reader.pages:
        text = page.extract_text()
        size += len(text)
        check_record_size(size, place)
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


def paragraphs(pages: Sequence[str], counts: Counter[str]) -> list[tuple[int, str]]:
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

    Returns:
        the texts, each after the number of the page that it begins on, from 1.
    """
    # Ligatures become letters, control characters go, and single blanks are between words.
    lines = [[" ".join(line.translate(_PLAIN).split()) for line in page.split("\n")]
             for page in pages]
    kept = _without_running(lines, counts)
    found: list[tuple[int, list[str]]] = []
    # Words at ends and starts of lines may be parts.
    words = Counter(word for page in kept for line in page
                    for word in _WORD.findall(line.lower())[:-1])
    for number, page in enumerate(kept, 1):
        lengths = sorted(len(line) for line in page if line)
        usual, before = lengths[int(len(lengths) * 0.8)] if lengths else 0, ""
        for line in page:
            if line and found and _goes_on(before, line, usual, found[-1], number):
                _join(found[-1][1], line, words, counts)
            elif line:
                found.append((number, [line]))
            before = line
    return [(number, "".join(parts)) for number, parts in found]


def _without_running(pages: Sequence[list[str]], counts: Counter[str]) -> list[list[str]]:
    """Remove the outermost lines of pages that other pages have, too."""
    filled = [[place for place, line in enumerate(page) if line] for page in pages]
    edges = [[[page[place] for place in places[:_EDGE]] for places in (own, own[::-1])]
             for page, own in zip(pages, filled, strict=True)]
    seen = Counter(key for number, sides in enumerate(edges) for side, lines in enumerate(sides)
                   for key in {(side, key) for line in lines for key in _keys(line, number)})
    least = max(2, min(3, len(pages)))
    kept = []
    for number, (page, own, sides) in enumerate(zip(pages, filled, edges, strict=True)):
        top, bottom = (_running(lines, side, number, seen, least)
                       for side, lines in enumerate(sides))
        top, bottom = (top, bottom) if top + bottom <= len(own) else (len(own), 0)
        counts["running heads, feet and page numbers left out"] += top + bottom
        inner = own[top:len(own) - bottom]
        kept.append(page[inner[0]:inner[-1] + 1] if inner else [])
    return kept


def _running(lines: Sequence[str], side: int, number: int, seen: Counter[tuple[int, str]],
             least: int) -> int:
    """Count the outermost lines that come again; the title does on later pages, as their head."""
    may_be_title = number == side == 0
    return sum(1 for _ in takewhile(lambda line: any(
        seen[side, key] >= least and not (may_be_title and key == line)
        for key in _keys(line, number)), lines))


def _keys(line: str, page: int) -> Iterator[str]:
    """Name what a head or foot has in common with those of other pages.

    That is the line as it is, or with one number that grows with the pages.
    """
    if _NUMBER.sub("", line).strip():
        yield line
    for found in _NUMBER.finditer(line):
        if len(found[0]) < 6:
            yield f"{line[:found.start()]}\0{int(found[0]) - page}{line[found.end():]}"


def _goes_on(before: str, line: str, usual: int, last: tuple[int, list[str]], page: int) -> bool:
    """Tell whether a line belongs to the paragraph before it."""
    end = last[1][-1]
    if _SPLIT.search(end) and line[0].islower():
        return True
    if (before == "" and page == last[0]) or _ITEM.match(line):
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
