"""Account of PubMed's XML: which elements are text, and the classes of all others.

Elements are named one by one, from the DTDs of 2001 to 2025, so that text in one that no year has
had is in no class, and shows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from bmtools.corpus.account import Piece, accounted, squeezed
from bmtools.corpus.formats.texts.pubmed import ARTICLES, CITATIONS, ELSEWHERE, NO_TITLE, UNLABELLED
from bmtools.corpus.xml_account import Attributes, Path, XmlClasses, xml_pieces
from bmtools.records import Record

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
           _BOOK_TITLE: "titles of books beside a chapter's", _VERNACULAR: "vernacular titles"}
_NOT_AVAILABLE = tuple(squeezed(f"[{NO_TITLE}]{end}") for end in (".", ""))
_ELSEWHERE = squeezed(ELSEWHERE)
_BRACKETS = "brackets and stops of translated titles"


def pubmed_account(records: Iterable[Record], name: str, counts: Counter[str],
                   titles: bool = False, other_abstracts: bool = False) -> Iterator[Record]:
    """Yield the records of a file, and prove that they hold its text; see `accounted`.

    Args:
        records: as `pubmed_records` yields them with the same options.
        name: of the file.
        counts: counts characters.
        titles: as given to `pubmed_records`.
        other_abstracts: as given to `pubmed_records`.
    """
    classes = XmlClasses(_left_out, (*ARTICLES, *CITATIONS),
                         partial(_in_citation, titles, other_abstracts), _label)
    return accounted(records, xml_pieces(name, classes, counts), name, counts, "[].", _BRACKETS,
                     _TITLE)


def _left_out(path: Path, _attributes: Attributes) -> str:
    return "" if path[-2:] == ["Book", "Title"] else _CLASS_OF.get(path[-1], "")


def _label(path: Path, attributes: Attributes) -> str:
    """Give the label of a part of an abstract as it stands in the text."""
    label = attributes.get("Label", "").strip() if path[-1] == "AbstractText" else ""
    return f"{label}:" if label and label != UNLABELLED else ""


def _in_citation(titles: bool, other_abstracts: bool,
                 pieces: Sequence[Piece]) -> Iterator[tuple[Piece, str]]:
    """Give the pieces of a citation, with the classes of those that are in no record."""
    in_elements = [(piece, _text_of(piece)) for piece in pieces]
    left_out = _titles_left_out(in_elements, titles)
    for piece, element in in_elements:
        if element == _OTHER_ABSTRACT and not (other_abstracts and piece.text != _ELSEWHERE):
            yield piece, "further abstracts"
            continue
        yield piece, left_out.get(element, "")
        if element == _TITLE and piece.text.endswith("]"):
            yield Piece(piece.place, ".", added=True), left_out.get(element, "")


def _text_of(piece: Piece) -> str:
    """Name the element of text that a piece is in; empty where it is in none that is known."""
    path = f"/{piece.place.rpartition(': ')[2]}/"
    found = next((element for element in _TEXTS if f"{element}/" in path), "")
    return _BOOK_TITLE if found == "Book/Title" else found


def _titles_left_out(pieces: Sequence[tuple[Piece, str]], titles: bool) -> dict[str, str]:
    """Name the classes of the titles of a citation that are in no record."""
    texts: defaultdict[str, str] = defaultdict(str)
    for piece, element in pieces:
        texts[element] += "" if piece.added else piece.text
    if not texts[_ABSTRACT] and not titles:
        return dict.fromkeys(_TITLES, "titles of articles without abstract")
    possible = (_TITLE, _BOOK_TITLE) if texts[_ABSTRACT] else tuple(_TITLES)
    used = next((element for element in possible
                 if texts[element] and texts[element] not in _NOT_AVAILABLE), "")
    return {element: name for element, name in _TITLES.items() if element != used}
