"""TMX and TSV files of sentences or terms with their translations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from bmtools.corpus.xml_stream import xml_elements
from bmtools.errors import DataError, setting
from bmtools.io.sources import read_lines
from bmtools.text.languages import primary_language

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# These contain code of the original format, not text.
_CODE = ("bpt", "ept", "it", "ph", "ut", "sub")


def read_pairs(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Read sentence pairs, with normalised white space.

    Raises:
        DataError: the file is not TMX or TSV, or does not contain both languages.
    """
    is_tmx = path.name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tmx")
    pairs = (_tmx_pairs if is_tmx else _tsv_pairs)(
        path, primary_language(source), primary_language(target))
    pair = None
    for pair in pairs:
        yield pair
    if pair is None:
        raise DataError(f"{path}: found no pair of '{source}' and '{target}'; "
                        f"use another {setting('memory')} or other languages")


def _tsv_pairs(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    columns: tuple[int, int] | None = None
    width = 2
    for number, line in read_lines(str(path)):
        cells = line.split("\t")
        if not line.strip():
            continue
        if columns is None:
            columns = _header(cells, source, target)
            width = len(cells)
            if columns is not None:
                continue
            columns = 0, 1
            if width != 2 or all(map(_is_language, cells)):
                raise DataError(f"{path}:{number}: found {width} columns {cells[:6]}, expected "
                                f"two, or a header that names '{source}' and '{target}'")
        if len(cells) != width:
            raise DataError(f"{path}:{number}: found {len(cells)} columns, expected {width}")
        left, right = (" ".join(cells[column].split()) for column in columns)
        if not left or not right:
            raise DataError(f"{path}:{number}: found an empty sentence, expected one in each "
                            "language; fill it in or remove the line")
        yield left, right


def _header(cells: Sequence[str], source: str, target: str) -> tuple[int, int] | None:
    """Return the indices of the two columns that the first line names."""
    names = [primary_language(cell.strip()) for cell in cells]
    for left, right in ((source, target), ("source", "target")):
        if left in names and right in names:
            return names.index(left), names.index(right)
    return None


def _is_language(cell: str) -> bool:
    """Return whether a cell is a language code, as in a header that names other languages."""
    import langcodes

    return bool(re.fullmatch(r"[a-z]{2,3}([-_]\w+)?", cell)) and langcodes.tag_is_valid(cell)


def _tmx_pairs(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    from lxml.etree import strip_elements

    for unit in xml_elements(str(path), ("tmx",), ("tu",)):
        found: dict[str, str] = {}
        for variant in unit.iterfind("tuv"):
            language = primary_language(variant.get(_LANG) or variant.get("lang") or "")
            segment = variant.find("seg")
            if segment is not None:
                strip_elements(segment, *_CODE, with_tail=False)
                found.setdefault(language, " ".join("".join(segment.itertext()).split()))
        if found.get(source) and found.get(target):
            yield found[source], found[target]
