"""Tables with named columns, and sets published as tables."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

from bmtools.corpus.formats.settings import BIOASQ_YESNO, BIOSSES, GAD, TableConfig
from bmtools.corpus.tables import table_records
from bmtools.errors import DataError, RecordError
from bmtools.records import Record, check

NAME = "set.tsv"


def rows(name: str, config: TableConfig | None = None, headless: tuple[str, ...] = (),
         ) -> list[Record]:
    found = list(table_records([name], config, headless=headless))
    for record in found:
        check(record)
    return found


@pytest.mark.parametrize(("delimiter", "given", "end"), [
    ("\t", "", "\n"), (",", "", "\r\n"), (";", "", "\r"), ("|", "", "\n"), (":", ":", "\n")])
def test_every_key_is_filled(write, delimiter: str, given: str, end: str) -> None:
    table = [["n", "a", "b", "why", "kind", "all", "grade", "doc", "year", "none"],
             ["7", " x y ", "z", "Q?", "1", "p/ q/p", "-1.5", "d", "1998", ""],
             ["8", "w", "", "", "0", "", "2e1", "", "", ""]]
    config = TableConfig("text=a,text_pair=b,question=why,label=kind,labels=all,score=grade,id=n,"
                         "document=doc", "/", "1=yes,0=no",
                         delimiter=given)
    found = rows(write("".join(delimiter.join(row) + end for row in table)), config)
    assert found == [
        {"id": "7", "text": "x y", "text_pair": "z", "question": "Q?", "label": "yes",
         "labels": ["p", "q"], "score": -1.5, "meta": {"year": "1998", "document": "d"}},
        {"id": "8", "text": "w", "label": "no", "labels": [], "score": 20.0}]
    assert found[1].place.endswith("set.tsv:3")


def test_columns_are_found_by_number_with_and_without_header(write) -> None:
    name = write("a\t1\nb\t2\n")
    assert rows(name, TableConfig("text=1,label=2", header=False)) == [
        {"id": "set:1", "text": "a", "label": "1"}, {"id": "set:2", "text": "b", "label": "2"}]
    assert rows(write("a\tx\nb\t2\n"), TableConfig("text=1,label=2")) == [
        {"id": "set:2", "text": "b", "label": "2"}]
    assert rows(write("2\t1\nb\tc\n"), TableConfig("text=2"))[0]["text"] == "b"  # by name


def test_quotes_are_characters_only_between_tabs(write) -> None:
    assert [record["text"] for record in rows(write('text\n"a\n"b" c\n'), TableConfig(
        delimiter="tab"))] == ['"a', '"b" c']
    assert rows(write('text\tn\n"a\tb\n\nc"\t1\n'), TableConfig(quoting="on"))[0]["text"] == \
        "a\tb\n\nc"
    assert rows(write('text,n\n"a,1\n'), TableConfig(quoting="off"))[0]["text"] == '"a'


@pytest.mark.parametrize("order", [("id", "text"), ("text", "id"), ("a", "text", "id")])
def test_tab_separated_tables_of_pandas_are_read(write, order: tuple[str, ...]) -> None:
    texts = ["a\nb", 'c "d" e', "f\tg\n\n h", '"i" j', "k", 'l\n"m"', '"n', 'o"']
    table = [order, *([{"id": str(number), "text": text, "a": "x\ny"}[name] for name in order]
                      for number, text in enumerate(texts))]
    stream = io.StringIO()
    csv.writer(stream, delimiter="\t", lineterminator="\n").writerows(table)
    found = rows(write(stream.getvalue()), TableConfig("id=id"))
    assert [record["text"] for record in found] == texts
    assert found[1].place.endswith(f":{4 + (len(order) == 3)}")


def test_stray_quotes_between_tabs_do_not_join_rows(write) -> None:
    found = rows(write('text\tid\n"a\t1\nb\t2\nc"\t3\nd ""e""\t4\n"f"\t5\n"g\t6\n'))
    assert [record["text"] for record in found] == ['"a', "b", 'c"', 'd ""e""', '"f"', '"g']


def test_random_csv_tables_equal_python_csv(write) -> None:
    draw = random.Random(4)
    for _ in range(50):
        table = [["text", "id"], *(["x" + "".join(draw.choices('ab,;"\n \t', k=6)) + "x", str(n)]
                                   for n in range(5))]
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(table)
        found = rows(write(stream.getvalue()), TableConfig(delimiter=",", columns="id=id"))
        assert [[record["text"], record["id"]] for record in found] == table[1:]


@pytest.mark.parametrize(("content", "config", "fault"), [
    ("text,label\na,\n", TableConfig("label=label"),
     "set.tsv:2: found the label '', expected the name of a class"),
    ("text,label\na,b,c\n", TableConfig(), "set.tsv:2: found 3 columns, expected 2"),
    ("n,text\na\n", TableConfig(), "set.tsv:2: found 1 columns, expected 2"),
    ('text,n\n"a\nb",1\n ,2\n', TableConfig(), "set.tsv:4: found no text in the text column"),
    ("text,label\na,b\n", TableConfig("label=label", label_names="1=x,0=y"),
     "found the label 'b', expected 1 or 0"),
    ("text,s\na,1.2.3\n", TableConfig("score=s"), "found the score '1.2.3', expected a num"),
    ("text,s\na,inf\n", TableConfig("score=s"), "found the score 'inf'")])
def test_bad_rows_are_rejected(write, content: str, config: TableConfig, fault: str) -> None:
    faults: list[RecordError] = []
    found = list(table_records([write(content)], config, reject=faults.append))
    assert found == [] or '"a\n' in content
    assert [fault in str(one) for one in faults] == [True]


@pytest.mark.parametrize(("content", "config", "fault"), [
    ("abstract,n\na,b\n", TableConfig("text=abstrct"),
     "no column 'abstrct', did you mean 'abstract'?"),
    ("a,b\n", TableConfig("text=3"), "no column '3', expected one of a, b; name it with columns"),
    ("a,b\n1,2\n", TableConfig("text=a,label=c"), "name it with columns"),
    ('text,n\na,1\n"b,2\nc,3\n', TableConfig(), "set.tsv:3: found a damaged quoted field"),
    ('text,n\n"a" b,1\n', TableConfig(), "set quoting off to read quotes as characters")])
def test_damaged_tables_are_errors(write, content: str, config: TableConfig, fault: str) -> None:
    with pytest.raises(DataError) as refused:
        list(table_records([write(content)], config, reject=lambda error: None))
    assert fault in str(refused.value)


@pytest.mark.parametrize(("settings", "fault"), [
    ({"columns": "text"}, "columns: found 'text', expected KEY=NAME"),
    ({"columns": "txt=a"}, "columns: found 'txt', expected names from text, text_pair"),
    ({"delimiter": ",;"}, "delimiter: found ',;', expected one character, or tab"),
    ({"label_names": "1,0"}, "label_names: found '1,0', expected VALUE=LABEL"),
    ({"quoting": "yes"}, "quoting"), ({"labels_separator": ""}, "labels_separator")])
def test_wrong_settings_are_errors(settings: dict[str, str], fault: str) -> None:
    with pytest.raises(ValueError, match=r"expected") as refused:
        TableConfig(**settings)  # type: ignore[arg-type]
    assert fault in str(refused.value)


@pytest.mark.data
def test_gad_is_read(data: Path) -> None:
    headless = ("sentence", "label")
    train, test = (rows(str(data / f"en/re/GAD/{part}.tsv"), GAD, headless)
                   for part in ("train", "test"))
    assert (len(train), len(test)) == (4796, 534)
    assert Counter(record["label"] for record in train) == {"1": 2520, "0": 2276}
    assert all("@GENE$" in one["text"] and "@DISEASE$" in one["text"] for one in train + test)
    assert test[0]["text"].startswith("These results suggest that the C1772T polymorphism")


@pytest.mark.data
def test_biosses_scores_are_means_of_five(data: Path) -> None:
    found = rows(str(data / "en/sts/BIOSSES/biosses.tsv"), BIOSSES)
    assert len(found) == 100
    assert all(record["text_pair"] and record["score"] == pytest.approx(
        fmean(float(record["meta"][one]) for one in "ABCDE")) for record in found)


@pytest.mark.data
@pytest.mark.parametrize(("part", "count", "yes"), [("train", 728, 579), ("test", 128, 102)])
def test_yes_no_questions_are_read(data: Path, part: str, count: int, yes: int) -> None:
    found = rows(str(data / f"en/qa/bioasq/yesno/{part}.tsv"), BIOASQ_YESNO)
    labels = Counter(record["label"] for record in found)
    assert labels == {"yes": yes, "no": count - yes}
    assert all(record["question"] for record in found)
