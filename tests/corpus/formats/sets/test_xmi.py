"""UIMA's XMI as records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.xmi import xmi_records
from bmtools.errors import RecordError
from bmtools.records import Record, check

HEAD = ('<?xml version="1.0" encoding="UTF-8"?>\n<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" '
        'xmlns:cas="http:///uima/cas.ecore" xmlns:c="http:///webanno/custom.ecore" '
        'xmlns:seg="http:///de/tudarmstadt/ukp/dkpro/core/api/segmentation/type.ecore" '
        'xmlns:ner="http:///de/tudarmstadt/ukp/dkpro/core/api/ner/type.ecore" '
        'xmlns:syn="http:///de/tudarmstadt/ukp/dkpro/core/api/syntax/type/dependency.ecore" '
        'xmlns:meta="http:///de/tudarmstadt/ukp/dkpro/core/api/metadata/type.ecore" '
        'xmlns:r="http:///org/apache/ctakes/typesystem/type/relation.ecore" xmi:version="2.0">\n')
TEXT = "Il 😀 ha asma.\nSta bene."
BODY = """<cas:NULL xmi:id="0"/>
<meta:DocumentMetaData xmi:id="1" sofa="9" begin="0" end="24" language="{lang}"/>
<c:METADATA xmi:id="2" sofa="9" begin="0" end="0" docLicense="CC BY" docSource="AboutOpen"
 docDOI="10.1/x" pubType="journal"/>
<seg:Sentence xmi:id="3" sofa="9" begin="15" end="24"/>
<seg:Sentence xmi:id="4" sofa="9" begin="0" end="14"/>
<seg:Token xmi:id="5" sofa="9" begin="0" end="2"/>
<c:EVENT xmi:id="6" sofa="9" begin="9" end="13" polarity="POS" LINK="11 12"/>
<c:ACTOR xmi:id="7" sofa="9" begin="3" end="5" entityID="C1"/>
<ner:NamedEntity xmi:id="8" sofa="9" begin="15" end="18" value="PER"/>
<syn:Dependency xmi:id="20" sofa="9" begin="0" end="2" Governor="5" Dependent="6"/>
<c:Rel xmi:id="21" sofa="9" begin="16" end="20" Governor="7" Dependent="8" label="is"/>
<r:Argument xmi:id="22" argument="6"/><r:Argument xmi:id="23" argument="7"/>
<r:LocationOfTextRelation xmi:id="24" category="of" arg1="22" arg2="23"/>
<c:EVENTLink xmi:id="11" role="HAS" target="7"/><c:EVENTLink xmi:id="12" target="8"/>
<cas:Sofa xmi:id="9" sofaNum="1" sofaID="_InitialView" mimeType="text" sofaString="{text}"/>
{more}<cas:View sofa="9" members="1 2"/>
</xmi:XMI>
"""


@pytest.fixture
def source(tmp_path: Path):
    def write(more: str = "", lang: str = "it", body: str = BODY) -> str:
        path = tmp_path / "case.xmi"
        text = TEXT.replace("\n", "&#10;")
        path.write_text(HEAD + body.format(text=text, more=more, lang=lang), encoding="utf-8")
        return str(path)

    return write


def one(path: str, *types: str, counts: Counter[str] | None = None) -> Record:
    record, = xmi_records([path], types, counts)
    check(record)
    return record


def test_a_record(source) -> None:
    record = one(source())
    assert record == {
        "id": "case", "text": TEXT, "lang": "it", "source": "AboutOpen", "licence": "CC-BY",
        "entities": [
            {"id": "7", "start": 3, "end": 4, "type": "ACTOR", "text": "😀", "identifier": "C1"},
            {"id": "6", "start": 8, "end": 12, "type": "EVENT", "text": "asma",
             "attributes": {"polarity": "POS"}},
            {"id": "8", "start": 14, "end": 17, "type": "PER", "text": "Sta"}],
        "relations": [
            {"head": "6", "tail": "7", "type": "HAS"}, {"head": "6", "tail": "8", "type": "LINK"},
            {"head": "7", "tail": "8", "type": "is"}, {"head": "6", "tail": "7", "type": "of"}],
        "meta": {"doi": "10.1/x", "types": ["journal"], "sentences": [[0, 13], [14, 23]]}}


def test_types_are_chosen(source) -> None:
    counts = Counter[str]()
    record = one(source(), "EVENT", "Token", counts=counts)
    assert [entity["text"] for entity in record["entities"]] == ["Il", "asma"]
    assert record["relations"] == []
    assert counts["relations of other annotations left out"] == 4


def test_views(source) -> None:
    more = ('<c:ACTOR xmi:id="30" sofa="31" begin="0" end="3"/>\n<cas:Sofa xmi:id="31" '
            'sofaID="en" sofaString="She is well."/>\n<cas:Sofa xmi:id="32" sofaID="audio" '
            'sofaURI="file:a.wav"/>\n')
    counts = Counter[str]()
    first, second = xmi_records([source(more)], counts=counts)
    assert (first["id"], len(first["entities"])) == ("case-_InitialView", 3)
    assert second == {"id": "case-en", "text": "She is well.", "relations": [], "entities": [
        {"id": "30", "start": 0, "end": 3, "type": "ACTOR", "text": "She"}]}
    assert counts["views without text left out"] == 1


def test_a_language_without_a_name_is_none(source) -> None:
    assert "lang" not in one(source(lang="x-unspecified"))


def test_annotations_outside_the_text_are_lost_and_told(source) -> None:
    more = ('<c:ACTOR xmi:id="30" sofa="9" begin="20" end="99"/>'
            '<c:EVENT xmi:id="33" sofa="9" begin="0" end="2" L="34"/>'
            '<c:EVENTLink xmi:id="34" role="HAS" target="30"/>')
    counts, errors = Counter[str](), list[RecordError]()
    record, = xmi_records([source(more)], (), counts, errors.append)
    assert (len(record["entities"]), len(record["relations"])) == (4, 4)
    assert [error.reason.partition(",")[0] for error in errors] == [
        "found the offsets 19 to 98", "found a relation of '30'"]
    assert (counts["annotations lost"], counts["relations lost"]) == (1, 1)


def test_offsets_that_are_no_numbers_are_refused(source) -> None:
    with pytest.raises(RecordError, match=r"case\.xmi:19: found begin 'x' and end '2', expec"):
        one(source('<c:ACTOR xmi:id="30" sofa="9" begin="x" end="2"/>'))


@pytest.mark.data
def test_the_real_document(data: Path) -> None:
    counts = Counter[str]()
    path = data / "it" / "ner" / "E3C" / "raw-sample" / "IT100002.xml"
    record = one(str(path), counts=counts)
    assert (record["id"], record["lang"], record["licence"]) == ("IT100002", "it", "CC-BY-NC")
    assert Counter(entity["type"] for entity in record["entities"]) == {
        "EVENT": 98, "ACTOR": 18, "BODYPART": 8, "CLINENTITY": 4, "TIMEX3": 3, "RML": 2}
    assert len(record["relations"]) == 78
    assert (counts["annotations at their offset"], counts["annotations lost"],
            counts["relations lost"]) == (133, 0, 0)
    # No annotation cuts a word.
    text = record["text"]
    for entity in record["entities"]:
        start, end = entity["start"], entity["end"]
        assert not (text[start - 1:start + 1].isalnum() and start), entity
        assert not text[end - 1:end + 1].isalnum(), entity
    sentences = record["meta"]["sentences"]
    assert len(sentences) == 19
    assert "".join("".join(text[start:end].split()) for start, end in sentences) == "".join(
        text.split())
    # The entities are those of the corpus's own table.
    tagged = "".join((data / "it" / "ner" / "E3C" / f"{part}.txt").read_text("utf-8")
                     for part in ("train", "test"))
    for entity in record["entities"]:
        if entity["type"] == "CLINENTITY":
            assert "\n".join(f"{word} {'I' if number else 'B'}-ety" for number, word in enumerate(
                entity["text"].split())) in tagged, entity
