"""UIMA's XMI: a text with annotations in custom WebAnno layers, as in E3C."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bmtools.corpus.formats.sets.mentions import IDENTIFIER, Arc, Mention, Span, annotated
from bmtools.corpus.formats.sets.standoff import offsets
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.xml_stream import xml_elements
from bmtools.errors import RecordError
from bmtools.io.folders import set_files
from bmtools.io.provenance.licence_names import licence_name
from bmtools.io.sources import source_name, source_stem
from bmtools.records import Record

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_XMI, _LAYERS = "{http://www.omg.org/XMI}", "{http:///webanno/custom.ecore}"
_SOFA, _ID, _CONCEPT = "{http:///uima/cas.ecore}Sofa", f"{_XMI}id", "entityID"
_POSITION = ("sofa", "begin", "end", _ID, _CONCEPT)
_FACTS = {"lang": "docLanguage", "source": "docSource", "licence": "docLicense"}  # in METADATA


@reader
def xmi_records(names: Iterable[str], tally: Tally) -> Iterator[Record]:
    """Yield a record for every file, with the annotations of its custom layers.

    The type of an entity is the name of its element, such as CLINENTITY, EVENT or TIMEX3. Its
    features are stored under `attributes`, its concept under `identifier`. Links become relations
    whose type is the link's role. Offsets in UTF-16 units become code points. Tokens, sentences and
    empty annotations are left out.

    Sources: OASIS UIMA 1.0; Magnini et al. 2020 (E3C).

    Args:
        names: files, folders or zip archives; `-` for stdin.
        tally: counts annotations at their offset and lost, and relations lost.
            It rejects files that cannot be read, and lost annotations if `reject` is given.
    """
    for name in set_files(names, ".xml", ".xmi", counts=tally.counts):
        for root in xml_elements(name, ("xmi:XMI",), (f"{_XMI}XMI",)):
            with tally.rejecting():
                yield _record(root, name, tally)


def _record(root: Element, name: str, tally: Tally) -> Record:
    source = source_name(name)
    place = f"{source}:{root.sourceline}"
    texts = [sofa.get("sofaString", "") for sofa in root.iterchildren(_SOFA)]
    if len(texts) != 1 or not texts[0]:
        raise RecordError(place, f"found {len(texts)} views, or no text, expected one view with a "
                                 "text")
    layers = {element.get(_ID, ""): element for element in root.iterchildren(f"{_LAYERS}*")}
    links = {key: element for key, element in layers.items() if element.get("target")}
    mentions: list[Mention] = []
    arcs: list[Arc] = []
    facts: dict[str, str] = {}
    for key, element in layers.items():
        values = {str(name): str(value) for name, value in element.attrib.items() if value}
        if key not in links and values.get("begin") == values.get("end"):
            facts |= values
        elif key not in links:
            where = f"{source}:{element.sourceline}"
            linked = {name: value.split() for name, value in values.items()
                      if links.keys() & value.split()}
            arcs += (Arc(key, links[one].get("target", ""), links[one].get("role") or name, {},
                         where, values)
                     for name, several in linked.items() for one in several if one in links)
            features = {name: value for name, value in values.items()
                        if name not in {*_POSITION, *linked}}
            more = {**({IDENTIFIER: values[_CONCEPT]} if _CONCEPT in values else {}),
                    **({"attributes": features} if features else {})}
            mentions.append(Mention(str(element.tag).removeprefix(_LAYERS), (
                _span(values, texts[0], where),), None, key, more, where, values))
    keys = {key: facts[name] for key, name in _FACTS.items() if name in facts}
    if "licence" in keys:
        keys["licence"] = licence_name(keys["licence"]) or keys["licence"]
    return annotated(source_stem(name), texts[0], mentions, arcs, tally, place, **keys)


def _span(values: dict[str, str], text: str, place: str) -> Span:
    """Read the offsets of an annotation, in code points of the text."""
    first, last = offsets(values.get("begin", ""), values.get("end", ""), place, str(values))
    if max(text) > "\uffff":
        units = text.encode("utf-16-le")
        first, last = (len(units[:2 * one].decode("utf-16-le", "ignore"))
                       + max(one - len(units) // 2, 0) for one in (first, last))
    return first, last
