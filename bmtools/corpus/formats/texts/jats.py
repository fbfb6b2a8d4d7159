"""JATS, the XML of PMC and publishers: articles as records, with blocks in article order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lxml import etree

from bmtools.corpus.account import STRAY, Attributes, Path, Piece, XmlAccount, accounted
from bmtools.corpus.formats.settings import JatsConfig
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.xml_stream import plain, raise_exponents, single_spaced, xml_elements
from bmtools.io.folders import corpus_files
from bmtools.io.provenance.licence_names import licence_name
from bmtools.io.sources import source_name, source_stem
from bmtools.records import JsonObject, Record

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

ROOTS = ("article", "pmc-articleset", "OAI-PMH")
ENDINGS = (".nxml", ".xml")
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_HREF = "{http://www.w3.org/1999/xlink}href"
_LICENCE_REF = "{http://www.niso.org/schemas/ali/1.0/}license_ref"
_YEAR = re.compile(r"\d{4}")
_MONTH = re.compile(r"0?[1-9]|1[0-2]")
_MATH = "{http://www.w3.org/1998/Math/MathML}"
# Classes of omitted text by element; `Classes` adds classes that depend on the parent.
_CLASSES = {
    **dict.fromkeys(("ref-list", "ref", "citation", "mixed-citation", "element-citation",
                     "nlm-citation"), "references"),
    **dict.fromkeys(("table", "array", "table-wrap-foot"), "tables"),
    **dict.fromkeys(("alt-text", "long-desc"), "figures"),
    **dict.fromkeys(("tex-math", "annotation", f"{_MATH}annotation", "disp-formula",
                     "disp-formula-group", "chem-struct-wrap"), "formulas"),
    **dict.fromkeys(("fn", "fn-group"), "footnotes"),
    **dict.fromkeys(("supplementary-material", "media"), "supplementary material"),
    **dict.fromkeys(("trans-title-group", "trans-title", "trans-subtitle", "trans-abstract"),
                    "translations"),
    **dict.fromkeys(("sub-article", "response"), "sub-articles"),
    **dict.fromkeys(("journal-meta", "processing-meta", "sec-meta", "index-term", "alt-title",
                     "object-id", "related-article", "related-object"), "metadata"),
    **dict.fromkeys(("permissions", "copyright-statement", "copyright-year", "copyright-holder",
                     "license"), "licences"),
    **dict.fromkeys(("contrib-group", "contrib", "aff", "aff-alternatives", "author-notes"),
                    "authors"),
    "kwd-group": "keywords", "label": "labels", "caption": "captions",
}
_FLOATS = {"fig": "figures", "fig-group": "figures", "graphic": "figures",
           "table-wrap": "tables", "table-wrap-group": "tables"}
_FLOAT_PARTS = ("caption", *_FLOATS)
PARTS = ("body", "back", "floats-group", "floats-wrap")
_PARTS = {"front": ("article-meta",), "title-group": ("article-title", "subtitle"),
          **dict.fromkeys(("article", "sub-article", "response"),
                          ("front", "front-stub", *PARTS, "sub-article", "response"))}
_FRONTS = ("article-meta", "front-stub")
TEXTLESS = frozenset((*_PARTS, *_FRONTS, "OAI-PMH", "pmc-articleset", "ListRecords", "GetRecord",
                      "record", "metadata"))
TITLES = ("article-title", "subtitle")
NOTES = ("fn", "table-fn", "aff", "corresp", "author-notes")
SECTIONS = {"abstract": "Abstract", "sec": "", "ack": "Acknowledgments", "app": "", "notes": "",
             "glossary": "", "bio": "", "trans-abstract": "Abstract"}
BLOCKS = frozenset((
    *SECTIONS, *_FLOATS, "title", "subtitle", "p", "list", "list-item", "def-list", "def-item",
    "term", "def", "disp-quote", "boxed-text", "verse-group", "verse-line", "statement", "speech",
    "speaker", "attrib", "preformat", "code", "caption", "disp-formula", "body", "back",
    "floats-group", "floats-wrap", "app-group", "term-head", "def-head", "sig-block", "sig",
    "question", "question-wrap", "answer", "explanation"))
MOVES = frozenset((*_FLOATS, "boxed-text"))

BREAK = "\n\n"  # between blocks, so that a heading and its paragraph are separate sentences


@reader
def jats_records(names: Iterable[str], tally: Tally,
                 config: JatsConfig | None = None) -> Iterator[Record]:
    """Yield a record for every article with an abstract or a body.

    Headings, paragraphs and list items are in the order of the article, separated by a blank line.
    An exponent after a number is written in superscript characters (`10⁶`). `meta.sections` lists
    the sections with titles: label, depth, labels from the highest level down, and offsets without
    the heading.

    Source: JATS 1.0 to 1.3 (NISO Z39.96) and NLM's DTD 2.3.

    Args:
        names: files, folders, zip or tar archives; `-` for stdin.
        config: parts of articles to include.
        tally: counts omissions by reason.
    """
    classes = Classes(config or JatsConfig())
    for source in names:
        for name in corpus_files(source, *ENDINGS, counts=tally.counts):
            for element in xml_elements(name, ROOTS, ("{*}article",)):
                _drop_namespace(element)
                raise_exponents(element)
                record = _article(element, name, classes)
                if record is None:
                    tally.counts["articles without text left out"] += 1
                else:
                    yield record


def _drop_namespace(article: Element) -> None:
    """Remove the namespace from element names, which OAI files declare."""
    namespace = str(article.tag).rpartition("article")[0]
    for element in article.iter(f"{namespace}*") if namespace else ():
        element.tag = str(element.tag).removeprefix(namespace)


def jats_account(records: Iterable[Record], name: str, counts: Counter[str],
                 config: JatsConfig) -> Iterator[Record]:
    """Yield the records of a source, and check that they contain its text; see `accounted`."""
    account = JatsAccount(config)
    pieces = (piece for file in corpus_files(name, *ENDINGS, counts=Counter())
              for piece in account.pieces(file))
    return accounted(records, pieces, source_name(name), counts)


def _article(element: Element, name: str, classes: Classes) -> Record | None:
    """Make the record of an article; None if it has no text.

    Args:
        element: element of the article.
        name: name of its file.
        classes: classes of omitted elements.
    """
    front = _child(element, "front")
    meta = _child(front, "article-meta")
    titles = _child(meta, "title-group")
    text = Text(classes)
    for one in element.iterchildren("front", "front-stub"):
        for group in one.iter("title-group", "abstract"):
            if group is not titles:  # damaged files may contain two
                text.add(group)
    text.end_line()
    for part in element:
        if part.tag in PARTS:
            text.add(part)
    if not text.lines:
        return None
    numbers = {one.get("pub-id-type", ""): plain(one) for one in meta.iterchildren("article-id")}
    pmc = next(filter(None, map(numbers.get, ("pmc", "pmcid", "pmcaid"))), "")
    pmid, doi = (numbers.get(kind, "") for kind in ("pmid", "doi"))
    year, month = next((date for path in ("pub-date[@pub-type='epub']", "pub-date")
                        for one in front.iterfind(f".//{path}") if _YEAR.fullmatch((
                            date := [plain(_child(one, tag)) for tag in ("year", "month")])[0])),
                       ("", ""))
    kind = element.get("article-type", "")
    about = {
        "journal": next(iter(_found(front, "journal-meta//journal-title")), ""),
        "year": int(year) if year else None,
        "month": int(month) if _MONTH.fullmatch(month) else None, "pmid": pmid, "doi": doi,
        "types": [kind] if kind else [], "keywords": _found(meta, "kwd-group/kwd"),
        "sections": [one.described() for one in text.sections if one.start < one.end]}
    title, licence = _title(titles, classes), _licence(meta)
    return Record(
        id=f"PMC{pmc.upper().removeprefix('PMC')}" if pmc else
        doi or pmid or f"{source_stem(name)}:{element.sourceline}",
        **({"title": title} if title else {}), text=BREAK.join(text.lines),
        lang=(element.get(_LANG) or "en")[:2].lower(),  # the default of JATS
        **({"licence": licence} if licence else {}),
        meta={key: value for key, value in about.items() if value},
        place=f"{source_name(name)}:{element.sourceline}")


def _title(group: Element, classes: Classes) -> str:
    titles = []
    for tag in TITLES:
        for element in group.iterchildren(tag):
            text = Text(classes)
            text.add_content(element)
            text.end_line()
            titles.append(" ".join(text.lines))
    return ": ".join(filter(None, titles))


def _licence(meta: Element) -> str:
    addresses, texts = [], []
    for licence in (*meta.iterfind("permissions/license"), *meta.iterfind("license")):
        addresses += [licence.get(_HREF, ""), *_found(licence, f".//{_LICENCE_REF}"),
                      *(link.get(_HREF, "") for link in licence.iter("ext-link", "uri"))]
        texts += [plain(licence), licence.get("license-type", "")]
    # In NLM's DTD 2.3, the copyright statement may contain the licence.
    texts += map(plain, meta.iter("copyright-statement"))
    return licence_name(*addresses, *texts)


def _child(element: Element, tag: str) -> Element:
    """Return the first child with a tag, or an empty element."""
    found = element.find(tag)
    return etree.Element(tag) if found is None else found


def _found(element: Element, path: str) -> list[str]:
    """Return the text of the elements at a path."""
    return [text for one in element.iterfind(path) if (text := plain(one))]


@dataclass
class Section:
    """A section and its offsets in the text without the heading."""

    label: str
    path: list[str]
    kind: str
    start: int
    end: int = 0

    def described(self) -> JsonObject:
        """Return its entry in `meta.sections`."""
        kind = {"type": self.kind} if self.kind else {}
        return {"label": self.label, "depth": len(self.path), "path": self.path, **kind,
                "start": self.start, "end": self.end}


@dataclass
class Text:
    """Lines of an article in order, and its sections."""

    classes: Classes
    lines: list[str] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    size: int = 0  # characters of the lines and of the breaks after them
    _line: list[str] = field(default_factory=list)
    _labels: list[str] = field(default_factory=list)
    _paragraphs: int = 0  # number of paragraphs around the current element
    _moved: list[Element] = field(default_factory=list)

    def add(self, element: Element) -> None:
        """Add an element with its content, but without its tail."""
        tag = element.tag
        if tag not in BLOCKS:
            if tag == "break" or _is_raised_citation(element):
                self._line.append(" ")
            self.add_content(element)
        elif tag in SECTIONS:
            self._add_section(element)
        elif tag in MOVES and self._paragraphs:
            self._moved.append(element)
        else:
            self.end_line()
            self._paragraphs += tag == "p"
            self.add_content(element)
            self._paragraphs -= tag == "p"
            self.end_line()
            if self._moved and not self._paragraphs:
                moved, self._moved = self._moved, []
                for inner in moved:
                    self.add(inner)

    def add_content(self, element: Element) -> None:
        """Add the content of an element."""
        tag = element.tag
        if text := element.text:
            self._line.append(text)
        for child in element:
            inner = child.tag
            kind = child.get("ref-type") if inner == "xref" else None
            if not self.classes[tag, inner, kind]:
                self.add(child)
            elif inner in BLOCKS:
                self._line.append(" ")
            if tail := child.tail:
                self._line.append(tail)

    def _add_section(self, element: Element) -> None:
        self.end_line()
        tag, title = element.tag, element.find("title")
        kind = element.get("sec-type") or element.get("abstract-type") or (
            "abstract" if tag == "abstract" else "")
        label = plain(title).rstrip(":") or SECTIONS[tag]
        section = Section(label, [*self._labels, label], kind, self.size)
        if label:
            self._labels.append(label)
            self.sections.append(section)
        at = len(self.lines)
        self.add_content(element)
        self.end_line()
        if label:
            self._labels.pop()
            has_heading = plain(title) and self.lines[at:]
            section.start += len(self.lines[at]) + len(BREAK) if has_heading else 0
            section.end = max(self.size - len(BREAK), section.start)

    def end_line(self) -> None:
        """End the current line."""
        line = single_spaced("".join(self._line))
        self._line.clear()
        if line:
            self.lines.append(line)
            self.size += len(line) + len(BREAK)


def _is_raised_citation(element: Element) -> bool:
    """Return whether an element is a superscript citation, which needs a space before it."""
    if element.tag == "xref" and element.get("ref-type") == "bibr":
        return not (element.text or "").strip() and element.find("sup") is not None
    return element.tag == "sup" and element.find("xref[@ref-type='bibr']") is not None


class Classes(dict[tuple[str, str, str | None], str]):
    """Classes of omitted elements by parent, tag and `ref-type`; empty for other elements.

    Args:
        config: parts of articles to include.
    """

    def __init__(self, config: JatsConfig) -> None:
        self._parts = config.parts

    def __missing__(self, key: tuple[str, str, str | None]) -> str:
        found = self[key] = self._class_of(*key)
        return found

    def of(self, path: Path, attributes: Attributes) -> str:
        """Return the class of an element by its path; see `XmlAccount`."""
        tag, parent = path[-1], path[-2] if len(path) > 1 else ""
        if path[0] == "OAI-PMH" and tag in ("header", "request", "responseDate", "resumptionToken"):
            return "metadata"
        return self[parent, tag, attributes.get("ref-type") if tag == "xref" else None]

    def _class_of(self, parent: str, tag: str, ref_type: str | None) -> str:
        if (inner := _PARTS.get(parent)) and tag not in inner:
            return _CLASSES.get(tag, "front matter" if parent == "front" else STRAY)
        if parent in _FRONTS:
            return "" if tag in ("title-group", "abstract") else _CLASSES.get(tag, "metadata")
        if parent in _FLOATS and tag not in _FLOAT_PARTS:
            return _CLASSES.get(tag, _FLOATS[parent])
        if parent == "back" and tag not in ("title", "label") and "back" not in self._parts:
            return _CLASSES.get(tag, "back matter")
        if ref_type in NOTES:
            return "footnotes"
        found = _CLASSES.get(tag, "")
        kept = {"caption": parent == "boxed-text" or "captions" in self._parts,
                "disp-formula": "formulas" in self._parts}
        return "" if found and kept.get(tag) else found


class JatsAccount(XmlAccount):
    """Account of articles.

    Args:
        config: parts that the reader includes.
    """

    units, moved, textless = ("article",), MOVES, TEXTLESS

    def __init__(self, config: JatsConfig) -> None:
        self._classes = Classes(config)

    def left_out(self, path: Path, attributes: Attributes) -> str:
        """Return the class of an element; see `Classes.of`."""
        return self._classes.of(path, attributes)

    def added(self, path: Path, attributes: Attributes) -> str:
        """Return the colon before a subtitle."""
        return ":" if path[-1] == "subtitle" else ""

    def in_unit(self, pieces: Sequence[Piece]) -> Iterator[Piece]:
        """Leave out an article without text."""
        has_text = any("/title-group/" not in piece.place and piece.text and not piece.left_out
                       for piece in pieces)
        for piece in pieces:
            without = not has_text and not piece.left_out
            yield piece._replace(left_out="articles without text") if without else piece
