"""Baseline and update files of PubMed, against a pass over all that is in them."""

from __future__ import annotations

import gzip
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from bmtools.corpus.formats.texts import pubmed_updates
from bmtools.corpus.formats.texts.pubmed import pubmed_records
from bmtools.corpus.formats.texts.pubmed_updates import find_newest, in_order
from bmtools.errors import DataError, RecordError

Write = Callable[..., list[str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*bodies: str, root: str = "PubmedArticleSet") -> list[str]:
        for number, body in enumerate(bodies, 1):
            (tmp_path / f"{number}.xml").write_text(f"<{root}>\n{body}</{root}>", encoding="utf-8")
        return [str(tmp_path / f"{number}.xml") for number in range(1, len(bodies) + 1)]

    return write


def citation(pmid: object, text: str, version: object = 1, cited: str = "") -> str:
    return (f'<PubmedArticle><MedlineCitation>\n<PMID Version="{version}">{pmid}</PMID><Article>'
            f"<Abstract><AbstractText>{text}</AbstractText></Abstract></Article>{cited}"
            "</MedlineCitation></PubmedArticle>\n")


def deletion(*pmids: object, version: object = 1) -> str:
    named = f' Version="{version}"' if version else ""
    return (f"<DeleteCitation>{''.join(f'<PMID{named}>{pmid}</PMID>' for pmid in pmids)}"
            "</DeleteCitation>")


def texts(names: Sequence[str]) -> list[str]:
    return [record["text"] for record in pubmed_records(names, updates=True)]


def brute_force(names: Sequence[str]) -> set[tuple[str, str]]:
    """Keep all citations in memory, in the order of the files."""
    kept: dict[tuple[str, int], str] = {}
    for name in names:
        content = Path(name).read_bytes()
        content = gzip.decompress(content) if name.endswith(".gz") else content
        for element in ElementTree.fromstring(content.decode("utf-8-sig")):
            if element.tag == "DeleteCitation":
                for pmid in element:
                    kept = {key: text for key, text in kept.items() if key[0] != pmid.text or (
                        pmid.get("Version", "all") not in ("all", str(key[1])))}
                continue
            found = element if element.tag == "MedlineCitation" else element.find("MedlineCitation")
            assert found is not None
            text = "\n".join("".join(part.itertext()) for part in found.findall(
                "Article/Abstract/AbstractText"))
            number = found.find("PMID")
            assert number is not None
            assert number.text
            kept[number.text, int(number.get("Version", "1"))] = text
    newest = {pmid: max(version for other, version in kept if other == pmid)
              for pmid in {pmid for pmid, _ in kept}}
    return {(pmid, text) for (pmid, version), text in kept.items()
            if text and newest[pmid] == version}


def test_later_files_replace_and_delete(write: Write) -> None:
    names = write(citation(1, "a") + citation(2, "b") + citation(3, "c"),
                  citation(2, "b2", cited="<CommentsCorrectionsList><CommentsCorrections><PMID>3"
                                          "</PMID></CommentsCorrections></CommentsCorrectionsList>")
                  + deletion(1),
                  citation(4, "d") + citation(1, "a2"))
    counts: Counter[str] = Counter()
    found = [record["text"] for record in pubmed_records(names, updates=True, counts=counts)]
    assert found == ["c", "b2", "d", "a2"]
    assert +counts == {"citations that others replace or delete left out": 2}


@pytest.mark.parametrize(("bodies", "expected"), [
    ([citation(1, "a") + citation(1, "b")], ["b"]),
    ([citation(1, "a") + deletion(1)], []),
    ([deletion(1) + citation(1, "a")], ["a"]),
    ([citation(1, "2", 2) + citation(1, "1", 1)], ["2"]),
    ([citation(1, "2", 2), citation(1, "1, maintained", 1)], ["2"]),
    ([citation(1, "1"), citation(1, "10", 10), citation(1, "9", 9)], ["10"]),
    ([citation(1, "1") + citation(1, "2", 2), deletion(1, version=2)], ["1"]),
    ([citation(1, "1") + citation(1, "2", 2), deletion(1)], ["2"]),
    ([citation(1, "1") + citation(1, "2", 2), deletion(1, version="")], []),
    ([citation(1, "1") + citation(1, "2", 2), deletion(1, version=""), citation(1, "3")], ["3"]),
    ([citation(1, "a"), deletion(1), deletion(1)], []),
    ([citation(99_999_999, "a"), citation(99_999_999, "b")], ["b"])])
def test_versions(write: Write, bodies: list[str], expected: list[str]) -> None:
    assert texts(names := write(*bodies)) == expected
    assert {text for _, text in brute_force(names)} == set(expected)


@pytest.mark.parametrize("seed", range(20))
def test_generated_files_agree_with_brute_force(write: Write, seed: int,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pubmed_updates, "_CHUNK", 50 + 37 * seed)
    rng = Random(seed)
    bodies = []
    for number in range(rng.randrange(1, 6)):
        events = [citation(rng.randrange(1, 30), f"{number}.{place}", rng.choice((1, 1, 1, 2, 3)))
                  for place in range(rng.randrange(25))]
        events += [deletion(*rng.sample(range(1, 30), 3), version=rng.choice(("", 1, 1, 2)))
                   for _ in range(rng.randrange(2))]
        bodies.append("".join(events))
    names = write(*bodies)
    records = list(pubmed_records(names, updates=True))
    assert {(record["id"], record["text"]) for record in records} == brute_force(names)
    assert len({record["id"] for record in records}) == len(records)


def test_files_go_by_nlms_numbers() -> None:
    names = ["u/pubmed26n1340.xml.gz", "b/pubmed26n0002.xml.gz", "a/pubmed25n9999.xml"]
    assert in_order(names) == names[::-1]
    assert in_order([*names, "mine.xml"]) == [*names, "mine.xml"]


@pytest.mark.parametrize(("pmid", "version"), [("x", 1), ("123456789", 1), (1, 0), (1, "1.1")])
def test_a_pmid_that_is_no_number_is_bad(write: Write, pmid: object, version: object) -> None:
    names = write(citation(2, "b") + citation(pmid, "a", version) + citation(3, "c"))
    with pytest.raises(RecordError, match=r"1\.xml:4: found the PMID '.*', expected numbers of at"):
        texts(names)
    rejected: list[RecordError] = []
    kept = list(pubmed_records(names, updates=True, reject=rejected.append))
    assert ([record["text"] for record in kept], len(rejected)) == (["b", "c"], 1)


def test_what_a_first_pass_cannot_see_is_refused(write: Write) -> None:
    for content in (f"<!-- {citation(1, 'no')} -->{citation(1, 'a')}", "<PubmedArticle>\n"
                    "<MedlineCitation><PMID/><CommentsCorrectionsList><PMID>1</PMID>"
                    "</CommentsCorrectionsList></MedlineCitation></PubmedArticle>"):
        with pytest.raises(DataError, match=r"1\.xml: found other PMIDs than in a first pass"):
            list(pubmed_records(write(content), updates=True, reject=lambda error: None))


def test_two_jobs_find_the_same(write: Write) -> None:
    names = write(citation(1, "a") + citation(2, "b") + citation(3, "c"), citation(2, "b2"),
                  deletion(1))
    assert find_newest(names, 2) == find_newest(names)


def test_stdin_cannot_be_read_twice() -> None:
    with pytest.raises(DataError, match="<stdin>: updates reads its input twice; name files"):
        texts(["-"])


@pytest.mark.data
def test_real_files_with_updates_made_of_them(data: Path, tmp_path: Path) -> None:
    folder = data / "en/pubmed-xml"
    old = gzip.decompress((folder / "medline16n0902.xml.gz").read_bytes()).decode()
    new = (folder / "pubmed15-bom.xml").read_text("utf-8-sig")
    names = [str(tmp_path / name) for name in ("medline16n0902.xml", "medline16n0903.xml.gz",
                                               "medline16n0904.xml")]
    rng = Random(0)
    citations = re.findall(r"<MedlineCitation .*?</MedlineCitation>", old, re.DOTALL)
    pmids = [re.findall(r"<PMID [^>]*>(\d+)", one)[0] for one in citations]
    changed = [re.sub(r"(<AbstractText[^>]*>)", r"\1Revised. ", one, count=1)
               for one in rng.sample(citations, 200)]
    versions = [one.replace('<PMID Version="1">', '<PMID Version="2">', 1)
                for one in rng.sample(citations, 20)]
    Path(names[0]).write_text(old)
    Path(names[1]).write_bytes(gzip.compress(
        f"<MedlineCitationSet>{''.join(changed)}{deletion(*rng.sample(pmids, 50))}"
        "</MedlineCitationSet>".encode()))
    Path(names[2]).write_text(new.replace("</PubmedArticleSet>", "".join(
        f"<PubmedArticle>{one}</PubmedArticle>" for one in versions + changed[:5])
        + deletion(*rng.sample(pmids, 10)) + "</PubmedArticleSet>"))
    counts: Counter[str] = Counter()
    records = list(pubmed_records(names[::-1], updates=True, counts=counts))
    expected = brute_force(names)
    squeezed = {(pmid, " ".join(text.split())) for pmid, text in expected}
    assert len(records) == len(expected) > 500
    plain = [record for record in records if "sections" not in record["meta"]]
    assert {(record["id"], " ".join(record["text"].split())) for record in plain} <= squeezed
    assert {record["id"] for record in records} == {pmid for pmid, _ in expected}
    assert counts["citations that others replace or delete left out"] == 604 + 200 + 25 + 106 - len(
        [*records]) - counts["articles without abstract left out (titles yields their titles)"]
