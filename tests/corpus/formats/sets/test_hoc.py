"""Hallmarks of Cancer from the authors' archive and from BLUE's table."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.hoc import hoc_records
from bmtools.errors import DataError, RecordError
from bmtools.records import check

GENOMIC = "Genomic instability and mutation"


def archive(path: Path, **files: str) -> str:
    with tarfile.open(path, "w:gz") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(f"hoc/{name.replace('_', '/')}.txt")
            member.size = len(content.encode())
            packed.addfile(member, io.BytesIO(content.encode()))
    return str(path)


def test_sentences_have_labels_of_all_levels(tmp_path: Path) -> None:
    name = archive(tmp_path / "hoc.tgz", labels_1=f"<{GENOMIC}--DNA repair AND{GENOMIC} AND "
                   "Cellular energetics< <NULL", text_1="One .\nTwo .\n\nThree .\n")
    counts: Counter[str] = Counter()
    first, second, third = hoc_records([name], counts=counts)
    assert first == {"id": "1_s0", "text": "One .",
                     "labels": [GENOMIC.lower(), "cellular energetics"], "meta": {
                         "document": "1", "label_paths": [
                             f"{GENOMIC}--DNA repair", GENOMIC, "Cellular energetics"]}}
    assert second == {"id": "1_s1", "text": "Two .", "labels": [], "meta": {"document": "1"}}
    assert third["labels"] == []
    assert counts == {"documents": 1, "sentences without a hallmark": 2}


def test_documents_have_the_labels_of_their_sentences(tmp_path: Path) -> None:
    name = archive(
        tmp_path / "hoc.tgz", text_1="One .\nTwo .\nThree .\n", text_2="Four .", labels_2="< ",
        labels_1=f"<{GENOMIC}--DNA repair< <Cellular energetics AND{GENOMIC}")
    counts: Counter[str] = Counter()
    first, second = hoc_records([name], documents=True, counts=counts)
    assert first == {"id": "1", "text": "One .\nTwo .\nThree .",
                     "labels": [GENOMIC.lower(), "cellular energetics"], "meta": {
                         "document": "1", "label_paths": [
                             f"{GENOMIC}--DNA repair", "Cellular energetics", GENOMIC]}}
    assert second == {"id": "2", "text": "Four .", "labels": [], "meta": {"document": "2"}}
    assert counts == {"documents": 2, "documents without a hallmark": 1}


def test_sentences_without_a_document_are_not_joined(tmp_path: Path) -> None:
    (table := tmp_path / "hoc.tsv").write_text("index\ttext\tlabels\n1_s0\tA.\tx\n1_s1\tB.\ty,x\n"
                                               "second\tC.\t\n")
    found = [(one["id"], one["text"], one["labels"])
             for one in hoc_records([str(table)], documents=True)]
    assert found == [("1", "A.\nB.", ["x", "y"]), ("second", "C.", [])]


def test_the_folder_equals_the_archive(tmp_path: Path) -> None:
    files = {"text_1": "One .\nTwo .\n", "labels_1": f"<{GENOMIC}< ", "text_2": "Three .\n",
             "labels_2": "<Cellular energetics--x"}
    name = archive(tmp_path / "hoc.tgz", **files)
    with tarfile.open(name) as packed:
        packed.extractall(tmp_path / "unpacked")
    assert list(hoc_records([str(tmp_path / "unpacked")])) == list(hoc_records([name]))
    with pytest.raises(DataError, match=r"found no .txt files in a folder text"):
        list(hoc_records([str(tmp_path / "unpacked/hoc/text")]))


def test_labels_without_their_sentence_are_rejected(tmp_path: Path) -> None:
    name = archive(tmp_path / "hoc.tgz", labels_1="<a<b", text_1="One .\n", text_2="Two .\n",
                   labels_2="<c")
    faults: list[RecordError] = []
    assert [record["id"] for record in hoc_records([name], reject=faults.append)] == ["2_s0"]
    assert str(faults[0]) == (f"{name} (1): found 1 sentences in text and 2 in labels, "
                              "expected the same number")


def test_other_archives_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found no .txt files in a folder text"):
        list(hoc_records([archive(tmp_path / "other.tgz", text_1="One .")]))
    cut = tmp_path / "cut.tar"
    whole = archive(tmp_path / "hoc.tgz", text_1="One .\n" * 500, labels_1="<" * 500)
    cut.write_bytes(gzip.decompress(Path(whole).read_bytes())[:1500])
    with pytest.raises(DataError, match=r"this archive cannot be read"):
        list(hoc_records([str(cut)]))
    content = bytearray(Path(whole).read_bytes())
    content[-8] ^= 1  # of the checksum, after the last file
    Path(whole).write_bytes(content)
    with pytest.raises(DataError, match=r"hoc\.tgz"):
        list(hoc_records([whole]))


@pytest.mark.data
def test_the_archive_equals_blues_table(data: Path) -> None:
    counts: Counter[str] = Counter()
    original = {record["id"]: record for record in hoc_records(
        [str(data / "en/cls/HoC/hoc-original.tar.gz")], counts=counts)}
    for record in original.values():
        check(record)
    assert len(original) == 17464
    assert counts["documents"] == 1852
    assert len({label for record in original.values() for label in record["labels"]}) == 10
    blue = list(hoc_records([str(data / "en/cls/HoC/hoc.tsv")], counts=(counts := Counter())))
    assert (len(blue), counts["documents"]) == (10527, 1108)
    assert sum(bool(record["labels"]) for record in blue) == 3138
    # The two editions differ in three abstracts.
    other = [record["id"] for record in blue
             if set(record["labels"]) != set(original[record["id"]]["labels"])]
    assert Counter(one.partition("_")[0] for one in other) == {
        "20720310": 3, "21190990": 3, "20525204": 2}
    assert all(one["meta"]["document"] == original[one["id"]]["meta"]["document"] for one in blue)


@pytest.mark.data
def test_number_of_documents_equals_the_paper(data: Path) -> None:
    # Gu et al. 2021, section 4.5: 1,852 abstracts; 272 of them do not discuss a hallmark.
    archive = str(data / "en/cls/HoC/hoc-original.tar.gz")
    documents = list(hoc_records([archive], documents=True, counts=(counts := Counter())))
    assert counts == {"documents": 1852, "documents without a hallmark": 272}
    assert sum(one["text"].count("\n") + 1 for one in documents) == 17464


@pytest.mark.data
def test_every_sentence_and_label_of_the_archive_is_read(data: Path) -> None:
    """Compare with counts that do not use the reader's code."""
    name = data / "en/cls/HoC/hoc-original.tar.gz"
    files: dict[tuple[str, str], str] = {}
    with tarfile.open(name) as packed:
        for member in packed:
            if member.name.endswith(".txt") and (stream := packed.extractfile(member)):
                files[member.name.split("/")[-2], Path(member.name).stem] = stream.read().decode()
    expected: dict[str, tuple[str, set[str]]] = {}
    for folder, document in files:
        if folder == "text":
            lines = [line for line in files["text", document].splitlines() if line.strip()]
            marked = files["labels", document].split("<")[1:]
            for number in range(max(len(lines), len(marked))):
                found = {one.split("--")[0].strip().lower() for one in marked[number].split(" AND")}
                expected[f"{document}_s{number}"] = lines[number], found - {"null", ""}
    assert sum(len(labels) for _, labels in expected.values()) == 5236
    assert {one["id"]: (one["text"], {*one["labels"]}) for one in hoc_records([str(name)])} \
        == expected
