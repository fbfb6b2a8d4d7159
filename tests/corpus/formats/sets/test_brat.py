"""Conversion of BRAT files to records, and of records to BRAT files."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.brat import brat_records, write_brat
from bmtools.corpus.formats.sets.mentions import RELATIONS_LOST
from bmtools.corpus.formats.tally import LOST, MATCHED, MOVED
from bmtools.errors import BmtoolsError, DataError, RecordError
from bmtools.records import Record, check

ANN = ("T1\tDRUG 0 1;8 12\tA drug\nT2\tDRUG 6 7\tB\nR1\tINT Arg1:T1 Arg2:T2\n"
       "R2\tKIND Head:T2 Tail:T1\t\n#1\tAnnotatorNotes T1\tsure?\nA1\tNegated T2\n")
TEXT = "A and B drug\r\nthat."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "set"
    path.mkdir()
    (path / "a.txt").write_bytes(TEXT.encode())
    (path / "a.ann").write_text(ANN.replace("\n", "\r\n"))
    (path / "a.b.txt").write_text("Nothing.")
    return path


def read(*names: object, **options: object) -> list[Record]:
    records = list(brat_records(map(str, names), **options))
    for record in records:
        check(record)
    return records


def test_a_folder_is_read(folder: Path) -> None:
    first, second = read(folder)
    assert first == {
        "id": "a", "text": TEXT,
        "entities": [{"id": "T1", "start": 0, "end": 12, "type": "DRUG", "text": "A drug",
                      "spans": [[0, 1], [8, 12]]},
                     {"id": "T2", "start": 6, "end": 7, "type": "DRUG", "text": "B"}],
        "relations": [{"head": "T1", "tail": "T2", "type": "INT", "id": "R1"},
                      {"head": "T2", "tail": "T1", "type": "KIND", "id": "R2",
                       "roles": ["Head", "Tail"]}],
        "meta": {"brat": ["#1\tAnnotatorNotes T1\tsure?", "A1\tNegated T2"]}}
    assert second == {"id": "a.b", "text": "Nothing.", "entities": [], "relations": []}


def test_archives_equal_folders(folder: Path, tmp_path: Path) -> None:
    first, second = read(folder)
    assert read(folder / "a.ann") == read(folder / "a.txt") == [first]
    assert read(*sorted(folder.iterdir())) == [first, second]
    archive = tmp_path / "set.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for path in folder.iterdir():
            opened.write(path, f"set/{path.name}")
    assert read(archive) == read(f"{archive}/set") == [first, second]
    assert read(f"{archive}/set/a.ann") == [first]


def test_wrong_offsets_and_missing_entities_are_counted(folder: Path) -> None:
    (folder / "a.ann").write_text("T1\tX 1 2\tA\nT2\tX 0 1\tZ\nR1\tY Arg1:T1 Arg2:T2\n")
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    record, = read(folder / "a.txt", counts=counts, reject=lost.append)
    assert [entity["start"] for entity in record["entities"]] == [0]
    assert (counts[MOVED], counts[LOST], counts[RELATIONS_LOST]) == (1, 1, 1)
    assert [error.place.rpartition("/")[2] for error in lost] == ["a.ann:2", "a.ann:3"]


@pytest.mark.parametrize(("line", "message"), [
    ("T1\tDRUG 0\tA", r"a\.ann:1: found 'T1\\tDRUG 0\\tA', expected T1, TYPE START END"),
    ("R1\tINT Arg1:T1", "expected R1, a tab and TYPE Arg1:T1 Arg2:T2")])
def test_bad_lines_are_reported(folder: Path, line: str, message: str) -> None:
    (folder / "a.ann").write_text(line)
    with pytest.raises(RecordError, match=message):
        read(folder)


def test_annotations_without_text_are_an_error(folder: Path) -> None:
    (folder / "a.txt").unlink()
    with pytest.raises(DataError, match=r"a\.ann: found no \.txt with the annotated text"):
        read(folder)
    with pytest.raises(DataError, match="<stdin>: found one stream, expected folders"):
        read("-")


def test_a_round_trip_keeps_every_byte(folder: Path, tmp_path: Path) -> None:
    records = read(folder)
    write_brat(records, tmp_path / "out")
    assert read(tmp_path / "out") == records
    assert (tmp_path / "out/a.txt").read_bytes() == TEXT.encode()
    assert (tmp_path / "out/a.ann").read_text() == ANN.replace("\t\n", "\n")
    with pytest.raises(BmtoolsError, match="is not empty"):
        write_brat(records, tmp_path / "out")


def test_invalid_ids_are_rejected_or_replaced(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    record = Record(id="a/1 %2F", text="A B", entities=[
        {"id": "e0", "start": 0, "end": 1, "type": "a b"}, {"start": 2, "end": 3, "type": "X"}],
        relations=[])
    write_brat([record], tmp_path / "out", counts=counts)
    found, = read(tmp_path / "out")
    assert found["id"] == "a/1 %2F"
    assert [(entity["id"], entity["type"]) for entity in found["entities"]] == [
        ("T1", "a_b"), ("T2", "X")]
    assert counts["entities with new ids"] == 1
    refused: list[RecordError] = []
    write_brat([record, record, Record(id=".x", text="x"), Record(id="x" * 300, text="x")],
               tmp_path / "more", reject=refused.append)
    assert len(refused) == 3


@pytest.mark.data
def test_brat_edition_of_ddi_is_read(data: Path, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    records = read(data / "en/re/DDI-2013/test-medline-brat", counts=counts)
    found = [entity for record in records for entity in record["entities"]]
    assert (len(records), len(found), sum("spans" in entity for entity in found),
            sum(len(record["relations"]) for record in records)) == (91, 910, 8, 95)
    assert +counts == {MATCHED: 910}
    write_brat(records, tmp_path / "out")
    assert read(tmp_path / "out") == records
    for path in (data / "en/re/DDI-2013/test-medline-brat").iterdir():
        written = (tmp_path / "out" / path.name).read_bytes()
        if path.suffix == ".txt":
            assert written == path.read_bytes()
        else:
            assert sorted(written.decode().split("\n")) == sorted(
                line.rstrip() for line in path.read_text("utf-8").split("\n"))


def test_upper_case_endings_are_read(tmp_path: Path) -> None:
    (tmp_path / "C.TXT").write_text("asma")
    (tmp_path / "C.ANN").write_text("T1\tD 0 4\tasma\n")
    record, = brat_records([str(tmp_path)])
    assert [one["text"] for one in record["entities"]] == ["asma"]


def test_lines_that_refer_to_lost_annotations_are_also_lost(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Aspirin treats pain and fever.")
    kept = ["E1\tTreat:T2 Agent:T1 Theme:T3", "R1\tBefore Arg1:E1 Arg2:T3", "A3\tSure R1",
            "N2\tReference T1 MESH:D002\tAspirin", "#2\tAnnotatorNotes E1\tok",
            "*\tEquiv T1 T3"]
    dropped = ["E2\tTreat:T2 Theme:T4", "E3\tTreat:T2 Cause:E2", "R2\tBefore Arg1:E1 Arg2:E2",
               "A1\tNegation E3", "N1\tReference T4 MESH:D001\tchill",
               "#1\tAnnotatorNotes T4\thm", "*\tEquiv T3 T4"]
    mentions = ["T1\tDrug 0 7\tAspirin", "T2\tTreat 8 14\ttreats", "T3\tSign 15 19\tpain"]
    (tmp_path / "a.ann").write_text("\n".join(
        [*mentions, "T4\tSign 24 29\tchill", *kept, *dropped]))
    counts: Counter[str] = Counter()
    rejects: list[RecordError] = []
    record, = read(tmp_path, counts=counts, reject=rejects.append)
    assert record["meta"]["brat"] == kept
    assert [error.content for error in rejects[1:]] == dropped
    assert counts["further annotations lost"] == len(dropped)

    write_brat([record], tmp_path / "out")
    assert (tmp_path / "out/a.ann").read_text().splitlines() == [*mentions, *kept]
    first, *others = record["entities"]
    for entities in (others, [{**first, "id": "x"}, *others]):
        write_brat([record.replace(entities=entities)], tmp_path / "out", True)
        assert len((tmp_path / "out/a.ann").read_text().splitlines()) == len(entities)


def test_relations_of_ambiguous_ids_are_lost(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("asma e tosse")
    (tmp_path / "a.ann").write_text("T1\tD 0 4\tasma\nT1\tD 7 12\ttosse\nT2\tE 5 6\te\n"
                                    "R1\tX Arg1:T1 Arg2:T2\n")
    counts: Counter[str] = Counter()
    record, = read(tmp_path, counts=counts)
    assert (len(record["entities"]), record["relations"], counts[RELATIONS_LOST]) == (3, [], 1)
