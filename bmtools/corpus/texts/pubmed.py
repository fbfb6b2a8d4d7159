"""PubMed and MEDLINE XML: citations as records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from bmtools.corpus.languages import two_letters
from bmtools.corpus.xml_stream import xml_elements
from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.io.jsonl import source_name
from bmtools.records import Record

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

ROOTS = ("PubmedArticleSet", "MedlineCitationSet")
_TAGS = ("MedlineCitation", "PubmedArticle", "PubmedBookArticle", "DeleteCitation")
_ENGLISH = "en"
# White space in the sense of XML: a non-breaking or thin space is part of the text.
_WHITE = re.compile(r"[ \t\r\n]{2,}|[\t\r\n]")
_YEAR = re.compile(r"\d{4}")
_NO_TITLE = "Not Available"
# PubMed's words for a further abstract that it lacks; they are no abstract.
_ELSEWHERE = "Abstract available from the publisher."


def pubmed_records(names: Iterable[str], titles: bool = False,
                   other_abstracts: bool = False, counts: Counter[str] | None = None,
                   reject: Reject = refuse) -> Iterator[Record]:
    """Yield a record for every citation with an abstract.

    PubMed's abstracts are English whatever the language of the article, so `lang` is `en` and
    `meta.languages` keeps the article's. A title that PubMed translated loses its brackets. The
    parts of a structured abstract come one a line, each behind its label; `meta.sections` gives
    label, start and end of each without the label.

    Args:
        names: XML files, compressed or not; `-` for stdin.
        titles: give a citation without abstract its title as text, and no `title`.
        other_abstracts: yield further abstracts, mostly in other languages, as `PMID-LANG`.
        counts: counts omissions, by reason.
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
                yield from _records_of(element, place, titles, other_abstracts, counts, reject)


def _records_of(element: Element, place: str, titles: bool, other_abstracts: bool,
                counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Yield the records of a citation, given as PubmedArticle or as MedlineCitation alone."""
    citation = element if element.tag == "MedlineCitation" else element.find("MedlineCitation")
    pmid = "" if citation is None else _text(citation.find("PMID"))
    if citation is None or not pmid:
        reject(RecordError(place, "found a citation without PMID, expected <PMID> in "
                                  "<MedlineCitation>"))
        return
    meta = _meta(element, citation)
    languages = meta.get("languages", [])
    title = _title(_text(citation.find("Article/ArticleTitle")), languages)
    text, sections = _abstract(citation.find("Article/Abstract"))
    if text:
        own_title = {"title": title} if title else {}
        yield Record(id=pmid, **own_title, text=text, lang=_ENGLISH, meta=meta | sections,
                     place=place)
    elif not titles:
        counts[f"articles without abstract left out ({setting('titles')} yields their titles)"] += 1
    elif text := title or meta.pop("vernacular_title", ""):
        lang = _ENGLISH if title else [*languages, _ENGLISH][0]
        yield Record(id=pmid, text=text, lang=lang, meta=meta, place=place)
    else:
        counts["articles without abstract and title left out"] += 1
    seen: Counter[str] = Counter()
    for other in citation.iterfind("OtherAbstract"):
        text, sections = _abstract(other)
        if text == _ELSEWHERE:
            counts["further abstracts that only the publisher has"] += 1
        elif text and not other_abstracts:
            counts[f"further abstracts left out ({setting('other_abstracts')} yields them)"] += 1
        elif text:
            lang = two_letters(other.get("Language", "und"))
            seen[lang] += 1
            again = f"-{seen[lang]}" if seen[lang] > 1 else ""
            yield Record(id=f"{pmid}-{lang}{again}", text=text, lang=lang, meta=meta | sections,
                         place=place)


def _text(element: Element | None) -> str:
    """Join the text inside an element, without markup and with single spaces."""
    return "" if element is None else _WHITE.sub(" ", "".join(element.itertext())).strip(" ")


def _abstract(abstract: Element | None) -> tuple[str, dict[str, Any]]:
    """Join the parts of an abstract; labelled ones are listed with offsets under `sections`."""
    text, sections = "", []
    for part in () if abstract is None else abstract.iterfind("AbstractText"):
        content = _text(part)
        if not content:
            continue
        label = _WHITE.sub(" ", part.get("Label", "")).strip(" ")
        text += "\n" if text else ""
        # UNLABELLED is NLM's word for a part that has no heading in the article.
        if label and label != "UNLABELLED":
            text += f"{label}: "
        if label:
            sections.append({"label": label, "start": len(text), "end": len(text) + len(content)})
        text += content
    return text, {"sections": sections} if sections else {}


def _title(title: str, languages: Sequence[str]) -> str:
    """Remove the brackets around a title that PubMed translated: `[Vaccines].`"""
    whole = title.removesuffix(".")
    depths = list(accumulate((sign == "[") - (sign == "]") for sign in whole))
    if languages == [_ENGLISH] or whole[:1] != "[" or whole[-1] != "]" or 0 in depths[:-1]:
        return title
    inner = whole[1:-1].strip()
    if inner.rstrip(".") == _NO_TITLE:
        return ""
    return inner if inner.endswith((".", "?", "!", "…")) else inner + "."


def _meta(element: Element, citation: Element) -> dict[str, Any]:
    article = citation.find("Article")
    if article is None:
        return {}
    # `MedlineDate` holds a range such as `1998 Dec-1999 Jan`.
    year = _YEAR.search(_text(article.find("Journal/JournalIssue/PubDate")))
    dois = [*article.iterfind("ELocationID[@EIdType='doi']"),
            *element.iterfind("PubmedData/ArticleIdList/ArticleId[@IdType='doi']")]
    meta = {
        "journal": _text(article.find("Journal/Title")) or _text(
            citation.find("MedlineJournalInfo/MedlineTA")),
        "year": int(year[0]) if year else None,
        "doi": next((_text(doi) for doi in dois if doi.get("ValidYN") != "N"), ""),
        "languages": [two_letters(_text(code)) for code in article.iterfind("Language")],
        "vernacular_title": _text(article.find("VernacularTitle")),
        "types": [_text(kind) for kind in article.iterfind(
            "PublicationTypeList/PublicationType")],
        "mesh": [_text(heading) for heading in citation.iterfind(
            "MeshHeadingList/MeshHeading/DescriptorName")],
    }
    return {key: value for key, value in meta.items() if value}
