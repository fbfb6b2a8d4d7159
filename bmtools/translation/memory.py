"""Engine on a translation memory: sentences that people have translated before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bmtools.corpus.languages import primary_language
from bmtools.errors import DataError, setting
from bmtools.io.jsonl import open_bytes, read_lines
from bmtools.translation.translator import Translation

_FINAL = re.compile(r"[\s.!?:;,…]*$")
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# What these hold is code of the original format, not text.
_CODE = frozenset(("bpt", "ept", "it", "ph", "ut", "sub"))


class MemoryTranslator:
    """Translator that looks sentences up in a TMX or TSV file.

    A sentence is found as it is, apart from white space, or else without regard to case and
    final punctuation. Where a source occurs twice, its first translation counts.
    """

    name = "memory"
    marks_unknown = False
    batch_sentences = 2000

    def __init__(self, path: Path, source: str, target: str) -> None:
        self.details = {"memory": path.name}
        self._path = path
        self._exact: dict[str, str] = {}
        self._loose: dict[str, str] = {}
        for sentence, translation in read_pairs(path, source, target):
            self._exact.setdefault(sentence, translation)
            self._loose.setdefault(_loosened(sentence), translation)

    def translate(self, sentences: Sequence[str]) -> list[Translation]:
        """Look sentences up."""
        return [self._found(sentence) for sentence in sentences]

    def _found(self, sentence: str) -> Translation:
        if (exact := self._exact.get(sentence)) is not None:
            return Translation(exact)
        if (loose := self._loose.get(_loosened(sentence))) is not None:
            return Translation(_dressed_like(sentence, loose))
        return Translation("", fault=f"not in {self._path}; add it there")


def _loosened(sentence: str) -> str:
    return _FINAL.sub("", sentence).casefold()


def _dressed_like(sentence: str, translation: str) -> str:
    """Give a translation the final punctuation and the initial capital of a sentence."""
    final = _FINAL.search(sentence)
    bare = _FINAL.sub("", translation) + (final[0] if final else "")
    return bare[:1].upper() + bare[1:] if sentence[:1].isupper() else bare


def read_pairs(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Read sentence pairs, white space normalised.

    Raises:
        DataError: no TMX and no TSV, or without the two languages.
    """
    if path.name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tmx"):
        pairs = _tmx_pairs(path, primary_language(source), primary_language(target))
    else:
        pairs = _tsv_pairs(path, primary_language(source), primary_language(target))
    is_empty = True
    for pair in pairs:
        is_empty = False
        yield pair
    if is_empty:
        raise DataError(f"{path}: found no pair of '{source}' and '{target}'; "
                        f"give another {setting('memory')} or other languages")


def _tsv_pairs(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    columns: tuple[int, int] | None = None
    width = 2
    for number, line in read_lines(str(path)):
        cells = line.removesuffix("\r").split("\t")
        if not line.strip():
            continue
        if columns is None:
            columns, is_header = _columns(cells, source, target, f"{path}:{number}")
            width = len(cells)
            if is_header:
                continue
        if len(cells) != width:
            raise DataError(f"{path}:{number}: found {len(cells)} columns, expected {width}")
        left, right = (" ".join(cells[column].split()) for column in columns)
        if not left or not right:
            raise DataError(f"{path}:{number}: found an empty sentence, expected one in each "
                            "language; fill it in or remove the line")
        yield left, right


def _columns(cells: list[str], source: str, target: str,
             place: str) -> tuple[tuple[int, int], bool]:
    """Find the two columns; True where the line is a header."""
    names = [primary_language(cell.strip()) for cell in cells]
    for left, right in ((source, target), ("source", "target")):
        if left in names and right in names:
            return (names.index(left), names.index(right)), True
    if len(cells) == 2:
        return (0, 1), False
    raise DataError(f"{place}: found {len(cells)} columns {cells[:6]}, expected two, or a header "
                    f"that names '{source}' and '{target}'")


def _tmx_pairs(path: Path, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Read a TMX file; nothing outside it is fetched, and it may not declare entities."""
    from lxml import etree

    with open_bytes(str(path)) as stream:
        events = etree.iterparse(stream, events=("start", "end"), resolve_entities=False,
                                 load_dtd=False, no_network=True, huge_tree=False)
        try:
            for number, (event, element) in enumerate(events):
                if number == 0:
                    _check_root(element, path)
                elif event == "end" and element.tag == "tu":
                    yield from _pair(element, source, target)
                    _forget(element)
        except etree.XMLSyntaxError as error:
            raise DataError(f"{path}:{error.lineno or 1}: not XML ({error.msg}); "
                            "export the memory again") from error


def _forget(element: Any) -> None:
    """Free what was read; the root would hold it all."""
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]


def _check_root(root: Any, path: Path) -> None:
    if root.tag != "tmx":
        raise DataError(f"{path}: found <{root.tag}>, expected <tmx>")
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and any(True for _ in declared.iterentities()):
        raise DataError(f"{path}: declares XML entities, which a memory may not; remove them")


def _pair(unit: Any, source: str, target: str) -> Iterator[tuple[str, str]]:
    found: dict[str, str] = {}
    for variant in unit.iterfind("tuv"):
        language = primary_language(variant.get(_LANG) or variant.get("lang") or "")
        segment = variant.find("seg")
        if segment is not None:
            found.setdefault(language, " ".join("".join(_text_of(segment)).split()))
    if found.get(source) and found.get(target):
        yield found[source], found[target]


def _text_of(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str) and child.tag not in _CODE:
            yield from _text_of(child)
        yield child.tail or ""
