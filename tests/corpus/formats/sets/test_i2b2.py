"""The sets of i2b2, tested with handmade files in the published form."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.i2b2 import i2b2_2010_records, i2b2_xml_records
from bmtools.corpus.formats.sets.mentions import RELATIONS_LOST
from bmtools.corpus.formats.tally import LOST, MATCHED, MOVED
from bmtools.errors import DataError, RecordError
from bmtools.records import Record, check

FILES = {
    "txt/1.txt": 'Admission Date :\nHis Fever of "38 C"  was  treated with Aspirin .\nNo fever .\n',
    "concept/1.con": 'c="his fever of "38 c"" 2:0 2:4||t="problem"\n'
                     'c="aspirin" 2:8 2:8||t="treatment"\nc="fever" 3:1 3:1||t="problem"\n',
    "ast/1.ast": 'c="fever" 3:1 3:1||t="problem"||a="absent"\n'
                 'c="his fever of "38 c"" 2:0 2:4||t="problem"||a="present"\n',
    "rel/1.rel": 'c="aspirin" 2:8 2:8||r="TrAP"||c="his fever of "38 c"" 2:0 2:4\n',
    "txt/2.txt": "Nothing .\n"}
TEMPORAL = """<?xml version="1.0" encoding="UTF-8" ?>
<ClinicalNarrativeTemporalAnnotation><TEXT><![CDATA[
Admission Date :
09/29/1993 <b>
]]></TEXT><TAGS>
<EVENT id="E0" start="1" end="10" text="Admission" modality="FACTUAL" polarity="POS"
 type="OCCURRENCE" />
<TIMEX3 id="T0" start="18" end="28" text="09/29/1993" type="DATE" val="1993-09-29" mod="NA" />
<TLINK id="TL0" fromID="E0" fromText="Admission" toID="T0" toText="09/29/1993"
 type="SIMULTANEOUS" />
<TLINK id="TL1" fromID="E0" fromText="Admission" toID="S0" toText="x" type="" />
</TAGS></ClinicalNarrativeTemporalAnnotation>
"""
IDENTIFIERS = """<?xml version="1.0" encoding="UTF-8" ?>
<deIdi2b2><TEXT><![CDATA[

Record date: 2067-05-03, Dr. Lee]]></TEXT><TAGS>
<DATE id="P0" start="15" end="25" text="2067-05-03" TYPE="DATE" comment="" />
<NAME id="P1" start="32" end="35" text="Lee" TYPE="DOCTOR" comment="" />
<SMOKER id="DOC0" status="never" />
</TAGS></deIdi2b2>
"""


def checked(records) -> list[Record]:
    found = list(records)
    for record in found:
        check(record)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def test_concepts_assertions_and_relations_are_read(folder: Path) -> None:
    counts: Counter[str] = Counter()
    second, first = checked(sorted(i2b2_2010_records([str(folder)], counts=counts),
                                   key=lambda record: record["id"], reverse=True))
    assert [(one["id"], one["text"], one["type"], one.get("assertion"))
            for one in first["entities"]] == [
        ("T1", 'His Fever of "38 C"', "problem", "present"),
        ("T2", "Aspirin", "treatment", None), ("T3", "fever", "problem", "absent")]
    assert first["relations"] == [{"head": "T2", "tail": "T1", "type": "TrAP"}]
    assert first["entities"][2]["start"] == first["text"].rindex("fever")
    assert (second["id"], second["entities"]) == ("2", [])
    assert +counts == {MATCHED: 3}


def test_concepts_at_the_same_position_have_different_ids(tmp_path: Path) -> None:
    for ending, lines in (("txt", "fever"), ("con", 'c="fever" 1:0 1:0||t="test"\n'
                          'c="fever" 1:0 1:0||t="problem"\nc="fever" 1:0 1:0||t="test"\n'),
                          ("rel", 'c="fever" 1:0 1:0||r="TeRP"||c="fever" 1:0 1:0\n')):
        (tmp_path / f"1.{ending}").write_text(lines)
    record, = checked(i2b2_2010_records([str(tmp_path)]))
    assert [(one["id"], one["type"]) for one in record["entities"]] == [
        ("T1", "test"), ("T2", "problem")]
    assert record["relations"] == [{"head": "T1", "tail": "T2", "type": "TeRP"}]


def test_wrong_positions_and_missing_concepts_are_counted(folder: Path) -> None:
    (folder / "concept/1.con").write_text('c="aspirin" 9:8 9:8||t="treatment"\n'
                                          'c="zinc" 2:1 2:1||t="treatment"\n')
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    first = checked(i2b2_2010_records([str(folder)], counts=counts, reject=lost.append))[-2:]
    assert [one["text"] for record in first for one in record["entities"]] == ["Aspirin"]
    assert (counts[MOVED], counts[LOST], counts[RELATIONS_LOST]) == (1, 1, 1)
    assert any("1.con:2: found the mention 'zinc'" in str(error) for error in lost)


def test_errors_in_2010_files_are_named(folder: Path) -> None:
    for line in ("aspirin", 'c="aspirin" 1:0 1:0||r="PIP"||' * 1_000):  # must be fast
        (folder / "rel/1.rel").write_text(f"{line}\n")
        with pytest.raises(RecordError, match=r"1\.rel:1: found .*aspirin.*, expected c="):
            list(i2b2_2010_records([str(folder)]))
    (folder / "rel/2.txt").write_text("x")
    with pytest.raises(DataError, match=r"2\.txt: found a second 2\.txt, after "):
        list(i2b2_2010_records([str(folder)]))
    with pytest.raises(DataError, match=r"1\.con: found no 1\.txt, expected the annotated text"):
        list(i2b2_2010_records([str(folder / "concept")]))


def test_events_times_and_links_are_read(tmp_path: Path) -> None:
    (tmp_path / "1.xml").write_text(TEMPORAL)
    counts: Counter[str] = Counter()
    record, = checked(i2b2_xml_records([str(tmp_path)], counts=counts))
    assert record["entities"] == [
        {"id": "E0", "start": 1, "end": 10, "type": "OCCURRENCE", "text": "Admission",
         "tag": "EVENT", "attributes": {"modality": "FACTUAL", "polarity": "POS"}},
        {"id": "T0", "start": 18, "end": 28, "type": "DATE", "text": "09/29/1993",
         "tag": "TIMEX3", "attributes": {"val": "1993-09-29", "mod": "NA"}}]
    assert record["relations"] == [{"head": "E0", "tail": "T0", "type": "SIMULTANEOUS"}]
    assert +counts == {MATCHED: 2, RELATIONS_LOST: 1}
    (tmp_path / "1.xml").write_text(TEMPORAL.replace('EVENT id="E0"', 'EVENT id=""'))
    record, = checked(i2b2_xml_records([str(tmp_path)], counts=counts))
    assert [entity.get("id") for entity in record["entities"]] == [None, "T0"]
    assert (record["relations"], counts[RELATIONS_LOST]) == ([], 3)


def test_identifiers_are_read(tmp_path: Path) -> None:
    (tmp_path / "220-01.xml").write_text(IDENTIFIERS)
    counts: Counter[str] = Counter()
    record, = checked(i2b2_xml_records([str(tmp_path / "220-01.xml")], counts=counts))
    assert record["id"] == "220-01"
    assert [(one["text"], one["type"], one.get("tag")) for one in record["entities"]] == [
        ("2067-05-03", "DATE", None), ("Lee", "DOCTOR", "NAME")]
    assert counts["tags without offsets left out"] == 1


@pytest.mark.parametrize(("content", "message"), [
    ("<deIdi2b2>\n<TAGS/></deIdi2b2>", r"1\.xml:1: found no <TEXT>"),
    (IDENTIFIERS.replace('"15"', '"x"'), r"1\.xml:5: found the offsets 'x' and '25'"),
    ("<html/>", "found the root element <html>")])
def test_errors_in_xml_files_are_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "1.xml").write_text(content)
    with pytest.raises(DataError, match=message):
        list(i2b2_xml_records([str(tmp_path)]))
