"""Every character of PubMed's XML is in a record or in a class that is left out."""

from __future__ import annotations

import gzip
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.account import ADDED, IN_RECORDS, LEFT_OUT
from bmtools.corpus.formats.texts.pubmed import pubmed_account, pubmed_records
from bmtools.errors import DataError

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
    """Return what was counted, and the characters of the records."""
    counts: Counter[str] = Counter()
    records = list(pubmed_account(pubmed_records([str(path)], **options), str(path), counts,
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


@pytest.mark.parametrize(("before", "added", "told"), [
    ("</MedlineCitation>", "<LaySummary>In plain words.</LaySummary>",
     "PubmedArticle/MedlineCitation/LaySummary: the text 'Inplainwords.' is not accounted for"),
    ("<CopyrightInformation>", "Zero", "Article/Abstract: the text 'Zero' is not accounted for"),
    ("<DeleteCitation>", "<Notice>New</Notice>", "PubmedArticleSet/Notice: the text 'New' is not"),
    ("</PubmedData>", "<Abstract><AbstractText>Two</AbstractText></Abstract>", "the text 'Two' is"),
])
def test_text_in_an_unknown_element_is_an_error(tmp_path: Path, before: str, added: str,
                                                told: str) -> None:
    path = tmp_path / "in.xml"
    path.write_text(CITATIONS.format(chapter="").replace(before, added + before, 1), "utf-8")
    with pytest.raises(DataError) as caught:
        account(path)
    assert told in str(caught.value)


@pytest.mark.data
@pytest.mark.parametrize("name", ["medline16n0902.xml.gz", "pubmed24-sample.xml.gz",
                                  "pubmed-29768149.xml", "pubmed15-bom.xml"])
def test_real_files_are_accounted_for(data: Path, name: str) -> None:
    path = data / "en/pubmed-xml" / name
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    counts, written = account(path)
    assert total(counts) == characters(content.decode("utf-8-sig"))
    assert counts[IN_RECORDS] + counts[ADDED] == written
