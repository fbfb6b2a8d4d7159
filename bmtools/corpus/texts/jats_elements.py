"""Elements of JATS: sections, blocks, what moves, and the classes of what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bmtools.corpus.account import Piece
from bmtools.corpus.texts.settings import JatsConfig

_MATH = "{http://www.w3.org/1998/Math/MathML}"
# Classes of what is left out, by element; `class_of` adds what depends on the parent.
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
TITLES = ("article-title", "subtitle")
_NOTES = ("fn", "table-fn", "aff", "corresp", "author-notes")
SECTIONS = {"abstract": "Abstract", "sec": "", "ack": "Acknowledgments", "app": "", "notes": "",
             "glossary": "", "bio": "", "trans-abstract": "Abstract"}
BLOCKS = frozenset((
    *SECTIONS, *_FLOATS, "title", "subtitle", "p", "list", "list-item", "def-list", "def-item",
    "term", "def", "disp-quote", "boxed-text", "verse-group", "verse-line", "statement", "speech",
    "speaker", "attrib", "preformat", "code", "caption", "disp-formula", "body", "back",
    "floats-group", "app-group", "term-head", "def-head", "sig-block", "sig", "question",
    "question-wrap", "answer", "explanation"))
MOVES = frozenset((*_FLOATS, "boxed-text"))
SUB_ARTICLES = ("sub-article", "response")


def class_of(config: JatsConfig, path: Sequence[str], attributes: Mapping[str, str]) -> str:
    """Name the class of an element that is left out; empty for the others."""
    tag, parent = path[-1], path[-2] if len(path) > 1 else ""
    if path[0] == "OAI-PMH" and tag in ("header", "request", "responseDate", "resumptionToken"):
        return "metadata"
    if parent in _FRONTS:
        return "" if tag in ("title-group", "abstract") else _CLASSES.get(tag, "metadata")
    if parent in _FLOATS and tag not in _FLOAT_PARTS:
        return _CLASSES.get(tag, _FLOATS[parent])
    if parent == "back" and tag not in ("title", "label") and "back" not in config.parts:
        return _CLASSES.get(tag, "back matter")
    if tag == "xref" and attributes.get("ref-type") in _NOTES:
        return "footnotes"
    if parent == "title-group" and config.by_section and tag in TITLES:
        return "titles"
    found = _CLASSES.get(tag, "")
    kept = {"caption": parent == "boxed-text" or "captions" in config.parts,
            "disp-formula": "formulas" in config.parts,
            **dict.fromkeys(SUB_ARTICLES, "sub-articles" in config.parts)}
    return "" if found and kept.get(tag) else found


def class_of_article(pieces: Sequence[Piece]) -> str:
    has_text = any("/title-group/" not in piece.place for piece in pieces)
    return "" if has_text else "articles without text"


def class_of_citation(config: JatsConfig, path: Sequence[str],
                       attributes: Mapping[str, str]) -> str:
    """Name the class of what may be left out: whether it is depends on the words around it."""
    is_one = path[-1] == "xref" and attributes.get("ref-type") == "bibr"
    return "citations" if is_one and config.drop_citations else ""
