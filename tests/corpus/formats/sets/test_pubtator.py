"""PubTator's lines as records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.mentions import RELATIONS_LOST
from bmtools.corpus.formats.sets.pubtator import pubtator_records
from bmtools.corpus.formats.tally import LOST
from bmtools.errors import RecordError
from bmtools.records import Record, check

# Documents like those in BC5CDR, with a composite mention, and in BioRED, with novelty.
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


def test_bc5cdr_is_read(read) -> None:
    record, = read(BC5CDR)
    assert record["text"] == "Naloxone reverses clonidine. Breast and lung cancer. Naloxone."
    assert [(one["id"], one["text"], one["identifier"]) for one in record["entities"]] == [
        ("T1", "Naloxone", "D009270"), ("T2", "clonidine", "D003000"),
        ("T3", "Breast and lung cancer", "D001943|D008175"), ("T4", "Naloxone", "D009270")]
    assert record["entities"][2]["composite"] == "Breast cancer|lung cancer"
    arcs = [(arc["head"], arc["tail"], arc["type"]) for arc in record["relations"]]
    assert arcs == [("T1", "T3", "CID"), ("T4", "T3", "CID")]
    assert record["meta"]["sections"][0] == {"label": "TITLE", "start": 0, "end": 28}


def test_biored_is_read(read) -> None:
    first, second = read(f"{BIORED}\n{BC5CDR}")
    assert first["text"] == "A in B."
    assert first["relations"] == [{"head": "T1", "tail": "T2", "type": "Association",
                                   "novelty": "Novel", "concepts": ["2", "p|SUB|V|1|M"]}]
    assert second["id"] == "227508"
    assert [record["id"] for record in read(BIORED + BC5CDR.strip())] == ["1", "227508"]


def test_relations_of_missing_concepts_are_lost(read) -> None:
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
