"""UIMA's XMI: texts with annotations of any type system, as WebAnno, INCEpTION and cTAKES write."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bmtools.corpus.formats.sets.mentions import IDENTIFIER, Arc, Mention, entities, relations
from bmtools.corpus.formats.tally import Tally
from bmtools.corpus.xml_stream import xml_elements
from bmtools.errors import RecordError, Reject, refuse
from bmtools.io.archives import corpus_files
from bmtools.io.provenance.licence_names import licence_name
from bmtools.io.sources import source_name, source_stem
from bmtools.records import JsonObject, Record
from bmtools.text.languages import two_letters

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

ENDINGS = (".xmi", ".xml")
_XMI = "{http://www.omg.org/XMI}"
_ROOT = "xmi:XMI"
_CAS = "{http:///uima/cas.ecore}"
_ID = f"{_XMI}id"
# Packages of type systems that hold tokens, sentences, syntax and facts about the document.
_STRUCTURE = frozenset(("tcas", "cas", "segmentation", "metadata", "lexmorph", "syntax",
                        "transform", "textspan", "structured", "refsem", "util"))
_POSITION = ("sofa", "begin", "end")
# Ends of binary relations, in the type systems of DKPro and WebAnno, and of cTAKES.
_ENDS = (("Governor", "Dependent"), ("arg1", "arg2"))
_LABELS = ("label", "role", "category", "DependencyType", "relationType", "value")
_CONCEPTS = ("entityID", IDENTIFIER, "cui")
# Facts about a document in E3C, by the keys of records.
_FACTS = {"docLanguage": "lang", "docSource": "source", "docLicense": "licence"}
_MORE_FACTS = {"docDOI": "doi", "docUrl": "url", "docTime": "date", "docAuthor": "author"}


def xmi_records(names: Iterable[str], types: Sequence[str] = (),
                counts: Counter[str] | None = None, reject: Reject = refuse) -> Iterator[Record]:
    """Yield a record for every view of a document that has a text, with its annotations.

    An entity's type is the name of its element, or the value of a `NamedEntity`; its features are
    in `attributes`, its concept in `identifier`. Links between annotations become relations of the
    link's role, elements with two ends ones of their label. Offsets, which count UTF-16 units as
    Java does, become code points. `meta.sentences` has the spans of annotated sentences.

    Sources: OASIS UIMA 1.0; Magnini et al. 2020 (E3C).

    Args:
        names: files, folders, zip or tar archives; `-` for stdin.
        types: names of the elements that become entities; none for all but tokens, sentences,
            syntax and facts about the document.
        counts: counts annotations by what became of them.
        reject: receives views that cannot be read; and what is lost of others.
    """
    tally = Tally(counts, reject)
    for source in names:
        for name in corpus_files(source, *ENDINGS, counts=tally.counts):
            for root in xml_elements(name, (_ROOT,), (f"{_XMI}XMI",)):
                yield from _records(root, name, types, tally)


def _records(root: Element, name: str, types: Sequence[str], tally: Tally) -> Iterator[Record]:
    sofas = list(root.iterchildren(f"{_CAS}Sofa"))
    views = [sofa for sofa in sofas if sofa.get("sofaString", "").strip()]
    tally.counts["views without text left out"] += len(sofas) - len(views)
    by_id = {element.get(_ID, ""): element for element in root}
    for view in views:
        suffix = f"-{view.get('sofaID', view.get(_ID))}" if len(views) > 1 else ""
        document = _Document(view, by_id, name, f"{source_stem(name)}{suffix}")
        with tally.rejecting():
            yield document.record(types, tally)


class _Offsets:
    """Code points of a text by its UTF-16 units.

    Args:
        text: of a view.
    """

    def __init__(self, text: str) -> None:
        # Units at which the text has one code point fewer than before.
        wide = [number for number, character in enumerate(text) if character > "\uffff"]
        self._ends = [position + number + 2 for number, position in enumerate(wide)]

    def __getitem__(self, unit: int) -> int:
        """Return the code point at a unit; one within a pair counts as its beginning."""
        pairs = bisect_left(self._ends, unit + 1)
        return unit - pairs - (pairs < len(self._ends) and unit == self._ends[pairs] - 1)


@dataclass
class _Document:
    """A view of a document, with the elements that may be annotations of it."""

    view: Element
    by_id: Mapping[str, Element]
    name: str
    id: str

    def record(self, types: Sequence[str], tally: Tally) -> Record:
        """Make the record.

        Raises:
            RecordError: offsets that are no numbers.
        """
        text, sofa = str(self.view.get("sofaString")), self.view.get(_ID)
        offsets = _Offsets(text)
        here = [element for element in self.by_id.values() if element.get("sofa") == sofa]
        mentions = [self._mention(element, offsets) for element in here
                    if _is_entity(element, types)]
        found = entities(text, mentions, tally)
        arcs = [arc for element in self.by_id.values() for arc in self._arcs(element)
                if self._is_here(arc, sofa)]
        if types:
            known = {mention.id for mention in mentions}
            chosen = [arc for arc in arcs if {arc.head, arc.tail} <= known]
            tally.counts["relations of other annotations left out"] += len(arcs) - len(chosen)
            arcs = chosen
        related = relations(arcs, found, tally)
        keys, meta = _facts(here)
        sentences = sorted(self._span(element, offsets) for element in here
                           if _local(element) == "Sentence")
        if sentences:
            meta["sentences"] = [list(span) for span in sentences]
        return Record(id=self.id, text=text, **keys, entities=found, relations=related,
                      **({"meta": meta} if meta else {}), place=self._place(self.view))

    def _place(self, element: Element) -> str:
        return f"{source_name(self.name)}:{element.sourceline}"

    def _span(self, element: Element, offsets: _Offsets) -> tuple[int, int]:
        begin, end = element.get("begin", ""), element.get("end", "")
        # More digits than any text has characters.
        if not (begin.isdecimal() and end.isdecimal() and len(begin) < 18 > len(end)):
            raise RecordError(self._place(element), f"found begin {begin!r} and end {end!r}, "
                              "expected numbers", dict(element.attrib))
        return offsets[int(begin)], offsets[int(end)]

    def _mention(self, element: Element, offsets: _Offsets) -> Mention:
        features = {name: value for name, value in element.attrib.items()
                    if name not in _POSITION and name != _ID and value
                    and not self._refers(name, value)}
        kind = _local(element)
        if kind == "NamedEntity":
            kind = features.pop("value", kind)
        concept = next((features.pop(name) for name in _CONCEPTS if name in features), None)
        more = {**({IDENTIFIER: concept} if concept else {}),
                **({"attributes": features} if features else {})}
        return Mention(kind, (self._span(element, offsets),), None, element.get(_ID, ""), more,
                       self._place(element), dict(element.attrib))

    def _refers(self, name: str, value: str) -> bool:
        """Tell whether a feature names links, by what its ids belong to."""
        return name in sum(_ENDS, ()) or all(
            identity in self.by_id and self.by_id[identity].get("target")
            for identity in value.split())

    def _arcs(self, element: Element) -> Iterator[Arc]:
        identity, content = element.get(_ID, ""), dict(element.attrib)
        place = self._place(element)
        for head, tail in _ENDS:
            if element.get(head) and element.get(tail) and not _is_structure(element):
                label = next((element.get(name, "") for name in _LABELS if element.get(name)), "")
                yield Arc(self._argument(element.get(head, "")),
                          self._argument(element.get(tail, "")), label or _local(element),
                          {}, place, content)
        for name, value in element.attrib.items():
            if name in _POSITION or name == _ID or not value or not self._refers(name, value):
                continue
            for link in (self.by_id[one] for one in value.split() if one in self.by_id):
                if link.get("target"):
                    yield Arc(identity, link.get("target", ""), link.get("role") or name, {},
                              place, dict(link.attrib))

    def _is_here(self, arc: Arc, sofa: str | None) -> bool:
        head = self.by_id.get(arc.head)
        return head is not None and head.get("sofa") == sofa

    def _argument(self, identity: str) -> str:
        """Follow cTAKES's RelationArgument to its annotation."""
        element = self.by_id.get(identity)
        return identity if element is None else element.get("argument", identity)


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _is_structure(element: Element) -> bool:
    package = str(element.tag)[1:].partition("}")[0].removesuffix(".ecore").split("/")
    return bool(_STRUCTURE.intersection(package))


def _is_entity(element: Element, types: Sequence[str]) -> bool:
    """Tell whether an annotation is of one of the types, or of none that is left out."""
    if types:
        return _local(element) in types and element.get("begin") is not None
    is_relation = any(element.get(head) and element.get(tail) for head, tail in _ENDS)
    has_extent = element.get("begin") not in (None, element.get("end"))
    return has_extent and not is_relation and not _is_structure(element)


def _facts(here: Iterable[Element]) -> tuple[dict[str, str], JsonObject]:
    """Collect what annotations of no extent say of the document."""
    found: dict[str, str] = {}
    for element in here:
        if _local(element) in ("DocumentMetaData", "DocumentAnnotation"):
            found.setdefault("docLanguage", element.get("language", ""))
        elif element.get("begin") == element.get("end"):
            found |= {name: value for name, value in element.attrib.items() if value}
    keys = {key: found[name] for name, key in _FACTS.items() if found.get(name)}
    if keys.get("lang", "x-").startswith("x-"):
        keys.pop("lang", None)
    else:
        keys["lang"] = two_letters(keys["lang"])
    if "licence" in keys:
        keys["licence"] = licence_name(keys["licence"]) or keys["licence"]
    meta: JsonObject = {key: found[name] for name, key in _MORE_FACTS.items() if found.get(name)}
    if found.get("pubType"):
        meta["types"] = [found["pubType"]]
    return keys, meta
