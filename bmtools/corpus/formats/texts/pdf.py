"""Text of PDF files, read page by page with pypdf: paragraphs without running heads and feet."""

from __future__ import annotations

import io
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, groupby, pairwise, takewhile
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

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
    from pypdf import PageObject, PdfReader

_EDGE = 6  # lines at the top and bottom of a page that may be heads and feet
_MARGIN = 0.15  # part of a page's height at top and bottom that may contain heads and feet
_GAP = 1.5  # minimum gap between text and heads or feet, in usual line distances
_FULL = 0.75  # part of the usual line length; a shorter line ends a paragraph
_PLAIN = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st",
          0xFB06: "st", **dict.fromkeys((*range(9), *range(11, 32), 127))}
_HYPHENS = "-\u2010\u00ad"
_NUMBER = re.compile(r"\d+")
_LETTER = re.compile(r"[^\W\d_]")
_SPLIT = re.compile(rf"([^\W\d_]+)[{_HYPHENS}]$")
_START = re.compile(r"[^\W\d_]+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
# Words that PubMed writes with a hyphen. Their parts are almost never parts of a divided word.
_COMPOUND = re.compile(
    "(age|alpha|angiotensin|beta|calcium|cost|dose|double|drug|first|follow|gamma|half|insulin|long"
    "|mild|non|once|one|open|parallel|patient|placebo|quality|rate|risk|second|self|single|steady"
    "|sustained|third|three|time|treatment|two|well|year)-.*|.*-(acting|adjusted|analysis|associated"
    "|based|blind|blinded|blockade|blockers?|cell|channel|controlled|converting|daily|density"
    "|dependent|dose|drug|effectiveness|free|guided|induced|inflammatory|label|lasting|life|like"
    "|lowering|matched|mediated|negative|old|onset|oriented|positive|receptor|related|release"
    "|resistant|response|risk|sectional|sensitive|small|specific|term|threatening|tolerated|treated"
    "|up|years?)")
_ITEM = re.compile(r"[•◦▪‣\u2013\u2014*·]\s|\(?[a-z]\)\s|\(?\d{1,3}(?:\.\d+)*[.)]\s|\[\d+\]\s")
_ENDS = ".!?:;…"
_MOST_STREAM_BYTES = 32_000_000
_MOST_FORMS = 5000  # forms on a page
_SOURCES = (".doc", ".docx", ".tex", ".dvi", ".indd", ".pdf", ".qxd")  # titles set by programs
_MAGIC, _MAGIC_WITHIN = b"%PDF-", 1024  # bytes


@reader
def pdf_records(names: Iterable[str], tally: Tally, folder: str = "") -> Iterator[Record]:
    """Yield a record for every PDF, with one paragraph per line.

    Columns are in the order of the file. `meta.sections` contains the offsets of pages: a paragraph
    belongs to the page on which it begins. `paragraphs` lists the corrections.

    Args:
        names: PDF files, or folders or archives of PDF files, compressed or not; `-` for stdin.
        tally: counts lines that are left out, and hyphens that are removed.
            It rejects a file that is damaged or encrypted, or has only images.
        folder: folder that contains the names, if any.
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
    with reading(place, "this PDF cannot be read", "print it to a new PDF, or copy or download it "
                 "again", DataError), \
            apply_configuration(xform_maximum_invocations_per_extraction=_MOST_FORMS, **limits):
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DataError(f"{place}: found an encrypted PDF, expected one that opens without a "
                            "password; remove it with qpdf --password=... --decrypt")
        pages = _read_pages(reader, place)
        about = _about(reader)
    found = paragraphs(pages, counts)
    if not found:
        raise DataError(f"{place}: found no text in {len(pages)} pages, which may be images; "
                        "use ocrmypdf to recognise their text")
    text, sections = joined((f"page {page}", "\n".join(text for _, text in own))
                            for page, own in groupby(found, itemgetter(0)))
    meta = filled(pages=len(pages), sections=sections, year=about.pop("year", 0))
    return {**about, "text": text, "meta": meta}


def _read_pages(reader: PdfReader, place: str) -> list[Page]:
    found, size = list[tuple[list[str], list[float], float, float]](), 0
    for page in reader.pages:
        lines, heights = _lines(page)
        size += sum(map(len, lines))
        check_record_size(size, place)
        bottom = height = math.nan  # without them, the page has no margins
        with suppress(ValueError):
            bottom, height = float(page.cropbox.bottom), float(page.cropbox.height) or math.nan
        found.append((lines, heights, bottom, height))
    gap = _GAP * median([upper - lower for _, heights, *_ in found
                         for upper, lower in pairwise(heights) if upper > lower] or [0])
    return [Page(lines, *(_marginal(lines[::way], [(y - bottom) / height for y in heights[::way]],
                                    gap / height) for way in (1, -1)))
            for lines, heights, bottom, height in found]


def _lines(page: PageObject) -> tuple[list[str], list[float]]:
    """Read the lines of a page and the heights of their baselines, NaN for blank lines."""
    lines, heights = [""], [math.nan]

    def visit(text: str, outer: Sequence[float], matrix: Sequence[float], *_: object) -> None:
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append("")
                heights.append(math.nan)
            if part.strip() and not lines[-1].strip():
                heights[-1] = matrix[4] * outer[1] + matrix[5] * outer[3] + outer[5]
            lines[-1] += part

    page.extract_text(visitor_text=visit)
    return [line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            for line in lines], heights


def _marginal(lines: Sequence[str], heights: Sequence[float], gap: float) -> int:
    """Count the first lines that are in a margin and separated from the text by a gap.

    Args:
        lines: lines of a page, from its top or bottom.
        heights: heights of the lines, from 0 at the bottom of the page to 1.
        gap: minimum distance between a head or foot and the text, in the same unit.
    """
    own = [(line, y) for line, y in zip(lines, heights, strict=True) if line.strip()][:_EDGE + 1]
    found = int(bool(own) and not _LETTER.search(own[0][0]))  # a bare number needs no gap
    for number, ((_, one), (_, after)) in enumerate(pairwise(own), 1):
        if not abs(one - 0.5) > 0.5 - _MARGIN:
            break
        if abs(one - after) > gap:
            found = number
    return found


def _about(reader: PdfReader) -> JsonObject:
    """Read title, language and year, if the file states them."""
    about: Mapping[str, object] = reader.metadata or {}
    title = str(about.get("/Title") or "").strip()
    is_file_name = title.lower().endswith(_SOURCES)
    year = str(about.get("/CreationDate") or "").removeprefix("D:")[:4]
    language = reader.root_object.get("/Lang")
    return filled(title="" if is_file_name or title.lower() == "untitled" else title,
                  lang=two_letters(language[:3].rstrip("-_")) if isinstance(language, str) else "",
                  year=int(year) if year.isdecimal() else 0)


class Page(NamedTuple):
    """Printed lines of a page.

    Args:
        lines: all lines.
        top: number of lines in the upper margin, without blank lines.
        bottom: number of lines in the lower margin, without blank lines.
    """

    lines: list[str]
    top: int = 0
    bottom: int = 0


def paragraphs(pages: Sequence[Page], counts: Counter[str]) -> list[tuple[int, str]]:
    """Convert pages to running text.

    - Marginal lines that recur on other pages, perhaps with another page number, are left out as
      running heads and feet. Page numbers are also left out.
    - A word that is divided at the end of a line loses its hyphen. It keeps the hyphen if the
      document contains the hyphenated word elsewhere, or both parts as words but not the joined
      word, or if one of the parts is usually hyphenated, as in beta-blockers.
    - Lines are joined to paragraphs, which end with a short line, before a list item or at a blank
      line. A paragraph may continue on the next page.

    Args:
        pages: pages of a document.
        counts: counts lines that are left out and hyphens that are removed.

    Returns:
        the texts, each with the number of the page on which it begins, from 1.
    """
    # Replace ligatures by letters, remove control characters, and put single spaces between words.
    plain = [page._replace(lines=[" ".join(line.translate(_PLAIN).split()) for line in page.lines])
             for page in pages]
    kept = _without_running(plain, counts)
    found: list[tuple[int, list[str]]] = []
    words = _whole_words(line for page in kept for line in page if line)
    for number, page in enumerate(kept, 1):
        lengths = sorted(len(line) for line in page if line)
        usual, before = lengths[int(len(lengths) * 0.8)] if lengths else 0, ""
        for line in page:
            if line and found and _continues(before, line, usual, found[-1], number):
                _join(found[-1][1], line, words, counts)
            elif line:
                found.append((number, [line]))
            before = line
    return [(number, "".join(parts)) for number, parts in found]


def _without_running(pages: Sequence[Page], counts: Counter[str]) -> list[list[str]]:
    """Remove marginal lines that other pages also have, but never all lines of a file."""
    filled = [[place for place, line in enumerate(page.lines) if line] for page in pages]
    edges = [[[page.lines[place] for place in places] for places in (
        own[:page.top], own[::-1][:page.bottom])] for page, own in zip(pages, filled, strict=True)]
    seen = Counter(key for number, sides in enumerate(edges) for side, lines in enumerate(sides)
                   for key in {(side, key) for line in lines for key in _keys(line, number)})
    least = max(2, min(3, len(pages)))
    kept, removed = [], 0
    for number, (page, own, sides) in enumerate(zip(pages, filled, edges, strict=True)):
        top, bottom = (_running(lines, side, number, seen, least)
                       for side, lines in enumerate(sides))
        top, bottom = (top, bottom) if top + bottom <= len(own) else (len(own), 0)
        removed += top + bottom
        inner = own[top:len(own) - bottom]
        kept.append(page.lines[inner[0]:inner[-1] + 1] if inner else [])
    if not any(kept[1:]):  # all pages have the same lines
        return [page.lines for page in pages]
    counts["running heads, feet and page numbers left out"] += removed
    return kept


def _running(lines: Sequence[str], side: int, number: int, seen: Counter[tuple[int, str]],
             least: int) -> int:
    """Count the outermost lines that recur; the title may recur on later pages as their head."""
    may_be_title = number == side == 0
    return sum(1 for _ in takewhile(lambda line: any(
        seen[side, key] >= least and not (may_be_title and key == line)
        for key in _keys(line, number)), lines))


def _keys(line: str, page: int) -> Iterator[str]:
    """Yield the keys that a head or foot shares with the heads or feet of other pages.

    A key is the unchanged line, or the line with a number that increases with the pages.
    """
    if _NUMBER.sub("", line).strip():
        yield line
    for found in _NUMBER.finditer(line):
        if len(found[0]) < 6:
            yield f"{line[:found.start()]}\0{int(found[0]) - page}{line[found.end():]}"


def _continues(before: str, line: str, usual: int, last: tuple[int, list[str]], page: int) -> bool:
    """Return whether a line belongs to the paragraph before it."""
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
    """Add a line to a paragraph, after a space or as the rest of a divided word."""
    divided, rest = _SPLIT.search(parts[-1]), _START.match(line)
    if divided and rest and _is_one_word(divided[1], rest[0], words):
        parts[-1] = parts[-1][:-1]
        counts["hyphens at line ends removed"] += 1
    elif not divided:
        parts.append(" ")
    parts.append(line)


def _whole_words(lines: Iterable[str]) -> Counter[str]:
    """Count the words of lines except for possible parts of words, at line ends and after hyphens.
    """
    return Counter(word for before, line in pairwise(chain([""], lines)) for word in _WORD.findall(
        line.lower())[int(bool(_SPLIT.search(before))):-1])


def _is_one_word(first: str, second: str, words: Counter[str]) -> bool:
    """Return whether a hyphen at the end of a line only divides a word.

    It does if the document contains the joined word. It does not if the document contains the
    hyphenated word or both parts. Otherwise a list of hyphenated words decides.
    """
    if len(first) == 1 or not second[0].islower():
        return False
    first, second = first.lower(), second.lower()
    if words[first + second]:
        return True
    compound = f"{first}-{second}"
    return not (words[compound] or (words[first] and words[second])
                or _COMPOUND.fullmatch(compound))
