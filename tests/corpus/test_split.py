"""Splits by document: sizes, strata, folds, existing splits, and overlap."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from bmtools.corpus.overlap import PARTS, overlaps
from bmtools.corpus.split import SplitConfig, read_split, write_split
from bmtools.errors import DataError, RecordError
from bmtools.io.jsonl import RecordReader
from bmtools.records import Record

Line = dict[str, Any]


@pytest.fixture
def divide(tmp_path: Path) -> Callable[..., Line]:
    def call(records: Iterable[Line], by: str | None = None, out: str = "out", reject: Any = None,
             **settings: Any) -> Line:
        source = tmp_path / "set.jsonl"
        source.write_text("".join(json.dumps(record) + "\n" for record in records))
        more = {"reject": reject} if reject else {}
        return write_split(RecordReader([str(source)]), tmp_path / out, SplitConfig(**settings),
                           by, **more)

    return call


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def sentences(documents: int, labels: str = "") -> list[Line]:
    return [{"id": f"{document}-{number}", "text": f"Text {document} {number}.",
             "meta": {"document": str(document)},
             **({"label": labels[document % len(labels)]} if labels else {})}
            for document in range(documents) for number in range(1 + document % 3)]


def test_documents_are_not_divided_and_no_record_is_lost(divide, tmp_path: Path) -> None:
    records = sentences(40)
    report = divide(records)
    parts = {part: read(tmp_path / f"out/{part}.jsonl") for part in PARTS}
    assert report["documents"] == {"train": 32, "dev": 4, "test": 4}
    assert report["records"] == {part: len(own) for part, own in parts.items()}
    assert sorted(record["id"] for own in parts.values() for record in own) == sorted(
        record["id"] for record in records)
    owners = [{record["meta"]["document"] for record in own} for own in parts.values()]
    assert sum(map(len, owners)) == len(set.union(*owners)) == 40
    order = [record["id"] for record in records]
    assert all([*map(order.index, (one["id"] for one in own))] == sorted(
        order.index(one["id"]) for one in own) for own in parts.values())
    assert all(not line["documents"] + line["texts"] for line in report["overlap"])
    assert read_split(str(tmp_path / "out/split.tsv")) == {
        record["meta"]["document"]: part for part, own in parts.items() for record in own}


def test_only_the_seed_changes_a_split(divide, tmp_path: Path) -> None:
    records = sentences(60)
    divide(records, out="a")
    divide(random.Random(1).sample(records, len(records)), out="b")
    divide(records, out="c", seed=1)
    first, again, other = (read_split(str(tmp_path / f"{name}/split.tsv")) for name in "abc")
    assert first == again
    assert first != other
    assert (tmp_path / "a/test.jsonl").read_bytes() != (tmp_path / "c/test.jsonl").read_bytes()


def test_sentences_with_document_ids_stay_together(divide, tmp_path: Path) -> None:
    records = [{"id": f"D{one}-s{number}", "text": f"t{one} {number}"}
               for one in range(10) for number in range(5)]
    report = divide(records)
    assert (report["documents"], report["records"]) == (
        {"train": 8, "dev": 1, "test": 1}, {"train": 40, "dev": 5, "test": 5})
    assert [line for line in report["overlap"] if line.get("documents")] == []
    # A split that lists record ids is applied to these records.
    (tmp_path / "old.tsv").write_text("".join(
        f"{one['id']}\t{('train', 'test')[number % 2]}\n" for number, one in enumerate(records)))
    assert divide(records, str(tmp_path / "old.tsv"), "old")["records"] == {"train": 25, "test": 25}


@pytest.mark.parametrize(("settings", "sizes"), [
    ({"ratios": "0.5,0,0.5"}, {"train": 5, "test": 5}), ({"counts": "7,1,2"}, (7, 1, 2)),
    ({"counts": "-1,2,3"}, (5, 2, 3)), ({"ratios": "1,0,0"}, {"train": 10}),
    ({"ratios": "0.34,0.33,0.33"}, (3, 4, 3)),
    ({"folds": 4}, {"0": 2, "1": 3, "2": 3, "3": 2})])
def test_parts_have_the_requested_sizes(settings: Line, sizes: Any) -> None:
    expected = dict(zip(PARTS, sizes, strict=True)) if isinstance(sizes, tuple) else sizes
    found = SplitConfig(**settings).sizes(10)
    assert sum(found.values()) == 10
    assert found == expected


@pytest.mark.parametrize(("settings", "fault"), [
    ({"counts": "7,1,1"}, "found 10 documents, but the counts 7,1,1 add up to another number"),
    ({"counts": "9,-1,2"}, "add up to another"), ({"ratios": "0.99,0.005,0.005"}, "too few for"),
    ({"folds": 11}, "found 10 documents, too few for 0, 1, 2")])
def test_impossible_sizes_are_errors(settings: Line, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        SplitConfig(**settings).sizes(10)


def test_strata_of_several_labels_are_better_than_chance(divide, tmp_path: Path) -> None:
    draw = random.Random(2)
    records = [{"id": str(number), "text": f"t{number}", "labels": sorted(
        label for label in "abcdef" if draw.random() < (ord(label) - 96) / 20)}
        for number in range(400)]
    totals = Counter(label for record in records for label in record["labels"])

    report = divide(records, stratify="labels")
    parts = {"train": 0.8, "dev": 0.1, "test": 0.1}
    assert all(abs(report["labels"][part].get(label, 0) - share * total) <= 2
               for label, total in totals.items() for part, share in parts.items())
    divide(records, out="chance")
    chance = {part: Counter(label for record in read(tmp_path / f"chance/{part}.jsonl")
                            for label in record["labels"]) for part in parts}
    assert max(abs(chance[part][label] - share * total)
               for label, total in totals.items() for part, share in parts.items()) > 2


def test_entity_types_can_be_strata(divide) -> None:
    records = [{"id": str(number), "text": f"ab {number}", "entities": [
        {"start": 0, "end": 1, "type": "XY"[number % 2]}]} for number in range(20)]
    report = divide(records, stratify="entities", ratios="0.8,0.1,0.1")
    assert report["entities"] == {
        "train": {"X": 8, "Y": 8}, "dev": {"X": 1, "Y": 1}, "test": {"X": 1, "Y": 1}}


def test_each_fold_is_test_and_dev_once(divide, tmp_path: Path) -> None:
    report = divide(sentences(30, "ab"), folds=5, stratify="label")
    assert list(report["documents"].values()) == [6] * 5
    tested, developed = [], []
    for fold in range(5):
        train, dev, test = ({one["meta"]["document"] for one in read(
            tmp_path / f"out/fold-{fold}/{part}.jsonl")} for part in PARTS)
        assert not train & dev | train & test | dev & test
        assert len(train | dev | test) == 30
        tested += test
        developed += dev
    assert sorted(tested) == sorted(developed) == sorted(map(str, range(30)))
    assert [line["in"] for line in report["overlap"]] == ["the other folds"] * 5
    again = divide(sentences(30, "ab"), str(tmp_path / "out/split.tsv"), "again", folds=5)
    assert again["overlap"] == report["overlap"]
    assert (tmp_path / "again/fold-3/dev.jsonl").read_bytes() == (
        tmp_path / "out/fold-3/dev.jsonl").read_bytes()
    with pytest.raises(DataError, match=r"found the parts 0, 1, 2, 3, 4, expected folds 0 to 3"):
        divide(sentences(30, "ab"), str(tmp_path / "out/split.tsv"), "other", folds=4)


def test_an_existing_split_is_applied(divide, tmp_path: Path) -> None:
    by = tmp_path / "published.txt"
    by.write_text("0\ttrain\n1\tblind\r\n\n2-2\ttest\n2\ttrain\n")
    report = divide(sentences(3), str(by))
    assert report["records"] == {"train": 3, "test": 1, "blind": 2}
    assert [one["id"] for one in read(tmp_path / "out/test.jsonl")] == ["2-2"]
    assert report["overlap"][0] == {"of": "test", "in": "train", "compared": 1, "documents": 1,
                                    "texts": 0, "questions": 0}
    with pytest.raises(RecordError, match=r"found the document '3', which .* does not list"):
        divide(sentences(4), str(by), "more")
    lost: list[RecordError] = []
    divide(sentences(4), str(by), "most", lost.append)
    assert [one.content["id"] for one in lost] == ["3-0"]


@pytest.mark.parametrize(("line", "fault"), [
    ("0 train", "found '0 train', expected an id, a tab and the name of its part"),
    ("0\t../x", "expected an id, a tab and"), ("0\t..", "expected an id, a tab and"),
    ("1\ttest", "found '1' in test, but it is already in train")])
def test_damaged_split_files_are_errors(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "by.tsv"
    path.write_text(f"1\ttrain\n{line}\n")
    with pytest.raises(DataError, match=rf"by\.tsv:2: .*{re.escape(fault)}"):
        read_split(str(path))


@pytest.mark.parametrize("together", ["texts", "questions"])
def test_documents_with_shared_texts_stay_together(divide, tmp_path: Path, together: str) -> None:
    draw = random.Random(3)
    key = together[:-1]
    records = [{"id": str(number), "text": f"t{number}", key: f"x{draw.randrange(250)}",
                "meta": {"document": f"d{number // 2}"}} for number in range(100)]
    report = divide(records, together=together)
    assert all(not line[together] + line["documents"] for line in report["overlap"])
    assert sum(report["records"].values()) == 100
    assert any(line[together] for line in divide(
        records, out="apart", together="documents")["overlap"])
    # The number of groups equals the number of connected components, found by flooding.
    reached: dict[int, int] = {}
    for start in range(100):
        waiting = [start] if start not in reached else []
        while waiting:
            one = waiting.pop()
            reached.setdefault(one, start)
            waiting += [other for other in range(100) if other not in reached and (
                records[other][key] == records[one][key]
                or records[other]["meta"] == records[one]["meta"])]
    parts = {record["id"]: part for part in PARTS
             for record in read(tmp_path / f"out/{part}.jsonl")}
    for number, start in reached.items():
        assert parts[str(number)] == parts[str(start)]
    assert report["documents"] == SplitConfig().sizes(50)
    groups = Counter(start for number, start in reached.items() if number % 2)
    assert report["together"] == sum(size for size in groups.values() if size > 1)
    assert divide(records, out="counted", together=together, counts="-1,7,6")["documents"] == {
        "train": 37, "dev": 7, "test": 6}


def test_equal_texts_are_in_one_part_by_default(divide) -> None:
    records = [{"id": str(number), "text": f"T{number // 2}", "label": "ab"[number % 3 == 0]}
               for number in range(60)]
    for settings in ({"folds": 5}, {"folds": 5, "stratify": "label"}, {"counts": "40,10,10"}):
        report = divide(records, out=f"{len(settings)}{'folds' in settings}", **settings)
        assert report["together"] == 60
        assert not any(line["texts"] for line in report["overlap"])
    same = [{**record, "text": "one"} for record in records]
    with pytest.raises(DataError, match="found documents that share texts and only fit into the "
                                        "parts train 60, dev 0, test 0, expected train 48, dev 6, "
                                        "test 6; set together documents to separate them"):
        divide(same, out="same")
    report = divide(same, out="apart", together="documents")
    assert report["overlap"][0]["texts"] == 6
    assert "together" not in report


def test_overlap_of_parts_is_reported() -> None:
    first = [Record(id="1", text="Il  Cuore\nbatte.", question="Che?"),
             Record(id="2", text="a", text_pair="b", meta={"document": "d"})]
    second = [Record(id="3", text="il cuore batte.", question="CHE?"), Record(id="4", text="a"),
              Record(id="5", text="A", text_pair="B"), Record(id="6", text="c", question=""),
              Record(id="7", text="e", meta={"document": "d"})]
    assert list(overlaps({"train": first, "test": second})) == [
        {"of": "test", "in": "train", "compared": 5, "documents": 1, "texts": 2, "questions": 1}]


@pytest.mark.data
def test_sizes_of_hoc_equal_blurb(divide, data: Path, tmp_path: Path) -> None:
    from bmtools.corpus.formats.sets.hoc import hoc_records

    records = list(hoc_records([str(data / "en/cls/HoC/hoc-original.tar.gz")]))
    report = divide(records, counts="1295,186,371", stratify="labels")
    assert report["documents"] == {"train": 1295, "dev": 186, "test": 371}
    totals = Counter(label for record in records for label in record["labels"])
    for part, size in report["documents"].items():
        for label, total in totals.items():
            share = total * size / 1852
            assert abs(report["labels"][part][label] - share) <= max(4, 0.05 * share)
