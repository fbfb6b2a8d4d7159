"""Notes of MIMIC with the columns that PhysioNet publishes and invented texts."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from bmtools.corpus.formats.texts.mimic import mimic_records, replace_marks
from bmtools.errors import DataError

NAME = "notes.csv"
III = '''"ROW_ID","SUBJECT_ID","HADM_ID","CHARTDATE","CHARTTIME","STORETIME","CATEGORY",\
"DESCRIPTION","CGID","ISERROR","TEXT"
174,22532,167853,"2151-08-04",,,"Discharge summary","Report",,,"Seen:  [**2151-7-16**]
By: [**Name
2**]

He said ""fine""."
175,22532,,"2151-08-05",2151-08-05 10:00:00,,"Physician ","Note",,1,"wrong"
176,22532,,"2151-08-05",2151-08-05 10:00:00,,"Physician ","Note",,,"Well."
177,22532,,"2151-08-05",,,"Nursing","Note",,,"Slept."
'''
# Notes of MIMIC-IV begin with a space, which counts in offsets of annotations.
IV = '''note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,text
10-DS-21,10,22,DS,21,2180-05-07 00:00:00,2180-05-09 15:26:00," \r
Name:  ___   Unit No:   ___\r
Well."
10-AD-1,10,22,AD,1,2180-05-07 00:00:00,,"Addendum."
'''


def test_mimic_iii_is_read(write) -> None:
    counts: Counter[str] = Counter()
    first, second, _ = mimic_records([write(III)], counts=counts)
    assert first == {
        "id": "174", "text": 'Seen:  [**2151-7-16**]\nBy: [**Name\n2**]\n\nHe said "fine".',
        "lang": "en", "source": "MIMIC-III",
        "meta": {"kind": "Discharge summary", "date": "2151-08-04", "description": "Report",
                 "patient": "22532", "admission": "167853"}}
    assert first.place.endswith("notes.csv:2")
    assert second["meta"]["kind"] == "Physician"
    assert second["meta"]["date"] == "2151-08-05 10:00:00"
    assert counts == {"notes marked as errors left out": 1}
    first, *_ = mimic_records([write(III)], marks=r"\1")
    assert first["text"] == 'Seen:  \\1\nBy: \\1\n\nHe said "fine".'
    note, = mimic_records([write("text,Category,Row_ID\nWell.,ECG,1\n")])  # any order and case
    assert note == {"id": "1", "text": "Well.", "lang": "en", "source": "MIMIC-III",
                    "meta": {"kind": "ECG"}}


def test_mimic_iv_is_read(write) -> None:
    first, second = mimic_records([write(IV)], marks="[MARK]")
    assert first["text"] == " \nName:  [MARK]   Unit No:   [MARK]\nWell."
    assert first["meta"] == {"kind": "Discharge summary", "date": "2180-05-07 00:00:00",
                             "sequence": "21", "patient": "10", "admission": "22"}
    assert (first["source"], second["meta"]["kind"]) == ("MIMIC-IV-Note",
                                                         "Discharge summary addendum")


def test_kinds_are_selected_in_any_case_and_others_counted(write) -> None:
    counts: Counter[str] = Counter()
    kinds = " physician,DISCHARGE SUMMARY,Nurse"
    assert [note["id"] for note in mimic_records([write(III)], kinds, counts=counts)] == [
        "174", "176"]
    assert counts == {"notes marked as errors left out": 1,
                      "files without notes of the kind 'nurse'": 1,
                      "notes of the kind 'Nursing' left out": 1}
    assert [note["id"] for note in mimic_records([write(IV)], "ad")] == ["10-AD-1"]


@pytest.mark.parametrize(("content", "message"), [
    ("a,b\n1,2\n", "notes.csv:1: found the columns a, b, expected ROW_ID"),
    (III.replace('"Slept."', '"Slept. "Well.'), "notes.csv:9: found a damaged quoted field"),
    (III.replace('"Slept."', '"Slept.'), "notes.csv:9: found a damaged quoted field"),
    (III.replace("177,", "177,1,"), "notes.csv:9: found 12 columns, expected 11"),
    (III.replace("177,", ","), "notes.csv:9: found no row_id or no text"),
    (III.replace("Slept", "Sl\0pt"), "NUL byte")])
def test_errors_name_their_line(write, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(mimic_records([write(content)]))


def test_an_unclosed_quote_is_an_error_before_memory_is_full(write) -> None:
    from bmtools.io.record_size import limiting_records

    path = write(III + '178,1,,,,,ECG,x,,,"' + "word " * 400_000)
    with limiting_records(1), pytest.raises(DataError, match=r"notes\.csv:10: found a"):
        list(mimic_records([path]))


@pytest.mark.parametrize("text", ["[**" * 100_000, "[**" * 100_000 + "**]" * 100_000,
                                  "[**a**]___" * 50_000, "_" * 500_000])
def test_marks_are_replaced_in_linear_time(text: str) -> None:
    started = time.process_time()
    assert replace_marks(text, "") in ("[**" * 100_000, "**]" * 99_999, "")
    assert time.process_time() - started < 1  # before: 10 s for a fifth of the first text


def test_marks_without_an_end_are_kept() -> None:
    assert replace_marks("A [**Name**] ___ [**b ____", "X") == "A X X [**b X"
