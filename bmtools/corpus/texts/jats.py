"""JATS, the XML of PMC and of publishers: articles as records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from bmtools.corpus.account import SUPERSCRIPTS, Piece, XmlClasses, accounted, xml_pieces
from bmtools.corpus.licences import licence_name
from bmtools.corpus.texts.citations import BRACKETS, FIRST, LAST, without_citations
from bmtools.corpus.texts.settings import JatsConfig
from bmtools.corpus.xml_stream import xml_elements
from bmtools.io.archives import corpus_files
from bmtools.io.jsonl import source_name, source_stem
from bmtools.records import Record

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

ROOTS = ("article", "pmc-articleset")
ENDINGS = (".nxml", ".xml")
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_HREF = "{http://www.w3.org/1999/xlink}href"
_LICENCE_REF = "{http://www.niso.org/schemas/ali/1.0/}license_ref"
_MATH = "{http://www.w3.org/1998/Math/MathML}"
_BREAK = "\n\n"  # between blocks, so that no sentence runs from a heading into its paragraph
_WHITE = re.compile(r"[ \t\r\n]+")
_EXPONENT = re.compile("[+\u2212\u2013-]?[0-9]+")
_YEAR = re.compile(r"\d{4}")
# Classes of what is left out, by element; `_class_of` adds what depends on the parent.
_CLASSES = {
    **dict.fromkeys(("ref-list", "ref", "citation", "mixed-citation", "element-citation",
                     "nlm-citation"), "references"),
    **dict.fromkeys(("table", "array", "table-wrap-foot"), "tables"),
    **dict.fromkeys(("alt-text", "long-desc"), "figures"),
    **dict.fromkeys(("tex-math", "mml:annotation", f"{_MATH}annotation", "disp-formula",
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
_FRONTS = ("article-meta", "front-stub")
_TITLES = ("article-title", "subtitle")
_NOTES = ("fn", "table-fn", "aff", "corresp", "author-notes")
_SECTIONS = {"abstract": "Abstract", "sec": "", "ack": "Acknowledgments", "app": "", "notes": "",
             "glossary": "", "bio": "", "trans-abstract": "Abstract"}
_BLOCKS = frozenset((
    *_SECTIONS, *_FLOATS, "title", "subtitle", "p", "list", "list-item", "def-list", "def-item",
    "term", "def", "disp-quote", "boxed-text", "verse-group", "verse-line", "statement", "speech",
    "speaker", "attrib", "preformat", "code", "caption", "disp-formula", "body", "back",
    "floats-group", "app-group", "term-head", "def-head", "sig-block", "sig", "question",
    "question-wrap", "answer", "explanation"))
_MOVES = frozenset((*_FLOATS, "boxed-text"))
_SUB_ARTICLES = ("sub-article", "response")


def jats_records(names: Iterable[str], config: JatsConfig | None = None,
                 counts: Counter[str] | None = None) -> Iterator[Record]:
    """Yield a record for every article with an abstract or a body.

    Headings, paragraphs, items of lists come in the order of the article, a blank line between
    them; an exponent behind a number has characters of its own (`10⁶`). `meta.sections` lists
    the sections with titles: label, depth, labels from the highest level down, offsets without the
    heading.

    Source: JATS 1.0 to 1.3 (NISO Z39.96) and NLM's DTD 2.3.

    Args:
        names: files, folders, zip or tar archives; `-` for stdin.
        config: what becomes of an article.
        counts: counts omissions, by reason.
    """
    config = config or JatsConfig()
    counts = Counter() if counts is None else counts
    for source in names:
        for name in corpus_files(source, *ENDINGS, counts=counts):
            for element in xml_elements(name, ROOTS, ("article",)):
                yield from _Article(element, name, config, counts).records()


def jats_account(records: Iterable[Record], name: str, counts: Counter[str],
                 config: JatsConfig) -> Iterator[Record]:
    """Yield the records of a source, and prove that they hold its text; see `accounted`."""
    classes = XmlClasses(partial(_class_of, config), ("article",), _class_of_article, _MOVES,
                         lambda path, _: ":" if path[-1] == "subtitle" else "",
                         partial(_class_of_citation, config))
    pieces = (piece for file in corpus_files(name, *ENDINGS, counts=Counter())
              for piece in xml_pieces(file, classes, counts))
    signs = BRACKETS if config.drop_citations else ""
    return accounted(records, pieces, source_name(name), counts, signs, "citations")


def _class_of(config: JatsConfig, path: Sequence[str], attributes: Mapping[str, str]) -> str:
    """Name the class of an element that is left out; empty for the others."""
    tag, parent = path[-1], path[-2] if len(path) > 1 else ""
    if parent in _FRONTS:
        return "" if tag in ("title-group", "abstract") else _CLASSES.get(tag, "metadata")
    if parent in _FLOATS and tag not in _FLOAT_PARTS:
        return _CLASSES.get(tag, _FLOATS[parent])
    if parent == "back" and tag not in ("title", "label") and "back" not in config.parts:
        return _CLASSES.get(tag, "back matter")
    if tag == "xref" and attributes.get("ref-type") in _NOTES:
        return "footnotes"
    if parent == "title-group" and config.by_section and tag in _TITLES:
        return "titles"
    found = _CLASSES.get(tag, "")
    kept = {"caption": parent == "boxed-text" or "captions" in config.parts,
            "disp-formula": "formulas" in config.parts,
            **dict.fromkeys(_SUB_ARTICLES, "sub-articles" in config.parts)}
    return "" if found and kept.get(tag) else found


def _class_of_article(pieces: Sequence[Piece]) -> str:
    has_text = any("/title-group/" not in piece.place for piece in pieces)
    return "" if has_text else "articles without text"


def _class_of_citation(config: JatsConfig, path: Sequence[str],
                       attributes: Mapping[str, str]) -> str:
    """Name the class of what may be left out: whether it is depends on the words around it."""
    is_one = path[-1] == "xref" and attributes.get("ref-type") == "bibr"
    return "citations" if is_one and config.drop_citations else ""


@dataclass
class _Section:
    """A section: its offsets in the text, `heading` that of its title."""

    label: str
    path: list[str]
    kind: str
    heading: int
    start: int
    end: int = 0

    def described(self, before: int = 0) -> dict[str, Any]:
        """Return what `meta.sections` says of it, in a text that begins at an offset."""
        kind = {"type": self.kind} if self.kind else {}
        return {"label": self.label, "depth": len(self.path), "path": self.path, **kind,
                "start": self.start - before, "end": self.end - before}


@dataclass
class _Text:
    """Lines of an article as they come, and its sections."""

    leaves_out: Any
    drops_citations: bool
    lines: list[str] = field(default_factory=list)
    sections: list[_Section] = field(default_factory=list)
    size: int = 0  # characters of the lines and of the breaks behind them
    _line: list[str] = field(default_factory=list)
    _labels: list[str] = field(default_factory=list)
    _paragraphs: int = 0  # around the element that is being read
    _moved: list[tuple[Element, list[str]]] = field(default_factory=list)

    def add(self, element: Element, path: list[str]) -> None:
        """Add an element with all that is in it, and not what follows it."""
        tag = path[-1]
        if tag in _SECTIONS:
            self._add_section(element, path)
        elif tag not in _BLOCKS:
            self._add_inline(element, path)
        elif tag in _MOVES and self._paragraphs:
            self._moved.append((element, path))
        else:
            self.end_line()
            self._paragraphs += tag == "p"
            self._add_content(element, path)
            self._paragraphs -= tag == "p"
            self.end_line()
            if not self._paragraphs:
                self._add_moved()

    def _add_content(self, element: Element, path: list[str]) -> None:
        if element.text:
            self._line.append(element.text)
        for child in element:
            inner = [*path, child.tag]
            if not self.leaves_out(inner, child.attrib):
                self.add(child, inner)
            elif child.tag in _BLOCKS:
                self._line.append(" ")
            if child.tail:
                self._line.append(child.tail)

    def _add_section(self, element: Element, path: list[str]) -> None:
        self.end_line()
        title = element.find("title")
        kind = element.get("sec-type") or element.get("abstract-type") or (
            "abstract" if path[-1] == "abstract" else "")
        label = _plain(title).rstrip(":") or _SECTIONS[path[-1]]
        section = _Section(label, [*self._labels, label], kind, self.size, self.size)
        if label:
            self._labels.append(label)
            self.sections.append(section)
        at = len(self.lines)
        self._add_content(element, path)
        self.end_line()
        if label:
            self._labels.pop()
            has_heading = title is not None and self.lines[at:]
            section.start += len(self.lines[at]) + len(_BREAK) if has_heading else 0
            section.end = max(self.size - len(_BREAK), section.start)

    def _add_inline(self, element: Element, path: list[str]) -> None:
        tag = path[-1]
        if tag == "break":
            self._line.append(" ")
        is_citation = tag == "xref" and element.get("ref-type") == "bibr"
        if is_citation and self.drops_citations:
            self._line.append(FIRST)
            self._add_content(element, path)
            self._line.append(LAST)
        elif tag == "sup" and self._is_exponent(element):
            self._line.append((element.text or "").strip().translate(SUPERSCRIPTS))
        else:
            if _is_raised_citation(element, is_citation):
                self._line.append(" ")
            self._add_content(element, path)

    def _is_exponent(self, element: Element) -> bool:
        before = next((text for text in reversed(self._line) if text), "")
        return (before[-1:].isdecimal() or before[-1:] == ")") and not len(element) and bool(
            _EXPONENT.fullmatch((element.text or "").strip()))

    def _add_moved(self) -> None:
        """Add what stands inside a paragraph behind it."""
        moved, self._moved = self._moved, []
        for element, path in moved:
            self.add(element, path)

    def end_line(self) -> None:
        """Let what comes begin another line."""
        if not self._line:
            return
        line = "".join(self._line)
        self._line.clear()
        if self.drops_citations and FIRST in line:
            line = without_citations(line)
        if line := _WHITE.sub(" ", line).strip(" "):
            self.lines.append(line)
            self.size += len(line) + len(_BREAK)


def _is_raised_citation(element: Element, is_citation: bool) -> bool:
    """Tell whether a citation begins here that is told from the word before by its height only."""
    if is_citation:
        return not (element.text or "").strip() and element.find("sup") is not None
    return element.tag == "sup" and element.find("xref[@ref-type='bibr']") is not None


def _plain(element: Element | None) -> str:
    """Join the text inside an element, with single spaces."""
    return "" if element is None else _WHITE.sub(" ", "".join(element.itertext())).strip(" ")


class _Article:
    """An article or a sub-article, and the records made of it.

    Args:
        element: of it.
        name: of its file.
        config: what becomes of it.
        counts: counts articles without text.
        outer: the article that this one is a part of, with the key by which it is told from others.
    """

    def __init__(self, element: Element, name: str, config: JatsConfig, counts: Counter[str],
                 outer: tuple[_Article, str] | None = None) -> None:
        self._element, self._name, self._config, self._counts = element, name, config, counts
        self._place = f"{source_name(name)}:{element.sourceline}"
        front = element.find("front") if outer is None else element.find("front-stub")
        front = element.find("front") if front is None else front
        self._meta = front if front is not None and front.tag == "front-stub" else \
            None if front is None else front.find("article-meta")
        self._front, self._outer = front, outer
        self._ids = self._read_ids()
        inherited = outer[0].lang if outer else "en"  # the default of JATS
        self.lang: str = (element.get(_LANG) or inherited)[:2].lower()
        self.id: str = f"{outer[0].id}-{outer[1]}" if outer else self._read_id()

    def records(self) -> Iterator[Record]:
        """Yield the records of the article and of its sub-articles."""
        text = self._text()
        if text.lines:
            yield from self._sections(text) if self._config.by_section else [self._whole(text)]
        elif self._outer is None:
            self._counts["articles without text left out"] += 1
            return
        elif (title := self._title()) and not self._config.by_section:
            yield Record(id=self.id, text=title, **self._keys(), place=self._place)
        if "sub-articles" in self._config.parts:
            subs = [child for child in self._element if child.tag in _SUB_ARTICLES]
            for number, sub in enumerate(subs, 1):
                yield from _Article(sub, self._name, self._config, self._counts,
                                    (self, f"sub{number}")).records()

    def _leaves_out(self, path: Sequence[str], attributes: Any) -> str:
        return _class_of(self._config, path, attributes)

    def _text(self) -> _Text:
        text = _Text(self._leaves_out, self._config.drop_citations)
        abstracts = [] if self._meta is None else self._meta.findall("abstract")
        for abstract in abstracts:
            text.add(abstract, [self._meta.tag, "abstract"])  # type: ignore[union-attr]
        for part in self._element:
            if part.tag in ("body", "back", "floats-group"):
                text.add(part, [self._element.tag, part.tag])
        return text

    def _whole(self, text: _Text) -> Record:
        title = self._title()
        sections = [section.described() for section in text.sections
                    if section.start < section.end]
        return Record(id=self.id, **({"title": title} if title else {}),
                      text=_BREAK.join(text.lines), **self._keys(sections=sections),
                      place=self._place)

    def _sections(self, text: _Text) -> Iterator[Record]:
        """Yield the sections of the highest level, and what stands between them."""
        whole, at = _BREAK.join(text.lines), 0
        highest = [section for section in text.sections if len(section.path) == 1]
        parts: list[tuple[int, int, _Section | None]] = []
        for one in highest:
            parts += [(at, one.heading, None), (one.start, one.end, one)]
            at = one.end
        parts.append((at, len(whole), None))
        number = 0
        for start, end, section in parts:
            content = whole[start:end].strip("\n")
            heading = whole[section.heading:start].strip("\n") if section else ""
            if not content and not heading:
                continue
            number += 1
            inner = [one.described(start) for one in text.sections
                     if start <= one.heading and start <= one.start < one.end <= end
                     and one is not section]
            keys = self._keys(document=self.id, section=section.label if section else "",
                              article_title=self._title(), sections=inner)
            titled = {"title": heading, "text": content} if heading and content else {
                "text": content or heading}
            yield Record(id=f"{self.id}-{number}", **titled, **keys, place=self._place)

    def _title(self) -> str:
        group = None if self._meta is None else self._meta.find("title-group")
        if group is None:
            return ""
        titles = []
        for tag in _TITLES:
            for element in group.iterfind(tag):
                text = _Text(self._leaves_out, self._config.drop_citations)
                text._add_content(element, ["title-group", tag])
                text.end_line()
                titles.append(" ".join(text.lines))
        return ": ".join(filter(None, titles))

    def _read_ids(self) -> dict[str, str]:
        found = {} if self._meta is None else {
            element.get("pub-id-type", ""): _plain(element)
            for element in self._meta.iterfind("article-id")}
        pmc = next((found[kind] for kind in ("pmc", "pmcid", "pmcaid") if found.get(kind)), "")
        return {"pmc": f"PMC{pmc.upper().removeprefix('PMC')}" if pmc else "",
                "pmid": found.get("pmid", ""), "doi": found.get("doi", "")}

    def _read_id(self) -> str:
        return self._ids["pmc"] or self._ids["doi"] or self._ids["pmid"] or (
            f"{source_stem(self._name)}:{self._element.sourceline}")

    def _keys(self, **more: Any) -> dict[str, Any]:
        """Return the keys of a record beside its id, title and text."""
        licence = self._licence()
        element, meta = self._element, self._meta
        get = partial(_found, self._front)
        year = next((date for path in ("pub-date[@pub-type='epub']", "pub-date")
                     for date in get(f".//{path}/year") if _YEAR.fullmatch(date)), "")
        facts = {
            "journal": next(iter(get("journal-meta//journal-title")), ""),
            "year": int(year) if year else None,
            "pmid": self._ids["pmid"], "doi": self._ids["doi"],
            "types": [element.get("article-type") or element.get("response-type", "")],
            "keywords": [] if meta is None else list(_found(meta, "kwd-group/kwd")),
            "document": self._outer[0].id if self._outer else "",
            **more,
        }
        if facts["types"] == [""]:
            facts["types"] = []
        return {"lang": self.lang, **({"licence": licence} if licence else {}),
                "meta": {key: value for key, value in facts.items() if value}}

    def _licence(self) -> str:
        permissions = [] if self._meta is None else [
            *self._meta.iterfind("permissions/license"), *self._meta.iterfind("license")]
        addresses, texts = [], []
        for licence in permissions:
            addresses += [licence.get(_HREF, ""), *_found(licence, f".//{_LICENCE_REF}"),
                          *(link.get(_HREF, "") for link in licence.iter("ext-link", "uri"))]
            texts += [_plain(licence), licence.get("license-type", "")]
        # In NLM's DTD 2.3, the licence may stand with the copyright.
        texts += [] if self._meta is None else map(_plain, self._meta.iter("copyright-statement"))
        name = licence_name(*addresses, *texts)
        return name or (self._outer[0]._licence() if self._outer else "")


def _found(element: Element | None, path: str) -> list[str]:
    """Return the text of the elements at a path."""
    return [] if element is None else [text for one in element.iterfind(path)
                                       if (text := _plain(one))]
