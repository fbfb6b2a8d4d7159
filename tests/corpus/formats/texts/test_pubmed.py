"""PubMed citations as records."""

from __future__ import annotations

import gzip
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.account import ADDED, IN_RECORDS, LEFT_OUT
from bmtools.corpus.formats.texts.pubmed import ROOTS, pubmed_account, pubmed_records
from bmtools.errors import DataError, RecordError
from bmtools.records import Record, check

ARTICLE = """<Journal><Title>J</Title><JournalIssue><PubDate>
<MedlineDate>1998 Dec-1999 Jan</MedlineDate></PubDate></JournalIssue></Journal>
<ArticleTitle>{title}</ArticleTitle>{more}<Language>{lang}</Language>"""


def citation(more: str = "", title: str = "T.", lang: str = "eng", pmid: str = "1",
             others: str = "") -> str:
    article = ARTICLE.format(title=title, more=more, lang=lang)
    return (f'<MedlineCitation><PMID Version="1">{pmid}</PMID><Article>{article}</Article>'
            f"{others}</MedlineCitation>")


@pytest.fixture
def source(write):
    return lambda body, root="MedlineCitationSet": write(f"<{root}>\n{body}</{root}>")


def abstract(*parts: str) -> str:
    return f"<Abstract>{''.join(parts)}<CopyrightInformation>©</CopyrightInformation></Abstract>"


def part(text: str, **attributes: str) -> str:
    given = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<AbstractText{given}>{text}</AbstractText>"


def one(path: str, **options: bool) -> Record:
    record, = pubmed_records([path], **options)
    check(record)
    return record


def test_a_record_is_read(source) -> None:
    record = one(source(citation(abstract(part("Was  done.\n")))))
    assert record == {"id": "1", "title": "T.", "text": "Was done.", "lang": "en",
                      "meta": {"journal": "J", "year": 1998, "month": 12, "languages": ["en"],
                               "copyright": "©"}}
    assert record.place.endswith("in.xml:2")


def test_labels_have_offsets(source) -> None:
    record = one(source(citation(abstract(
        part("Why \U0001d4b3?", Label="AIM", NlmCategory="OBJECTIVE"), part("", Label="EMPTY"),
        part("We looked.", Label="METHODS"), part("Loose.", Label="UNLABELLED"), part("End.")))))
    assert record["text"] == "AIM: Why \U0001d4b3?\nMETHODS: We looked.\nLoose.\nEnd."
    assert [(section["label"], record["text"][section["start"]:section["end"]])
            for section in record["meta"]["sections"]] == [
                ("AIM", "Why \U0001d4b3?"), ("METHODS", "We looked."), ("UNLABELLED", "Loose.")]
    assert [section.get("category") for section in record["meta"]["sections"]] == [
        "OBJECTIVE", None, None]


def test_character_names_are_decoded_in_labels(source) -> None:
    dtd = '<!DOCTYPE MedlineCitationSet PUBLIC "-//NLM//DTD" "https://dtd.nlm.nih.gov/p.dtd">'
    path = Path(source(citation(abstract(part("The &alpha;-form.", Label="TGF-&beta;")))))
    path.write_text(path.read_text("utf-8").replace("<Med", f"{dtd}<Med", 1),
                    encoding="utf-8")
    assert one(str(path))["text"] == "TGF-\u03b2: The \u03b1-form."


def test_text_in_inline_markup_and_unicode_are_kept(source) -> None:
    text = ('<i>E.\u00a0coli</i> at 10<sup>-5</sup>\u2009M, <mml:math xmlns:mml="urn:m"><mml:mi>β'
            "</mml:mi></mml:math> &lt; 1 &#x3b1;")
    record = one(source(citation(abstract(part(text)))))
    assert record["text"] == "E.\u00a0coli at 10⁻⁵\u2009M, β < 1 \u03b1"


@pytest.mark.parametrize(("title", "lang", "expected"), [
    ("[Vaccines are drugs].", "ita", "Vaccines are drugs."),
    ("[Why?].", "fre", "Why?"),
    ("[The end]", "ITA", "The end."),
    ("[A [3H] label].", "jpn", "A [3H] label."),
    ("[3H]Uridine and [14C].", "jpn", "[3H]Uridine and [14C]."),
    ("[Sic].", "eng", "[Sic]."),
    ("Plain.", "ita", "Plain.")])
def test_translated_titles_lose_their_brackets(source, title: str, lang: str,
                                               expected: str) -> None:
    record = one(source(citation(abstract(part("X.")), title, lang)))
    assert record["title"] == expected
    assert record["lang"] == "en"


def test_titles_of_articles_without_abstract_can_be_read(source) -> None:
    path = source(citation(title="[Heart].", lang="ita", more="<Abstract></Abstract>"))
    counts: Counter[str] = Counter()
    assert list(pubmed_records([path], counts=counts)) == []
    assert [what for what, count in counts.items() if count] == [
        "articles without abstract left out (titles yields their titles)"]
    record = one(path, titles=True)
    assert (record["text"], record["lang"]) == ("Heart.", "en")
    assert "title" not in record


def test_a_vernacular_title_is_used_if_there_is_no_translation(source) -> None:
    record = one(source(citation("<VernacularTitle>Cuore.</VernacularTitle>", "[Not Available].",
                                 "ita")), titles=True)
    assert (record["text"], record["lang"]) == ("Cuore.", "it")


def test_other_abstracts_are_records(source) -> None:
    others = "".join(
        f'<OtherAbstract Type="Publisher" Language="{lang}">{part(lang, Label="AIM")}'
        "</OtherAbstract>" for lang in ("ita", "fre", "ita"))
    others += ('<OtherAbstract Language="pol"><AbstractText>Abstract available from the publisher.'
               "</AbstractText></OtherAbstract>")
    path = source(citation(abstract(part("X.")), others=others))
    counts: Counter[str] = Counter()
    assert [record["id"] for record in pubmed_records([path], counts=counts)] == ["1"]
    assert sorted(counts.values()) == [1, 3]
    records = list(pubmed_records([path], other_abstracts=True))
    assert [(record["id"], record["lang"], record["text"]) for record in records] == [
        ("1", "en", "X."), ("1-it", "it", "AIM: ita"), ("1-fr", "fr", "AIM: fre"),
        ("1-it-2", "it", "AIM: ita")]


def test_a_further_abstract_has_its_kind_in_meta(source) -> None:
    path = source(citation(others='<OtherAbstract Type="plain-language-summary">'
                                  f"{abstract(part('X.'))[10:-11]}</OtherAbstract>"))
    record = one(path, other_abstracts=True)
    assert (record["id"], record["lang"]) == ("1-en", "en")
    assert record["meta"] == {"journal": "J", "year": 1998, "month": 12, "languages": ["en"],
                              "copyright": "©",
                              "document": "1", "kind": "plain-language-summary"}


def test_deletions_are_counted(source) -> None:
    path = source(f"<PubmedArticle>{citation(abstract(part('X.')))}</PubmedArticle>"
                  "<DeleteCitation><PMID>1</PMID><PMID>2</PMID></DeleteCitation>",
                  "PubmedArticleSet")
    counts: Counter[str] = Counter()
    assert len(list(pubmed_records([path], counts=counts))) == 1
    assert +counts == {"PMIDs listed as deleted": 2}


BOOK = f"""<BookDocument><PMID Version="1">7</PMID><ArticleIdList>
<ArticleId IdType="bookaccession">NBK7</ArticleId><ArticleId IdType="doi">10.1/b</ArticleId>
</ArticleIdList><Book><Publisher><PublisherName>P</PublisherName></Publisher>
<BookTitle book="b">Heart <i>and</i> lung</BookTitle><PubDate><Year>2012</Year></PubDate>
<AuthorList><Author><LastName>A</LastName></Author></AuthorList></Book>{{title}}
<Language>eng</Language><PublicationType UI="D">Review</PublicationType>
{abstract(part("Why.", Label="AIM"), part("So."))}
<Sections><Section><SectionTitle book="b">One</SectionTitle></Section></Sections>
<KeywordList><Keyword>pump</Keyword></KeywordList></BookDocument>"""


@pytest.mark.parametrize(("title", "expected"), [
    ("", "Heart and lung"), ("<ArticleTitle>Valves.</ArticleTitle>", "Valves.")])
def test_books_are_read(source, title: str, expected: str) -> None:
    book = BOOK.format(title=title)
    for body, root in ((f"<PubmedBookArticle>{book}<PubmedBookData/></PubmedBookArticle>", "Pubmed"
                        "ArticleSet"), (book, "BookDocumentSet")):
        record = one(source(body, root))
        assert record == {
            "id": "7", "title": expected, "text": "AIM: Why.\nSo.", "lang": "en", "meta": {
                "book": "Heart and lung", "year": 2012, "doi": "10.1/b", "languages": ["en"],
                "types": ["Review"], "keywords": ["pump"], "copyright": "©",
                "sections": [{"label": "AIM", "start": 5, "end": 9}]}}


def test_articles_of_2001_are_read(source) -> None:
    path = source(f"""<PubMedArticle><NCBIArticle><PMID>3</PMID><Article>
        {ARTICLE.format(title="T.", more=abstract(part("X.")), lang="eng")}</Article></NCBIArticle>
        <PubMedData><ReferenceList><Reference><ArticleIdList><ArticleId IdType="doi">10.1/other
        </ArticleId></ArticleIdList></Reference></ReferenceList>
        <ArticleIdList><ArticleId IdType="doi">10.1/x</ArticleId></ArticleIdList>
        </PubMedData></PubMedArticle><PubmedArticle><MedlineCitation><MedlineID>9</MedlineID>
        <PMID>4</PMID><Article>{ARTICLE.format(title="U.", more=abstract(part("Y.")), lang="EN")}
        </Article><MeshHeadingList><MeshHeading><Descriptor>Heart</Descriptor></MeshHeading>
        </MeshHeadingList></MedlineCitation></PubmedArticle>""", "PubmedArticleSet")
    first, second = pubmed_records([path])
    assert (first["id"], first["meta"]["doi"]) == ("3", "10.1/x")
    assert (second["id"], second["meta"]["mesh"]) == ("4", ["Heart"])


@pytest.mark.parametrize(("dates", "published"), [
    ("<PubDate><Year>2001</Year><Month>Feb</Month></PubDate>", {"year": 2001, "month": 2}),
    ("<PubDate><Year>2001</Year><Month>11</Month><Day>9</Day></PubDate>",
     {"year": 2001, "month": 11}),
    ("<PubDate><Year>2001</Year><Month>13</Month></PubDate>", {"year": 2001}),
    ("<PubDate><MedlineDate>2015 Oct-Dec</MedlineDate></PubDate>", {"year": 2015, "month": 10}),
    ("<PubDate><MedlineDate>1998 Dec-1999 Jan</MedlineDate></PubDate>",
     {"year": 1998, "month": 12}),
    ("<PubDate><MedlineDate>2000 Spring-Summer</MedlineDate></PubDate>", {"year": 2000}),
    ("<PubDate><MedlineDate>Winter 1999-2000</MedlineDate></PubDate>", {"year": 1999}),
    ("<PubDate><MedlineDate>Spring</MedlineDate></PubDate>", {"year": 2019, "month": 4}),
    ("<PubDate><Year>2019</Year></PubDate>", {"year": 2019, "month": 4}),
    ("<PubDate><Year>1987</Year><Season>Fall</Season></PubDate>", {"year": 1987}),
    ("", {"year": 2019, "month": 4})])
def test_the_date_of_publication_is_read(source, dates: str, published: dict[str, int]) -> None:
    article = (f"<Journal><ISSN IssnType='Print'>1234-5678</ISSN><JournalIssue>{dates}"
               f"</JournalIssue></Journal>{abstract(part('X.'))}"
               "<ArticleDate DateType='Electronic'><Year>2019</Year><Month>04</Month>"
               "</ArticleDate>")
    record = one(source(f"""<MedlineCitation><PMID Version="2">1</PMID><DateRevised>
        <Year>2021</Year><Month>3</Month><Day>09</Day></DateRevised><Article>{article}</Article>
        <OtherID Source="NLM">PMC77 [Available on 01/01/22]</OtherID></MedlineCitation>"""))
    assert record["meta"] == {"version": 2, "issn": "1234-5678", **published,
                              "date_revised": "2021-03-09", "pmcid": "PMC77", "copyright": "©"}


def test_a_citation_without_pmid_is_rejected(source) -> None:
    path = source(citation(abstract(part("X.")), pmid="")
                  + citation(abstract(part("Y.")), pmid="2"))
    with pytest.raises(RecordError, match=r"in\.xml:2: found a citation without PMID"):
        list(pubmed_records([path]))
    rejected: list[RecordError] = []
    assert len(list(pubmed_records([path], reject=rejected.append))) == 1
    assert len(rejected) == 1


@pytest.mark.parametrize("root", ROOTS)
def test_a_root_without_articles_is_an_error(source, root: str) -> None:
    with pytest.raises(DataError, match=f"found <C> in <{root}>, expected <PubmedArticle> or <Pub"):
        list(pubmed_records([source(f"<C>{citation()}</C>", root)]))


@pytest.mark.data
@pytest.mark.parametrize(("name", "citations", "abstracts", "structured"), [
    ("medline16n0902.xml.gz", 604, 526, 215), ("pubmed24-sample.xml.gz", 4, 3, 1),
    ("pubmed-29768149.xml", 1, 1, 1), ("pubmed15-bom.xml", 106, 106, 28)])
def test_real_files_equal_a_tree_in_memory(data: Path, name: str, citations: int, abstracts: int,
                                           structured: int) -> None:
    path = data / "en/pubmed-xml" / name
    records = list(pubmed_records([str(path)], titles=True))
    with_abstract = [record for record in records if "title" in record]
    assert len(records) == citations
    assert len(with_abstract) == abstracts
    assert sum("sections" in record["meta"] for record in records) == structured
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    root = ElementTree.fromstring(content.decode("utf-8-sig"))
    expected, labels = {}, {}
    for found in root.iter("MedlineCitation"):
        texts = found.findall("Article/Abstract/AbstractText")
        parts = ["".join(text.itertext()) for text in texts]
        if parts:
            expected[found.findtext("PMID")] = " ".join(" ".join(parts).split())
            labels[found.findtext("PMID")] = [
                (text.get("Label"), text.get("NlmCategory")) for text in texts if text.get("Label")]
    for record in with_abstract:
        sections = record["meta"].get("sections")
        text = record["text"]
        parts = [text[part["start"]:part["end"]] for part in sections] if sections else [text]
        assert " ".join(" ".join(parts).split()) == expected[record["id"]]
        assert [(part["label"], part.get("category")) for part in sections or ()] == labels[
            record["id"]]


@pytest.mark.data
def test_omissions_in_real_files_are_counted(data: Path) -> None:
    counts, path = Counter[str](), str(data / "en/pubmed-xml/medline16n0902.xml.gz")
    records = list(pubmed_records([path], other_abstracts=True, counts=counts))
    assert +counts == {"PMIDs listed as deleted": 1,
                       "further abstracts available only from the publisher": 21,
                       "articles without abstract left out (titles yields their titles)": 78}
    assert {record["lang"] for record in records} == {"en"}
    titles = [record["title"] for record in records if "it" in record["meta"]["languages"]]
    assert len(titles) == 8 and not any(title.startswith("[") for title in titles)


CITATIONS = """<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">1</PMID>
<Article><Journal><JournalIssue><PubDate><Year>1998</Year></PubDate></JournalIssue>
<Title>The heart</Title></Journal><ArticleTitle>[Does it <i>beat</i>?].</ArticleTitle>
<Abstract><AbstractText Label="AIM">To see CO<sub>2</sub> &lt; 1.</AbstractText>
<AbstractText Label="UNLABELLED">It does.</AbstractText>
<CopyrightInformation>(c) us</CopyrightInformation></Abstract>
<AuthorList><Author><LastName>A</LastName><AffiliationInfo><Affiliation>Rome <sup>1</sup>
</Affiliation></AffiliationInfo></Author></AuthorList><Language>ita</Language>
<VernacularTitle>Batte?</VernacularTitle></Article>
<OtherAbstract Language="ita"><AbstractText Label="FINE">Vedere.</AbstractText></OtherAbstract>
<OtherAbstract Language="fre"><AbstractText>Abstract available from the publisher.</AbstractText>
</OtherAbstract></MedlineCitation><PubmedData><ReferenceList><Title>Cited</Title><Reference>
<Citation>B 2001.</Citation></Reference></ReferenceList></PubmedData></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID Version="1">2</PMID><Article>
<ArticleTitle>[The end]</ArticleTitle><Language>ita</Language></Article></MedlineCitation>
</PubmedArticle><PubmedArticle><MedlineCitation><PMID Version="1">3</PMID><Article>
<ArticleTitle>[Not Available].</ArticleTitle><Language>ita</Language>
<VernacularTitle>Cuore.</VernacularTitle></Article></MedlineCitation></PubmedArticle>
<PubmedBookArticle><BookDocument><PMID Version="1">4</PMID><Book><BookTitle>Lungs</BookTitle>
</Book><ArticleTitle>{chapter}</ArticleTitle><Abstract><AbstractText>They breathe.</AbstractText>
</Abstract></BookDocument></PubmedBookArticle><DeleteCitation><PMID>9</PMID></DeleteCitation>
</PubmedArticleSet>"""


def characters(content: str) -> int:
    return len("".join("".join(ElementTree.fromstring(content).itertext()).split()))


def account(path: Path, **options: bool) -> tuple[Counter[str], int]:
    """Return the counts and the characters of the records."""
    counts: Counter[str] = Counter()
    records = list(pubmed_account(pubmed_records([str(path)], **options), str(path), counts=counts,
                                  **options))
    written = "".join(record.get("title", "") + record["text"] for record in records)
    return counts, len("".join(written.split()))


def total(counts: Counter[str]) -> int:
    return sum(count for name, count in counts.items() if name != ADDED)


@pytest.mark.parametrize("titles", [False, True])
@pytest.mark.parametrize("other_abstracts", [False, True])
@pytest.mark.parametrize("chapter", ["", "Breath."])
def test_text_nodes_are_in_records_or_in_classes(tmp_path: Path, titles: bool,
                                                 other_abstracts: bool, chapter: str) -> None:
    path = tmp_path / "in.xml"
    path.write_text(CITATIONS.format(chapter=chapter), encoding="utf-8")
    counts, written = account(path, titles=titles, other_abstracts=other_abstracts)
    assert total(counts) == characters(path.read_text())
    assert counts[IN_RECORDS] + counts[ADDED] == written
    further = counts[LEFT_OUT.format("further abstracts")]
    assert further == len("Abstractavailablefromthepublisher.") + len("Vedere.") * (
        not other_abstracts)
    assert counts[LEFT_OUT.format("affiliations")] == len("Rome1")
    assert counts[LEFT_OUT.format("references")] == len("B2001.")
    assert counts[LEFT_OUT.format("journals, volumes and pages")] == len("Theheart" "itaitaita"
                                                                        "Cited")
    assert counts[LEFT_OUT.format("titles of articles without abstract")] == (
        0 if titles else len("[Theend]" "[NotAvailable]." "Cuore."))


@pytest.mark.parametrize(("before", "added", "message"), [
    ("</MedlineCitation>", "<LaySummary>In plain words.</LaySummary>",
     "PubmedArticle/MedlineCitation/LaySummary: the text 'Inplainwords.' is not accounted for"),
    ("<CopyrightInformation>", "Zero", "Article/Abstract: the text 'Zero' is not accounted for"),
    ("<DeleteCitation>", "<Notice>New</Notice>", "PubmedArticleSet/Notice: the text 'New' is not"),
    ("</PubmedData>", "<Abstract><AbstractText>Two</AbstractText></Abstract>", "the text 'Two' is"),
])
def test_text_in_an_unknown_element_is_an_error(tmp_path: Path, before: str, added: str,
                                                message: str) -> None:
    path = tmp_path / "in.xml"
    path.write_text(CITATIONS.format(chapter="").replace(before, added + before, 1), "utf-8")
    with pytest.raises(DataError) as caught:
        account(path)
    assert message in str(caught.value)


@pytest.mark.data
@pytest.mark.parametrize("name", ["medline16n0902.xml.gz", "pubmed24-sample.xml.gz",
                                  "pubmed-29768149.xml", "pubmed15-bom.xml"])
def test_real_files_are_accounted_for(data: Path, name: str) -> None:
    path = data / "en/pubmed-xml" / name
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    counts, written = account(path)
    assert total(counts) == characters(content.decode("utf-8-sig"))
    assert counts[IN_RECORDS] + counts[ADDED] == written
