"""Elements of JATS: sections, blocks, what moves, and the classes of what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bmtools.corpus.account import Piece
from bmtools.corpus.formats.settings import JatsConfig
from bmtools.corpus.xml_account import STRAY

_MATH = "{http://www.w3.org/1998/Math/MathML}"
# Classes of what is left out, by element; `Classes` adds what depends on the parent.
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
SUB_ARTICLES = ("sub-article", "response")


class Classes(dict[tuple[str, str, str | None], str]):
    """Classes of elements that are left out, empty for others, by parent, tag and `ref-type`.

    Args:
        config: what is taken.
    """

    def __init__(self, config: JatsConfig) -> None:
        self._parts, self._by_section = config.parts, config.by_section

    def __missing__(self, key: tuple[str, str, str | None]) -> str:
        found = self[key] = self._class_of(*key)
        return found

    def of(self, path: Sequence[str], attributes: Mapping[str, str]) -> str:
        """Return the class of an element by its path; see `XmlClasses`."""
        tag, parent = path[-1], path[-2] if len(path) > 1 else ""
        if path[0] == "OAI-PMH" and tag in ("header", "request", "responseDate",
                                            "resumptionToken"):
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
        if parent == "title-group" and self._by_section and tag in TITLES:
            return "titles"
        found = _CLASSES.get(tag, "")
        kept = {"caption": parent == "boxed-text" or "captions" in self._parts,
                "disp-formula": "formulas" in self._parts,
                **dict.fromkeys(SUB_ARTICLES, "sub-articles" in self._parts)}
        return "" if found and kept.get(tag) else found


def classes_in_article(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, str]]:
    """Give the pieces of an article, with the class of those in none that has text."""
    # The title of an article stays where a sub-article has a record.
    has_text = any("/title-group/" not in piece.place or any(
        f"/{tag}/" in piece.place for tag in SUB_ARTICLES) for piece in pieces)
    return ((piece, "" if has_text else "articles without text") for piece in pieces)


def class_of_citation(config: JatsConfig, path: Sequence[str],
                       attributes: Mapping[str, str]) -> str:
    """Name the class of what may be left out: whether it is depends on the words around it."""
    is_one = path[-1] == "xref" and attributes.get("ref-type") == "bibr"
    return "citations" if is_one and config.drop_citations else ""
