"""Texts and mentions in separate files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.mentions import REPEATED
from bmtools.corpus.formats.sets.standoff import standoff_records
from bmtools.corpus.formats.tally import LOST, MATCHED, MOVED
from bmtools.errors import RecordError
from bmtools.records import Record, check


@pytest.fixture
def read(tmp_path: Path):
    def call(texts: str, mentions: str, **options: object) -> list[Record]:
        (tmp_path / "corpus.txt").write_text(texts, encoding="utf-8")
        (tmp_path / "ann.txt").write_text(mentions, encoding="utf-8")
        records = list(standoff_records([str(tmp_path / "corpus.txt")],
                                        [str(tmp_path / "ann.txt")], **options))
        for record in records:
            check(record)
        return records

    return call


def marks(record: Record) -> list[tuple[int, str, str]]:
    return [(entity["start"], entity["text"], entity["type"]) for entity in record["entities"]]


def test_mentions_are_found_at_or_near_their_offset(read) -> None:
    records = read("1|😀 è febbre.|\r\n\n2|a|b tosse\n3|niente\n",
                   "2\t4\t9\ttosse\tD\r\n1\t4\t10\tfebbre\tD\n1\t4\t10\tfebbre\tS\n")
    assert [record["text"] for record in records] == ["😀 è febbre.", "a|b tosse", "niente"]
    assert [marks(record) for record in records] == [
        [(4, "febbre", "D"), (4, "febbre", "S")], [(4, "tosse", "D")], []]


TWICE = "asma, tosse asma"


@pytest.mark.parametrize(("text", "line", "start", "mention"), [
    (TWICE, "9\t12\tasma", 12, "asma"),  # nearer to 12 than to 0
    (TWICE, "3\t7\tasma", 0, "asma"), (TWICE, "-1\t3\tasma", 0, "asma"),
    (TWICE, "12\t17\tasma", 12, "asma"),  # the end is wrong
    (TWICE, "0\t4\tTosse", 6, "tosse"),  # in another case
    (TWICE, "0\t4\t^^^^^_DISEASE_ >tosse", 6, "tosse"),
    (TWICE, "5\t11\t tosse", 6, "tosse"),  # white space is removed
    ("asma x Asma", "1\t5\tAsma", 7, "Asma"),  # the same case before any case
    # a short mention prefers a separate word
    ("Senza Cd e Se", "4\t6\tSe", 11, "Se"), ("Senza Cd", "4\t6\tSe", 0, "Se"),
    ("APAP e PAP", "4\t6\tPAP", 7, "PAP"),
    ("doxorubicinaindotta, doxorubicina", "4\t6\tdoxorubicina", 0, "doxorubicina")])
def test_a_mention_elsewhere_moves_to_its_nearest_occurrence(read, text: str, line: str, start: int,
                                                             mention: str) -> None:
    record, = read(f"1|{text}\n", f"1\t{line}\tD\n")
    assert marks(record) == [(start, mention, "D")]


def test_moved_mentions_get_different_occurrences(read) -> None:
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    record, = read("1|asma asma\n", "1\t1\t5\tasma\tD\n1\t0\t4\tasma\tD\n1\t2\t6\tasma\tD\n",
                   counts=counts, reject=lost.append)
    assert marks(record) == [(0, "asma", "D"), (5, "asma", "D")]
    assert +counts == {MATCHED: 1, MOVED: 1, LOST: 1}
    assert "already annotated" in lost[0].reason
    assert lost[0].content == "1\t2\t6\tasma\tD"


def test_mentions_with_the_same_offsets_move_together(read) -> None:
    record, = read("1|asma e asma, tosse\n", "1\t1\t5\tasma\tD\n1\t1\t5\tasma\tS\n1\t15\t20\t"
                   "tosse\tD\n1\t15\t20\ttosse\tS\n")
    assert marks(record) == [(0, "asma", "D"), (0, "asma", "S"), (13, "tosse", "D"),
                             (13, "tosse", "S")]


@pytest.mark.parametrize(("encoding", "size", "unit"), [
    ("utf-16-le", 2, "UTF-16 units"), ("utf-8", 1, "bytes")])
def test_offsets_in_another_unit_are_converted(read, encoding: str, size: int, unit: str) -> None:
    text, lines = "😀😀😀 è asma, asma e asma 😀 tosse", []
    for start in (6, 12, 19):
        first = len(text[:start].encode(encoding)) // size
        lines.append(f"1\t{first}\t{first + 4}\tasma\tD\n")
    counts: Counter[str] = Counter()
    record, = read(f"1|{text}\n", "".join(lines), counts=counts)
    assert marks(record) == [(start, "asma", "D") for start in (6, 12, 19)]
    assert +counts == {MATCHED: 3, f"documents whose offsets count {unit}": 1}


def test_lost_mentions_are_counted_and_their_text_is_kept(read) -> None:
    counts: Counter[str] = Counter()
    lost: list[RecordError] = []
    mentions = "1\t0\t4\tgotta\tD\n1\t4\t5\t \tD\n9\t0\t4\tasma\tD\n"
    record, = read("1|asma e\n", mentions, counts=counts, reject=lost.append)
    assert marks(record) == []
    assert counts[LOST] == 3
    assert [error.place.rpartition(":")[2] for error in lost] == ["1", "2", "3"]
    assert marks(read("1|asma e\n", mentions)[0]) == []


def test_repetitions_are_left_out(read) -> None:
    counts: Counter[str] = Counter()
    records = read("1|asma\n2|x\n1|asma|\n1|gotta\n", "1\t0\t4\tasma\tD\n" * 3, counts=counts)
    assert [record["text"] for record in records] == ["asma", "x", "gotta"]
    assert counts[REPEATED] == 2
    assert counts["repeated documents left out"] == 1


BC2GM = ("P1A0|Attivano i fattori di coagulazione II, V e VIII. \nP1A1|La proteina Ogg1. \n",
         'P1A0\t11\t47\t"fattori di coagulazione II\t V e VIII"\tGENE\t\n'
         "P1A1\t3\t16\tproteina Ogg1\tGENE\t\n")


def test_tabs_in_biobit_bc2gm_become_commas(read) -> None:
    counts: Counter[str] = Counter()
    assert [marks(record) for record in read(*BC2GM, counts=counts)] == [
        [(11, "fattori di coagulazione II, V e VIII", "GENE")], [(3, "proteina Ogg1", "GENE")]]
    assert +counts == {MATCHED: 2, "empty columns at the end of lines left out": 2,
                       "mentions with tabs in place of commas corrected": 1}
    record, = read("1|asma\n", "1\tT\t0\t4\tasma\tD\t\t\n")
    assert marks(record) == [(0, "asma", "D")]


def test_offsets_count_from_title_or_abstract(read) -> None:
    record, = read('7|"La ""febbre"" alta."", ""Astratto"": ""La febbre e l\'asma.""}"\n',
                   "7\tT\t5\t11\tfebbre\tX\n7\tA\t3\t9\tfebbre\tX\n7\tA\t14\t18\tasma\tY\n")
    assert record["text"] == 'La ""febbre"" alta. La febbre e l\'asma.'
    assert marks(record) == [(5, "febbre", "X"), (23, "febbre", "X"), (34, "asma", "Y")]


@pytest.mark.parametrize(("texts", "mentions", "message"), [
    ("1|a\nno bar\n", "", r"corpus\.txt:2: found 'no bar', expected id\|text"),
    ("|a\n", "", r"corpus\.txt:1: found '\|a', expected id\|text"),
    ("1|a\n", "1\t0\t1\ta\n", r"ann\.txt:1: found 4 columns in"),
    ("1|a\n", "1\tX\t0\t1\ta\tD\n", r"ann\.txt:1: found 6 columns in"),
    ("1|a\n", "1\tzero\t1\ta\tD\n", r"ann\.txt:1: found the offsets 'zero' and '1'"),
    ("1|a\n", "1\t0\t1\ta\t \n", r"ann\.txt:1: found no type")])
def test_bad_lines_are_reported(read, texts: str, mentions: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read(texts, mentions)
    rejected: list[RecordError] = []
    read(texts, mentions, reject=rejected.append)
    assert len(rejected) == 1


# Documents, and annotations at their offset, moved, lost and repeated.
REAL = {
    "BC5CDR_CDR/train": (499, 8626, 313, 7, 0), "BC5CDR_CDR/dev": (499, 8816, 330, 12, 0),
    "BC5CDR_CDR/test": (500, 9112, 325, 13, 0), "NCBI_DISEASE/train": (592, 4987, 75, 4, 20),
    "NCBI_DISEASE/dev": (100, 759, 13, 0, 0), "NCBI_DISEASE/test": (100, 907, 30, 0, 0),
    "SPECIES_800/train": (375, 2148, 37, 0, 0), "SPECIES_800/dev": (125, 732, 16, 0, 0),
    "SPECIES_800/test": (125, 740, 23, 0, 0), "BC5CDR_DNER/test": (496, 4858, 286, 4, 0)}


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_real_sets_lose_hardly_any_annotations(data: Path, name: str) -> None:
    corpus, mentions = (data / "it/ner" / f"{name}_{what}.txt" for what in ("corpus",
                                                                            "annotations"))
    counts: Counter[str] = Counter()
    records = list(standoff_records([str(corpus)], [str(mentions)], counts=counts))
    for record in records:
        check(record)
        assert not record["text"].endswith(("|", '"'))
    found = (len(records), *(counts[what] for what in (MATCHED, MOVED, LOST, REPEATED)))
    assert found == REAL[name]
    lines = mentions.read_bytes().count(b"\n")
    assert sum(found[1:]) == lines
    assert sum(len(record["entities"]) for record in records) == found[1] + found[2]
