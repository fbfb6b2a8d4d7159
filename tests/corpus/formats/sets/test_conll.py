"""Columns of tokens and tags."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from seqeval.metrics.sequence_labeling import get_entities

from bmtools.corpus.formats.sets.conll import conll_lines, conll_records
from bmtools.corpus.formats.settings import ConllConfig
from bmtools.errors import RecordError
from bmtools.records import Record, check

NAME = "set.tsv"


def found(record: Record) -> list[tuple[str, str]]:
    check(record)
    assert all(record["text"][e["start"]:e["end"]] == e["text"] for e in record["entities"])
    return [(entity["text"], entity["type"]) for entity in record["entities"]]


# Tags of the tokens a, b, c and so on, and the entities that conlleval finds.
@pytest.mark.parametrize(("tags", "expected"), [
    ("O B I O B", ["b c", "e"]),
    ("B B I", ["a", "b c"]),
    ("I I O I", ["a b", "d"]),
    ("I-X B-X I-X", ["a", "b c"]),
    ("I-X I-Y O I-Y", ["a", "b", "d"]),
    ("B-X I-Y I-Y", ["a", "b c"]),
    ("S-X B-X I-X E-X S-X", ["a", "b c d", "e"]),
    ("S E E B", ["a", "b", "c", "d"]),
    ("U-X B-X L-X I-X", ["a", "b c", "d"]),
    ("B-X E-X I-X O", ["a b", "c"]),
    ("O O", []),
    ("B-A-b I-A-b", ["a b"])])
def test_tagging_schemes_agree_with_conlleval(write, tags: str, expected: list[str]) -> None:
    lines = "".join(map("{}\t{}\n".format, "abcdefg", tags.split()))
    record, = conll_records([write(lines)])
    assert [text for text, _ in found(record)] == expected


def test_sentences_have_ids_with_any_separator(write) -> None:
    text = "\r\nThe\tO\r\nBRCA1  gene\tB\r\n\r\n \t\n\nè O\n😀  B-X \nx\tNN\tI-X"
    first, second = conll_records([write(text)])
    assert (first["id"], first["text"]) == ("set:2", "The BRCA1  gene")
    assert (second["id"], second["text"], second.place[-1]) == ("set:7", "è 😀 x", "7")
    assert found(first) == [("BRCA1  gene", "ENTITY")]
    assert found(second) == [("😀 x", "X")]


@pytest.mark.parametrize(("bad", "message"), [
    ("word", "found 1 column in 'word', expected 2 or more"),
    ("\tO", "found no token in column 1; set its column with token_column"),
    ("word\tX-Y", "found the tag 'X-Y' in column 2, expected O or one of B, I"),
    ("word\tB-", "found the tag 'B-' in column 2"),
    ("word\tO\tHigh", "found the tag 'High' in column 3, .*; set its column with tag_col")])
def test_a_bad_line_is_reported(write, bad: str, message: str) -> None:
    path = write(f"a\tO\n\nb\tO\n{bad}\nc\tO\n\nd\tB\n")
    with pytest.raises(RecordError, match=rf"set\.tsv:4: {message}"):
        list(conll_records([path]))
    rejected: list[RecordError] = []
    records = list(conll_records([path], reject=rejected.append))
    assert [record["text"] for record in records] == ["a", "d"]
    assert [error.content for error in rejected] == [f"b\tO\n{bad}\nc\tO"]


def test_columns_and_default_type_are_settings(write) -> None:
    record, = conll_records([write("B-X\tnote\tword\tlow\nB\tnote\tmore\t")], ConllConfig(
        token_column=3, tag_column=1, default_type="gene"))
    assert found(record) == [("word", "X"), ("more", "gene")]


def test_sentences_are_joined_to_documents(write) -> None:
    path = write("-DOCSTART- (12)\n\na O\n\nb B\nc I\n\n-DOCSTART- -X- -X- O\nd B\n"
                 "-DOCSTART-\n\n-DOCSTART- 15\ne O\n")
    records = list(conll_records([path]))
    assert [record["id"] for record in records] == ["12-s1", "12-s2", "set-d2-s1", "15-s1"]
    assert records[1]["meta"] == {"document": "12"}
    records = list(conll_records([path], ConllConfig(documents=True)))
    assert [(record["id"], record["text"], found(record)) for record in records] == [
        ("12", "a\nb c", [("b c", "ENTITY")]), ("set-d2", "d", [("d", "ENTITY")]), ("15", "e", [])]
    with pytest.raises(RecordError, match=r"set\.tsv:1: found a sentence before any -DOCSTART-"):
        list(conll_records([write("a O\n")], ConllConfig(documents=True)))


def test_exported_records_are_read_as_separate_documents(write) -> None:
    given = [Record(id=name, text=text, entities=[], place="", **more) for name, text, more in (
        ("a", "Uno.", {}), ("b (1) c", "Due.\nTre.", {}), ("c", "Quattro.", {}),
        ("d", "Cinque.", {"meta": {"document": "e f"}}), ("g", "Sei.", {}))]
    lines = list(conll_lines(given))
    back = list(conll_records([write("".join(lines))]))
    assert [(one.get("meta", {}).get("document"), one["text"]) for one in back] == [
        (None, "Uno."), ("b (1) c", "Due."), ("b (1) c", "Tre."), ("c", "Quattro."),
        ("e f", "Cinque."), ("g", "Sei.")]
    documents = conll_records([write("".join(lines[1:]))], ConllConfig(documents=True))
    assert [one["text"] for one in documents] == ["Due.\nTre.", "Quattro.", "Cinque.", "Sei."]


def assert_as_seqeval(record: Record, tags: list[str], tokens: list[str]) -> None:
    ends, position = [], 0
    for token in tokens:
        ends.append((position, position + len(token)))
        position += len(token) + 1
    expected = [(kind if kind != "_" else "ENTITY", ends[first][0], ends[last][1])
                for kind, first, last in get_entities(tags)]
    assert [(e["type"], e["start"], e["end"]) for e in record["entities"]] == expected


def test_random_typed_tags_agree_with_seqeval(write) -> None:
    rng = random.Random(3)
    rows = [[rng.choice(["O", *(f"{p}-{t}" for p in "BIES" for t in "XY")]) for _ in range(9)]
            for _ in range(2000)]
    path = write("\n".join("".join(f"t {tag}\n" for tag in row) for row in rows))
    for record, row in zip(conll_records([path]), rows, strict=True):
        assert_as_seqeval(record, row, ["t"] * 9)


# Sentences and entities as stated in the sources; seqeval counted the entities of EBM-NLP.
REAL = {
    "en/ner/BC2GM/train.tsv": (12574, 15197), "en/ner/BC2GM/devel.tsv": (2519, 3061),
    "en/ner/BC2GM/test.tsv": (5038, 6325), "en/ner/NCBI-disease/train.tsv": (5424, 5134),
    "en/ner/NCBI-disease/devel.tsv": (923, 787), "en/ner/NCBI-disease/test.tsv": (940, 960),
    "en/ner/NCBI-disease/conll4-test.txt": (940, 960),
    "en/ner/NCBI-disease/iobes-test.tsv": (940, 960), "en/ner/BC5CDR/train.tsv": (4560, 9385),
    "en/ner/BC5CDR/devel.tsv": (4581, 9593), "en/ner/BC5CDR/test.tsv": (4797, 9809),
    "en/ner/linnaeus/devel.tsv": (4078, 711), "en/ner/linnaeus/test.tsv": (7142, 1433),
    "en/ner/s800/train.tsv": (5733, 2557), "en/ner/s800/devel.tsv": (830, 384),
    "en/ner/s800/test.tsv": (1630, 767), "en/ner/E3C/train.txt": (669, 437),
    "en/ner/E3C/test.txt": (851, 516), "es/ner/E3C/train.txt": (455, 509),
    "es/ner/E3C/test.txt": (679, 800), "it/ner/E3C/train.txt": (451, 345),
    "it/ner/E3C/test.txt": (673, 460), "en/pico/EBM-NLP/dev.txt": (7049, 16561),
    "en/pico/EBM-NLP/test.txt": (2064, 3545)}
SECOND = {f"parallel/abstrct-en-it/{name}.{kind}.tsv": count  # the tag is second
          for name, count in (("glaucoma-test", 1247), ("neoplasm-dev", 679),
                              ("neoplasm-test", 1251))
          for kind in ("en", "it-auto", "it-manual")} | {
    f"parallel/casimedicos-arg/{lang}/{name}.tsv": count
    for lang in ("EN", "IT") for name, count in (("dev", 927), ("test", 1899))}


@pytest.mark.data
@pytest.mark.parametrize("name", [*REAL, *SECOND])
def test_numbers_of_real_sets(data: Path, name: str) -> None:
    counts: Counter[str] = Counter()
    is_pico = "EBM" in name
    config = ConllConfig(documents=is_pico, tag_column=2 * (name in SECOND))
    records = list(conll_records([str(data / name)], config, counts=counts))
    for record in records:
        check(record)
    sentences = sum(record["text"].count("\n") + 1 for record in records)
    if name in SECOND:
        assert sentences == SECOND[name]
    else:
        assert (sentences, sum(len(record["entities"]) for record in records)) == REAL[name]
        assert (counts.total() > 0) == is_pico
    assert "EBM-NLP/dev" not in name or len(records) == 960

@pytest.mark.data
@pytest.mark.parametrize("name", ["en/ner/BC5CDR/test.tsv", "en/ner/NCBI-disease/iobes-test.tsv",
                                  "en/ner/s800/test.tsv", "en/pico/EBM-NLP/test.txt"])
def test_real_entities_agree_with_seqeval(data: Path, name: str) -> None:
    sentences: list[list[list[str]]] = [[]]
    for line in (data / name).read_text().split("\n"):
        if not line.strip() or line.startswith("-DOCSTART-"):
            sentences.append([])
        else:
            sentences[-1].append(line.split())
    kept = [sentence for sentence in sentences if sentence]
    for record, rows in zip(conll_records([str(data / name)]), kept, strict=True):
        assert_as_seqeval(record, [row[-1] for row in rows], [row[0] for row in rows])


def test_entities_joined_by_io_are_counted(write) -> None:
    path = write("a B-X\nb B-X\nc I-X\nd B-Y\ne O\nf B-Y\n\ng B-Y\n")
    counts: Counter[str] = Counter()
    lines = "".join(conll_lines(conll_records([path]), "io", counts=counts))
    back = [one for record in conll_records([write(lines)]) for one in record["entities"]]
    assert (len(back), +counts) == (4, {"entities joined to the previous one, which io cannot "
                                        "separate": 1})
