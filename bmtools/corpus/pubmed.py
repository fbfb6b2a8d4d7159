"""PubMed and MEDLINE XML: citations as records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from bmtools.corpus.languages import two_letters
from bmtools.corpus.xml_stream import xml_elements
from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.io.jsonl import source_name
from bmtools.records import Record

ROOTS = ("PubmedArticleSet", "MedlineCitationSet")
_TAGS = ("MedlineCitation", "PubmedArticle", "PubmedBookArticle", "DeleteCitation")
_ENGLISH = "en"
# Only what XML calls white space: a non-breaking or thin space is part of the text.
_WHITE = re.compile(r"[ \t\r\n]{2,}|[\t\r\n]")
_YEAR = re.compile(r"\d{4}")
_NO_TITLE = "Not Available"
# PubMed's words for a further abstract that it does not hold; they are no abstract.
_ELSEWHERE = "Abstract available from the publisher."


def pubmed_records(names: Iterable[str], titles: bool = False,
                   other_abstracts: bool = False, counts: Counter[str] | None = None,
                   reject: Reject = refuse) -> Iterator[Record]:
    """Yield a record for every citation with an abstract.

    PubMed's abstracts are English whatever the language of the article, so `lang` is `en` and
    `meta.languages` keeps the article's. A title that PubMed translated loses its brackets. The
    parts of a structured abstract stand one a line, each behind its label; `meta.sections` gives
    label, start and end of each without the label.

    Args:
        names: XML files, compressed or not; `-` for stdin.
        titles: give a citation without abstract its title as text, and no `title`.
        other_abstracts: yield further abstracts, mostly in other languages, as `PMID-LANG`.
        counts: counts what was left out, by reason.
        reject: receives a citation without PMID.
    """
    counts = Counter() if counts is None else counts
    for name in names:
        for element in xml_elements(name, ROOTS, _TAGS):
            if element.tag == "DeleteCitation":
                counts["PMIDs named as deleted"] += len(element.findall("PMID"))
            elif element.tag == "PubmedBookArticle":
                counts["book articles left out"] += 1
            elif element.tag == "PubmedArticle" or element.getparent().tag != "PubmedArticle":
                place = f"{source_name(name)}:{element.sourceline}"
                yield from _records_of(element, place, titles, other_abstracts,
                                       counts, reject)


def _records_of(element: Any, place: str, titles: bool, other_abstracts: bool,
                counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Yield the records of a citation, given as PubmedArticle or as MedlineCitation alone."""
    citation = element if element.tag == "MedlineCitation" else element.find("MedlineCitation")
    pmid = "" if citation is None else _text(citation.find("PMID"))
    if not pmid:
        reject(RecordError(place, "found a citation without PMID, expected <PMID> in "
                                  "<MedlineCitation>"))
        return
    title, meta = _title(citation), _meta(element, citation)
    text, sections = _abstract(citation.find("Article/Abstract"))
    lang = _ENGLISH
    if text:
        about = {"title": title} if title else {}
    elif not titles:
        counts[f"articles without abstract left out ({setting('titles')} yields their titles)"] += 1
    else:
        about = {}
        text = title or meta.pop("vernacular_title", "")
        lang = _ENGLISH if title else meta.get("languages", [_ENGLISH])[0]
        if not text:
            counts["articles without abstract and title left out"] += 1
    if text:
        detail = {**meta, "sections": sections} if sections else meta
        yield Record(id=pmid, **about, text=text, lang=lang, meta=detail, place=place)
    others = _other_abstracts(citation, counts)
    if not other_abstracts:
        counts[f"further abstracts left out ({setting('other_abstracts')} yields them)"] += \
            len(others)
        return
    seen: Counter[str] = Counter()
    for other_lang, other_text, other_sections in others:
        seen[other_lang] += 1
        again = f"-{seen[other_lang]}" if seen[other_lang] > 1 else ""
        detail = {**meta, "sections": other_sections} if other_sections else meta
        yield Record(id=f"{pmid}-{other_lang}{again}", text=other_text, lang=other_lang,
                     meta=detail, place=place)


def _text(element: Any) -> str:
    """Join the text inside an element, without markup and with single spaces."""
    return "" if element is None else _WHITE.sub(" ", "".join(element.itertext())).strip(" ")


def _abstract(abstract: Any) -> tuple[str, list[dict[str, Any]]]:
    """Join the parts of an abstract, and give the offsets of labelled ones."""
    text, sections = "", []
    for part in [] if abstract is None else abstract.iterfind("AbstractText"):
        content = _text(part)
        if not content:
            continue
        label = _WHITE.sub(" ", part.get("Label", "")).strip(" ")
        if text:
            text += "\n"
        # UNLABELLED is NLM's word for a part that has no heading in the article.
        if label and label != "UNLABELLED":
            text += f"{label}: "
        if label:
            sections.append({"label": label, "start": len(text), "end": len(text) + len(content)})
        text += content
    return text, sections


def _other_abstracts(citation: Any,
                     counts: Counter[str]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    found = []
    for other in citation.iterfind("OtherAbstract"):
        text, sections = _abstract(other)
        if text == _ELSEWHERE:
            counts["further abstracts that only the publisher holds"] += 1
        elif text:
            found.append((two_letters(other.get("Language", "und")), text, sections))
    return found


def _title(citation: Any) -> str:
    """Read the English title; PubMed puts one that it translated in brackets: `[Vaccines].`"""
    title = _text(citation.find("Article/ArticleTitle"))
    inner = _inside_brackets(title)
    if inner is None or _languages(citation) == [_ENGLISH]:
        return title
    if inner.rstrip(".") == _NO_TITLE:
        return ""
    return inner if inner.endswith((".", "?", "!", "…")) else inner + "."


def _inside_brackets(title: str) -> str | None:
    """Return the text between a bracket at the start and its partner at the end."""
    whole = title.removesuffix(".")
    if not (whole.startswith("[") and whole.endswith("]")):
        return None
    depth = 0
    for position, character in enumerate(whole, 1):
        depth += (character == "[") - (character == "]")
        if depth == 0 and position < len(whole):
            return None
    return whole[1:-1].strip()


def _languages(citation: Any) -> list[str]:
    return [two_letters(_text(code)) for code in citation.iterfind("Article/Language")]


def _meta(element: Any, citation: Any) -> dict[str, Any]:
    article = citation.find("Article")
    if article is None:
        return {}
    meta = {
        "journal": _text(article.find("Journal/Title")) or _text(
            citation.find("MedlineJournalInfo/MedlineTA")),
        "year": _year(article),
        "doi": _doi(element, article),
        "languages": _languages(citation),
        "vernacular_title": _text(article.find("VernacularTitle")),
        "types": [_text(kind) for kind in article.iterfind(
            "PublicationTypeList/PublicationType")],
        "mesh": [_text(heading) for heading in citation.iterfind(
            "MeshHeadingList/MeshHeading/DescriptorName")],
    }
    return {key: value for key, value in meta.items() if value}


def _year(article: Any) -> int | None:
    """Read the year of the issue; `MedlineDate` holds a range such as `1998 Dec-1999 Jan`."""
    found = _YEAR.search(_text(article.find("Journal/JournalIssue/PubDate")))
    return int(found[0]) if found else None


def _doi(element: Any, article: Any) -> str:
    for place in article.iterfind("ELocationID[@EIdType='doi']"):
        if place.get("ValidYN") != "N":
            return _text(place)
    return _text(element.find("PubmedData/ArticleIdList/ArticleId[@IdType='doi']"))
