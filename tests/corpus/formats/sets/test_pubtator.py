"""PubTator's lines as records, and records as PubTator's lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.biored import biored_records
from bmtools.corpus.formats.sets.chemprot import chemprot_records
from bmtools.corpus.formats.sets.mentions import LOST, MATCHED, RELATIONS_LOST
from bmtools.corpus.formats.sets.pubtator import pubtator_lines, pubtator_records
from bmtools.errors import RecordError
from bmtools.records import Record, check

# The form of BC5CDR, with a composite mention, and of BioRED, with novelty.
BC5CDR = """227508|t|Naloxone reverses clonidine.
227508|a|Breast and lung cancer. Naloxone.
227508\t0\t8\tNaloxone\tChemical\tD009270
227508\t18\t27\tclonidine\tChemical\tD003000
227508\t29\t51\tBreast and lung cancer\tDisease\tD001943|D008175\tBreast cancer|lung cancer
227508\t53\t61\tNaloxone\tChemical\tD009270
227508\tCID\tD009270\tD008175

"""
BIORED = """1|t|A in B.
1|a|
1\t0\t1\tA\tGeneOrGeneProduct\t1,2
1\t5\t6\tB\tSequenceVariant\tp|SUB|V|1|M
1\tAssociation\t2\tp|SUB|V|1|M\tNovel
"""


@pytest.fixture
def read(tmp_path: Path):
    def call(content: str, *more: object, **options: object) -> list[Record]:
        (tmp_path / "in.txt").write_text(content, encoding="utf-8")
        records = list(pubtator_records([str(tmp_path / "in.txt")], *more, **options))
        for record in records:
            check(record)
        return records

    return call


def test_the_form_of_bc5cdr(read) -> None:
    record, = read(BC5CDR)
    assert record["text"] == "Naloxone reverses clonidine. Breast and lung cancer. Naloxone."
    assert [(one["id"], one["text"], one["identifier"]) for one in record["entities"]] == [
        ("T1", "Naloxone", "D009270"), ("T2", "clonidine", "D003000"),
        ("T3", "Breast and lung cancer", "D001943|D008175"), ("T4", "Naloxone", "D009270")]
    assert record["entities"][2]["composite"] == "Breast cancer|lung cancer"
    arcs = [(arc["head"], arc["tail"], arc["type"]) for arc in record["relations"]]
    assert arcs == [("T1", "T3", "CID"), ("T4", "T3", "CID")]
    assert record["meta"]["sections"][0] == {"label": "TITLE", "start": 0, "end": 28}


def test_the_form_of_biored(read) -> None:
    first, second = read(f"{BIORED}\n{BC5CDR}")
    assert first["text"] == "A in B."
    assert first["relations"] == [{"head": "T1", "tail": "T2", "type": "Association",
                                   "novelty": "Novel", "concepts": ["2", "p|SUB|V|1|M"]}]
    assert second["id"] == "227508"


def test_documents_need_no_blank_line_between_them(read) -> None:
    assert [record["id"] for record in read(BIORED + BC5CDR.strip())] == ["1", "227508"]


def test_absent_concepts_are_lost(read) -> None:
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    more = "227508\t0\t4\tnowhere\tDisease\tD1\n227508\tCID\tD009270\tD1\n"
    record, = read(f"{BC5CDR.rstrip()}\n{more}", counts=counts, reject=lost.append)
    assert len(record["entities"]) == 4
    assert (counts[LOST], counts[RELATIONS_LOST]) == (1, 1)
    assert [error.place.rpartition(":")[2] for error in lost] == ["8", "9"]


@pytest.mark.parametrize(("content", "message"), [
    ("1\t0\t1\tA\tX\n", r"in\.txt:1: found '1\\t0\\t1\\tA\\tX', expected ID\|t\|title before"),
    ("1|t|A\n2\t0\t1\tA\tX\n", r"in\.txt:2: .*expected ID\|t\|title before annotations"),
    ("1|t|A\n1\t0\n", "in.txt:2: found 2 columns"),
    ("1|t|A\n1\t0\tx\tA\tX\n", "in.txt:2: found the offsets '0' and 'x'"),
    ("1|t|A\n1\t0\t1\tA\t \tD1\n", "in.txt:2: found no type")])
def test_bad_lines_are_reported(read, content: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read(content)


@pytest.mark.parametrize("content", [BC5CDR, BIORED])
def test_lines_come_back_to_the_byte(read, content: str) -> None:
    record, = read(content)
    assert pubtator_lines(record, Counter()) == content.rstrip("\n") + "\n\n"


def test_what_the_format_cannot_hold(read) -> None:
    counts: Counter[str] = Counter()
    record = Record(id="1", title="On A.", text="A\tand\nB C", entities=[
        {"id": "x", "start": 0, "end": 1, "type": "X"},
        {"id": "y", "start": 6, "end": 9, "type": "X", "spans": [[6, 7], [8, 9]]}],
        relations=[{"head": "x", "tail": "y", "type": "R"}])
    lines = pubtator_lines(record, counts)
    assert lines == ("1|t|On A.\n1|a|A and B C\n1\t6\t7\tA\tX\tx\n1\t12\t15\tB C\tX\ty\n"
                     "1\tR\tx\ty\n\n")
    assert sorted(counts.values()) == [1, 1]
    found, = read(lines)
    assert [(arc["head"], arc["tail"]) for arc in found["relations"]] == [("T1", "T2")]
    with pytest.raises(RecordError, match=r"found the id 'a\|b', expected one without"):
        pubtator_lines(Record(id="a|b", text="x"), counts)


@pytest.mark.data
def test_real_sets_come_back(read, data: Path) -> None:
    def lines(records: list[Record]) -> str:
        return "".join(pubtator_lines(record, Counter()) for record in records)

    names = [[str(data / f"it/re/BIORED/test_{what}")] for what in ("CORPUS.json", "ANN.txt",
                                                                    "REL.txt")]
    biored = list(biored_records(*names))
    counts: Counter[str] = Counter()
    assert read(lines(biored), counts=counts) == biored
    assert +counts == {MATCHED: 3087}
    where = data / "en/re/chemprot-official"
    names = [[str(where / f"chemprot_development_{what}.tsv")]
             for what in ("abstracts", "entities", "relations")]
    chemprot = list(chemprot_records(*names))
    found = read(lines(chemprot))
    assert [(one["id"], one["text"], one.get("meta")) for one in found] == [
        (one["id"], one["text"], one.get("meta")) for one in chemprot]
    for one, other in zip(found, chemprot, strict=True):
        keys = ("start", "end", "type", "text")
        assert [[entity[key] for key in keys] for entity in one["entities"]] == [
            [entity[key] for key in keys] for entity in other["entities"]]
        assert len(one["relations"]) == len({(arc["head"], arc["tail"], arc["type"])
                                             for arc in other["relations"]})
