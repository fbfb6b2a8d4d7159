"""JATS, the XML of PMC and of publishers: articles as records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from lxml import etree

from bmtools.corpus.account import accounted
from bmtools.corpus.formats.settings import JatsConfig
from bmtools.corpus.formats.texts.jats_text import (
    BREAK,
    PARTS,
    TITLES,
    Classes,
    JatsAccount,
    Text,
)
from bmtools.corpus.xml_stream import plain, xml_elements
from bmtools.errors import Reject, refuse
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


def jats_records(names: Iterable[str], config: JatsConfig | None = None,
                 counts: Counter[str] | None = None, reject: Reject = refuse) -> Iterator[Record]:
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
        reject: not used; every reader takes it.
    """
    counts = Counter() if counts is None else counts
    classes = Classes(config or JatsConfig())
    for source in names:
        for name in corpus_files(source, *ENDINGS, counts=counts):
            for element in xml_elements(name, ROOTS, ("{*}article",)):
                _drop_namespace(element)
                record = _Article(element, name, classes).record()
                if record is None:
                    counts["articles without text left out"] += 1
                else:
                    yield record


def _drop_namespace(article: Element) -> None:
    """Name elements of JATS as it does where a file, as of OAI, declares its namespace."""
    namespace = str(article.tag).rpartition("article")[0]
    for element in article.iter(f"{namespace}*") if namespace else ():
        element.tag = str(element.tag).removeprefix(namespace)


def jats_account(records: Iterable[Record], name: str, counts: Counter[str],
                 config: JatsConfig) -> Iterator[Record]:
    """Yield the records of a source, and prove that they hold its text; see `accounted`."""
    account = JatsAccount(config)
    pieces = (piece for file in corpus_files(name, *ENDINGS, counts=Counter())
              for piece in account.pieces(file))
    return accounted(records, pieces, source_name(name), counts)


class _Article:
    """An article, and the record made of it.

    Args:
        element: of it.
        name: of its file.
        classes: of what is left out.
    """

    def __init__(self, element: Element, name: str, classes: Classes) -> None:
        self._element, self._name = element, name
        self._classes = classes
        self._front = _child(element, "front")
        self._meta = _child(self._front, "article-meta")
        self._titles = _child(self._meta, "title-group")
        self._ids = self._read_ids()

    def record(self) -> Record | None:
        """Return the record of the article; None if it has no text."""
        text = Text(self._classes)
        for front in self._element.iterchildren("front", "front-stub"):
            for group in front.iter("title-group", "abstract"):
                if group is not self._titles:  # damaged files may have two
                    text.add(group)
        text.end_line()
        for part in self._element:
            if part.tag in PARTS:
                text.add(part)
        if not text.lines:
            return None
        title, line = self._title(), self._element.sourceline
        identity = self._ids["pmc"] or self._ids["doi"] or self._ids["pmid"] or (
            f"{source_stem(self._name)}:{line}")
        sections = [section.described() for section in text.sections if section.start < section.end]
        return Record(id=identity, **({"title": title} if title else {}),
                      text=BREAK.join(text.lines), **self._keys(sections=sections),
                      place=f"{source_name(self._name)}:{line}")

    def _title(self) -> str:
        titles = []
        for tag in TITLES:
            for element in self._titles.iterchildren(tag):
                text = Text(self._classes)
                text.add_content(element)
                text.end_line()
                titles.append(" ".join(text.lines))
        return ": ".join(filter(None, titles))

    def _read_ids(self) -> dict[str, str]:
        found = {element.get("pub-id-type", ""): plain(element)
                 for element in self._meta.iterchildren("article-id")}
        pmc = next((found[kind] for kind in ("pmc", "pmcid", "pmcaid") if found.get(kind)), "")
        return {"pmc": f"PMC{pmc.upper().removeprefix('PMC')}" if pmc else "",
                "pmid": found.get("pmid", ""), "doi": found.get("doi", "")}

    def _keys(self, **more: object) -> JsonObject:
        """Return the keys of a record beside its id, title and text."""
        licence, get = self._licence(), partial(_found, self._front)
        kind = self._element.get("article-type", "")
        year = next((date for path in ("pub-date[@pub-type='epub']", "pub-date")
                     for date in get(f".//{path}/year") if _YEAR.fullmatch(date)), "")
        facts = {
            "journal": next(iter(get("journal-meta//journal-title")), ""),
            "year": int(year) if year else None,
            "pmid": self._ids["pmid"], "doi": self._ids["doi"],
            "types": [kind] if kind else [],
            "keywords": _found(self._meta, "kwd-group/kwd"),
            **more,
        }
        lang = (self._element.get(_LANG) or "en")[:2].lower()  # the default of JATS
        return {"lang": lang, **({"licence": licence} if licence else {}),
                "meta": {key: value for key, value in facts.items() if value}}

    def _licence(self) -> str:
        addresses, texts = [], []
        for licence in (*self._meta.iterfind("permissions/license"),
                        *self._meta.iterfind("license")):
            addresses += [licence.get(_HREF, ""), *_found(licence, f".//{_LICENCE_REF}"),
                          *(link.get(_HREF, "") for link in licence.iter("ext-link", "uri"))]
            texts += [plain(licence), licence.get("license-type", "")]
        # In NLM's DTD 2.3, the licence may stand with the copyright.
        texts += map(plain, self._meta.iter("copyright-statement"))
        return licence_name(*addresses, *texts)


def _child(element: Element, tag: str) -> Element:
    """Return the first child with a tag, or an empty element."""
    found = element.find(tag)
    return etree.Element(tag) if found is None else found


def _found(element: Element, path: str) -> list[str]:
    """Return the text of the elements at a path."""
    return [text for one in element.iterfind(path) if (text := plain(one))]
