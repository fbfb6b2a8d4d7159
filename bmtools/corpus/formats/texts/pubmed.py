"""PubMed and MEDLINE XML of all years: citations of articles and books as records."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from bmtools.corpus.account import Attributes, Path, Piece, XmlAccount, accounted, squeezed
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.xml_stream import plain, raise_exponents, single_spaced, xml_elements
from bmtools.errors import RecordError, setting
from bmtools.io.sources import source_name
from bmtools.records import JsonObject, Record
from bmtools.text.languages import two_letters

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

ROOTS = ("PubmedArticleSet", "MedlineCitationSet", "PubmedBookArticleSet", "BookDocumentSet")
# An article element contains the citation and, next to it, the data that PubMed adds. The names
# with a capital M and NCBIArticle were used from 2001 to 2009.
ARTICLES = ("PubmedArticle", "PubmedBookArticle", "PubMedArticle")
CITATIONS = ("MedlineCitation", "BookDocument", "NCBIArticle")
_DELETIONS = ("DeleteCitation", "DeleteDocument")
_ADDED = ("PubmedData", "PubmedBookData", "PubMedData")
_ENGLISH = "en"
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_DATE = re.compile(r"(\d{4})(?: (\d\d?|[A-Z][a-z]{2}))?")
NO_TITLE = "Not Available"
# PubMed's text in place of a missing further abstract.
ELSEWHERE = "Abstract available from the publisher."
# NLM's label for a part of an abstract without a heading in the article.
UNLABELLED = "UNLABELLED"


@reader
def pubmed_records(names: Sequence[str], tally: Tally, titles: bool = False,
                   other_abstracts: bool = False) -> Iterator[Record]:
    """Yield a record for every citation with an abstract.

    PubMed's abstracts are always in English, so `lang` is `en`, and `meta.languages` contains the
    article's languages. A title that PubMed translated loses its brackets. Each part of a
    structured abstract is a line that begins with its label. `meta.sections` contains the label,
    NLM's category, start and end of each part, without the label.

    Args:
        names: XML files, compressed or not; `-` for stdin.
        titles: use the title of a citation without abstract as text, without `title`.
        other_abstracts: yield further abstracts, mostly in other languages, as `PMID-LANG`.
        tally: counts omissions by reason.
            It rejects a citation without PMID.
    """
    counts = tally.counts
    for name in names:
        for element in xml_elements(name, ROOTS, (*ARTICLES, *CITATIONS, *_DELETIONS), True):
            if element.tag in _DELETIONS:
                counts["PMIDs listed as deleted"] += len(list(
                    element.iterchildren("PMID", "MedlineID")))
                continue
            raise_exponents(element)
            try:
                citation = _Citation(element, f"{source_name(name)}:{element.sourceline}")
            except RecordError as error:
                tally.reject(error)
            else:
                yield from _records(citation, titles, other_abstracts, counts)


class _Citation:
    """A citation of an article or book, and its parts by tag.

    Args:
        element: the citation, or the article that contains it and adds identifiers.
        place: place of the element, in messages.

    Raises:
        RecordError: the citation has no PMID.
    """

    def __init__(self, element: Element, place: str) -> None:
        self.place = place
        self.whole = element
        self.root = element if element.tag in CITATIONS else next(
            element.iterchildren(*CITATIONS), element)
        self.parts = _children(self.root)
        self.article = self.parts.get("Article", self.root)
        self.article_parts = _children(self.article)
        self.pmid = plain(self.parts.get("PMID"))
        if not self.pmid:
            raise RecordError(place, f"found a citation without PMID in <{element.tag}>, "
                                     "expected <PMID>")
        self.version = self.parts["PMID"].get("Version", "1")


def _records(citation: _Citation, titles: bool, other_abstracts: bool,
             counts: Counter[str]) -> Iterator[Record]:
    text, about = _abstract(citation.article_parts.get("Abstract"))
    makes_records = text or titles or "OtherAbstract" in citation.parts
    meta = _meta(citation) if makes_records else {}
    title = _title(plain(citation.article_parts.get("ArticleTitle")), meta.get("languages", ()))
    title = title or meta.get("book", "")
    if text:
        own_title = {"title": title} if title else {}
        yield Record(id=citation.pmid, **own_title, text=text, lang=_ENGLISH, meta=meta | about,
                     place=citation.place)
    elif not titles:
        counts[f"articles without abstract left out ({setting('titles')} yields their titles)"] += 1
    elif text := title or meta.pop("vernacular_title", ""):
        lang = _ENGLISH if title else [*meta.get("languages", ()), _ENGLISH][0]
        yield Record(id=citation.pmid, text=text, lang=lang, meta=meta, place=citation.place)
    else:
        counts["articles without abstract and title left out"] += 1
    if "OtherAbstract" in citation.parts:
        for record in _other_abstracts(citation, meta, counts):
            if other_abstracts:
                yield record
            else:
                counts["further abstracts left out "
                       f"({setting('other_abstracts')} yields them)"] += 1


def _other_abstracts(citation: _Citation, meta: JsonObject,
                     counts: Counter[str]) -> Iterator[Record]:
    seen: Counter[str] = Counter()
    for other in citation.root.iterchildren("OtherAbstract"):
        text, about = _abstract(other)
        if text == ELSEWHERE:
            counts["further abstracts available only from the publisher"] += 1
        elif text:
            lang = two_letters(other.get("Language", "eng"))  # the DTD's default
            seen[lang] += 1
            again = f"-{seen[lang]}" if seen[lang] > 1 else ""
            about |= {"document": citation.pmid, "kind": other.get("Type", "")}
            yield Record(id=f"{citation.pmid}-{lang}{again}", text=text, lang=lang,
                         meta=meta | {key: value for key, value in about.items() if value},
                         place=citation.place)


def _children(element: Element | None) -> dict[str, Element]:
    """Return the children of an element by tag, the last child for each tag."""
    return {} if element is None else {child.tag: child for child in element}


def _texts(elements: Iterable[Element]) -> list[str]:
    return [text for element in elements if (text := plain(element))]


def _abstract(abstract: Element | None) -> tuple[str, JsonObject]:
    """Join the parts of an abstract; return also its labelled `sections` and `copyright`."""
    text, about, sections = "", {}, []
    for part in () if abstract is None else abstract.iterchildren(
            "AbstractText", "CopyrightInformation"):
        content = plain(part)
        if not content:
            continue
        if part.tag == "CopyrightInformation":
            about["copyright"] = content
            continue
        label = single_spaced(part.get("Label", ""))
        text += "\n" if text else ""
        if label and label != UNLABELLED:
            text += f"{label}: "
        if label:
            category = part.get("NlmCategory")
            sections.append({"label": label, **({"category": category} if category else {}),
                             "start": len(text), "end": len(text) + len(content)})
        text += content
    return text, about | ({"sections": sections} if sections else {})


def _title(title: str, languages: Sequence[str]) -> str:
    """Remove the brackets around a title that PubMed translated: `[Vaccines].`"""
    whole = title.removesuffix(".")
    if languages == [_ENGLISH] or whole[:1] != "[" or whole[-1] != "]":
        return title
    depths = list(accumulate((sign == "[") - (sign == "]") for sign in whole))
    if 0 in depths[:-1]:
        return title
    inner = whole[1:-1].strip()
    if inner.rstrip(".") == NO_TITLE:
        return ""
    return inner if inner.endswith((".", "?", "!", "…")) else inner + "."


def _meta(citation: _Citation) -> JsonObject:
    """Return a citation's metadata, without missing fields."""
    parts, article, article_parts = citation.parts, citation.article, citation.article_parts
    journal = _children(article_parts.get("Journal"))
    book = _children(article_parts.get("Book"))
    info = _children(parts.get("MedlineJournalInfo"))
    ids = _ids(citation)
    meta = {
        "version": int(citation.version) if citation.version.isdecimal() else 0,
        "journal": plain(journal.get("Title")) or plain(info.get("MedlineTA")),
        "issn": plain(info.get("ISSNLinking")) or plain(journal.get("ISSN")),
        "book": plain(book.get("BookTitle")) or plain(book.get("Title")),
        **_published(journal.get("JournalIssue"), book.get("PubDate"),
                     article_parts.get("ArticleDate")),
        "date_revised": "-".join(text.zfill(2) for text in _texts(parts.get("DateRevised", ()))),
        "doi": ids.get("doi"),
        "pmcid": ids.get("pmc"),
        "languages": [two_letters(code) for code in _texts(article.iterchildren("Language"))],
        "vernacular_title": plain(article_parts.get("VernacularTitle")),
        "types": _texts(article_parts.get("PublicationTypeList", article).iterchildren(
            "PublicationType")),
        "mesh": _texts(parts["MeshHeadingList"].iter("DescriptorName", "Descriptor"))
        if "MeshHeadingList" in parts else None,
        "keywords": _texts(word for words in citation.root.iterchildren("KeywordList")
                           for word in words),
    }
    return {key: value for key, value in meta.items() if value and (key, value) != ("version", 1)}


def _published(*dates: Element | None) -> dict[str, int]:
    """Return the first year in the dates, and its month if one of the dates contains it.

    `MedlineDate` contains a range such as `1998 Dec-1999 Jan`, which begins in December 1998.
    """
    found = [date for element in dates if element is not None and (date := _DATE.search(
        " ".join(_texts(element.iter("Year", "Month", "MedlineDate")))))]
    months = [int(name) if name.isdecimal() else _MONTHS.find(name) // 3 + 1
              for date in found if date[1] == found[0][1] and (name := date[2])]
    return {**({"year": int(found[0][1])} if found else {}),
            "month": next((month for month in months if 1 <= month <= 12), 0)}


def _ids(citation: _Citation) -> dict[str, str]:
    """Find the identifiers of the article by type, without those of its references."""
    found = [(one.get("EIdType"), one) for one in citation.article.iter("ELocationID")
             if one.get("ValidYN") != "N"]
    found += [(one.get("IdType"), one)
              for parent in (citation.root, *citation.whole.iterchildren(*_ADDED))
              for ids in parent.iterchildren("ArticleIdList") for one in ids]
    found += [("pmc", one) for one in citation.root.iterchildren("OtherID")
              if (one.text or "").startswith("PMC")]
    return {kind: plain(one).partition(" ")[0] for kind, one in reversed(found)}


# All elements in the DTDs of 2001 to 2025, so that text in an unknown element is an error.
_CLASSES = {
    "identifiers": "AccessionNumber ArticleId Coden ContractNumber DataBankName ELocationID "
                   "Identifier Isbn ISSN ISSNLinking MedlineCode MedlineID NameID NlmDcmsID "
                   "NlmUniqueID OtherID PMID ProviderId ReportNumber URL",
    "dates": "DateOfElectronicPublication Day Hour MedlineDate Minute Month PublicationStatus "
             "Season Second Year",
    "journals, volumes and pages": "CollectionTitle Country Edition EndPage ISOAbbreviation Issue "
                                   "Language LocationLabel Medium MedlinePgn MedlineTA "
                                   "Publisher PublisherLocation PublisherName SectionTitle "
                                   "StartPage Title Volume VolumeTitle",
    "authors": "CollectiveName DatesAssociatedWithName FirstName ForeName Initials LastName "
               "MiddleName NameQualifier OtherInformation Suffix TitleAssociatedWithName",
    "affiliations": "Affiliation",
    "grants": "Acronym Agency GrantID",
    "subjects and types": "CASRegistryNumber CitationSubset Descriptor DescriptorName GeneSymbol "
                          "Item Keyword NameOfSubstance Param PublicationType QualifierName "
                          "RegistryNumber SpaceFlightMission SubHeading SupplMeshName",
    "references": "Citation CitationString Note NumberOfReferences RefSource",
    "notes and statements of interest": "CoiStatement GeneralNote",
    "copyright lines": "CopyrightInformation",
}
_CLASS_OF = {element: name for name, elements in _CLASSES.items() for element in elements.split()}
_TITLE, _BOOK_TITLE, _VERNACULAR = "ArticleTitle", "Book/BookTitle", "VernacularTitle"
_ABSTRACT, _OTHER_ABSTRACT = "/Abstract/AbstractText", "/OtherAbstract/AbstractText"
_TEXTS = (_TITLE, _BOOK_TITLE, "Book/Title", _VERNACULAR, _ABSTRACT, _OTHER_ABSTRACT)
_TITLES = {_TITLE: "titles that are not available",
           _BOOK_TITLE: "titles of books with a chapter title", _VERNACULAR: "vernacular titles"}
_NOT_AVAILABLE = tuple(squeezed(f"[{NO_TITLE}]{end}") for end in (".", ""))
_ELSEWHERE = squeezed(ELSEWHERE)
_BRACKETS = "brackets and stops of translated titles"


def pubmed_account(records: Iterable[Record], name: str, counts: Counter[str],
                   titles: bool = False, other_abstracts: bool = False) -> Iterator[Record]:
    """Yield the records of a file, and check that they contain its text; see `accounted`."""
    pieces = _PubmedAccount(titles, other_abstracts).pieces(name)
    return accounted(records, pieces, name, counts, _BRACKETS)


class _PubmedAccount(XmlAccount):
    """Account of PubMed's XML: the elements with text, and the classes of all other elements.

    Args:
        titles: see `pubmed_records`.
        other_abstracts: see `pubmed_records`.
    """

    units = (*ARTICLES, *CITATIONS)

    def __init__(self, titles: bool = False, other_abstracts: bool = False) -> None:
        self._titles, self._other_abstracts = titles, other_abstracts

    def left_out(self, path: Path, attributes: Attributes) -> str:
        """Return the class of an element by its tag."""
        return "" if tuple(path[-2:]) == ("Book", "Title") else _CLASS_OF.get(path[-1], "")

    def added(self, path: Path, attributes: Attributes) -> str:
        """Return the label of an abstract's part as written in the text."""
        label = attributes.get("Label", "").strip() if path[-1] == "AbstractText" else ""
        return f"{label}:" if label and label != UNLABELLED else ""

    def in_unit(self, pieces: Sequence[Piece]) -> Iterator[Piece]:
        """Leave out titles and abstracts that records omit, and brackets around titles."""
        in_elements = [(piece, _text_of(piece)) for piece in pieces]
        left_out = _titles_left_out(in_elements, self._titles)
        for piece, element in in_elements:
            if element == _OTHER_ABSTRACT and not (
                    self._other_abstracts and piece.text != _ELSEWHERE):
                yield piece._replace(left_out="further abstracts")
            elif element in left_out:
                yield piece._replace(left_out=left_out[element])
            elif element == _TITLE:
                yield from piece.without_ends("[].")
                yield Piece(piece.place, ".", is_added=True)
            else:
                yield piece


def _text_of(piece: Piece) -> str:
    """Return the text element that contains a piece; empty if it is not a known one."""
    path = f"/{piece.place.rpartition(': ')[2]}/"
    found = next((element for element in _TEXTS if f"{element}/" in path), "")
    return _BOOK_TITLE if found == "Book/Title" else found


def _titles_left_out(pieces: Sequence[tuple[Piece, str]], titles: bool) -> dict[str, str]:
    """Return the classes of a citation's titles that records omit."""
    texts: defaultdict[str, str] = defaultdict(str)
    for piece, element in pieces:
        texts[element] += "" if piece.is_added else piece.text
    if not texts[_ABSTRACT] and not titles:
        return dict.fromkeys(_TITLES, "titles of articles without abstract")
    possible = (_TITLE, _BOOK_TITLE) if texts[_ABSTRACT] else tuple(_TITLES)
    used = next((element for element in possible
                 if texts[element] and texts[element] not in _NOT_AVAILABLE), "")
    return {element: name for element, name in _TITLES.items() if element != used}
