"""UIMA's XMI, the format of E3C."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.xmi import xmi_records
from bmtools.errors import RecordError
from bmtools.records import Record, check

HEAD = ('<?xml version="1.0" encoding="UTF-8"?>\n<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" '
        'xmlns:cas="http:///uima/cas.ecore" xmlns:custom="http:///webanno/custom.ecore" '
        'xmlns:type4="http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore" '
        'xmi:version="2.0">\n')
TEXT = "Il 😀 ha asma.\nSta bene."
BODY = """<cas:NULL xmi:id="0"/>
<custom:METADATA xmi:id="2" sofa="9" begin="0" end="0" docLicense="CC BY" docSource="AboutOpen"
 docLanguage="it"/>
<type4:Sentence xmi:id="3" sofa="9" begin="15" end="24"/>
<type4:Token xmi:id="5" sofa="9" begin="0" end="2"/>
<custom:EVENT xmi:id="6" sofa="9" begin="9" end="13" polarity="POS" TLINK="11 12"/>
<custom:CLINENTITY xmi:id="8" sofa="9" begin="9" end="13" entityID="C0004096"/>
<custom:ACTOR xmi:id="7" sofa="9" begin="3" end="5" role="PATIENT"/>
<custom:EVENTTLINKLink xmi:id="11" role="OVERLAP" target="7"/>
<custom:EVENTTLINKLink xmi:id="12" target="8"/>
<cas:Sofa xmi:id="9" sofaNum="1" sofaID="_InitialView" mimeType="text" sofaString="{text}"/>
{more}<cas:View sofa="9" members="1 2"/>
</xmi:XMI>
"""


@pytest.fixture
def source(tmp_path: Path):
    def write(more: str = "", text: str = TEXT) -> str:
        path = tmp_path / "case.xml"
        path.write_text(HEAD + BODY.format(text=text.replace("\n", "&#10;"), more=more), "utf-8")
        return str(path)

    return write


def one(path: str, counts: Counter[str] | None = None, **options: object) -> Record:
    record, = xmi_records([path], counts=counts, **options)
    check(record)
    return record


def test_a_record_is_read(source) -> None:
    """Offsets count UTF-16 units; the face has two units."""
    assert one(source()) == {
        "id": "case", "text": TEXT, "lang": "it", "source": "AboutOpen", "licence": "CC-BY",
        "entities": [
            {"id": "7", "start": 3, "end": 4, "type": "ACTOR", "text": "😀",
             "attributes": {"role": "PATIENT"}},
            {"id": "6", "start": 8, "end": 12, "type": "EVENT", "text": "asma",
             "attributes": {"polarity": "POS"}},
            {"id": "8", "start": 8, "end": 12, "type": "CLINENTITY", "text": "asma",
             "identifier": "C0004096"}],
        "relations": [{"head": "6", "tail": "7", "type": "OVERLAP"},
                      {"head": "6", "tail": "8", "type": "TLINK"}]}


def test_annotations_outside_the_text_are_lost(source) -> None:
    more = ('<custom:ACTOR xmi:id="30" sofa="9" begin="20" end="99"/>'
            '<custom:EVENT xmi:id="33" sofa="9" begin="0" end="2" L="34"/>'
            '<custom:EVENTLink xmi:id="34" role="HAS" target="30"/>')
    counts, errors = Counter[str](), list[RecordError]()
    record = one(source(more), counts, reject=errors.append)
    assert (len(record["entities"]), len(record["relations"])) == (4, 2)
    assert [error.reason.partition(",")[0] for error in errors] == [
        "found the offsets 19 to 98", "found a relation of '30'"]
    assert (counts["annotations lost"], counts["relations lost"]) == (1, 1)


@pytest.mark.parametrize(("more", "message"), [
    ('<custom:ACTOR xmi:id="30" sofa="9" begin="x" end="2"/>',
     r"case\.xml:14: found the offsets 'x' and '2', expected whole numbers"),
    ('<cas:Sofa xmi:id="31" sofaString="Other."/>', r"case\.xml:2: found 2 views")])
def test_errors_are_named(source, more: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        one(source(more))


@pytest.mark.data
def test_the_real_document_is_read(data: Path) -> None:
    """The entities equal the corpus's own table, and annotations do not end inside a word."""
    counts = Counter[str]()
    record = one(str(data / "it" / "ner" / "E3C" / "raw-sample" / "IT100002.xml"), counts)
    assert (record["id"], record["lang"], record["licence"]) == ("IT100002", "it", "CC-BY-NC")
    assert Counter(entity["type"] for entity in record["entities"]) == {
        "EVENT": 98, "ACTOR": 18, "BODYPART": 8, "CLINENTITY": 4, "TIMEX3": 3, "RML": 2}
    assert len(record["relations"]) == 78
    assert (counts["annotations at their offset"], counts["annotations lost"],
            counts["relations lost"]) == (133, 0, 0)
    text = record["text"]
    for entity in record["entities"]:
        start, end = entity["start"], entity["end"]
        assert not (text[start - 1:start + 1].isalnum() and start), entity
        assert not text[end - 1:end + 1].isalnum(), entity
    tagged = "".join((data / "it" / "ner" / "E3C" / f"{part}.txt").read_text("utf-8")
                     for part in ("train", "test"))
    for entity in record["entities"]:
        if entity["type"] == "CLINENTITY":
            assert "\n".join(f"{word} {'I' if number else 'B'}-ety" for number, word in enumerate(
                entity["text"].split())) in tagged, entity
