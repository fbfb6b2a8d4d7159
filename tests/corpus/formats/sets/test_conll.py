"""Columns of tokens and tags."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from seqeval.metrics.sequence_labeling import get_entities

from bmtools.corpus.formats.sets.conll import conll_records
from bmtools.corpus.formats.settings import ConllConfig
from bmtools.errors import RecordError
from bmtools.records import Record, check

Write = Callable[[str], str]


@pytest.fixture
def source(tmp_path: Path) -> Write:
    def write(content: str) -> str:
        path = tmp_path / "set.tsv"
        path.write_bytes(content.encode())
        return str(path)

    return write


def found(record: Record) -> list[tuple[str, str]]:
    check(record)
    assert all(record["text"][e["start"]:e["end"]] == e["text"] for e in record["entities"])
    return [(entity["text"], entity["type"]) for entity in record["entities"]]


# Tokens are a, b, c and so on; what conlleval would find in them.
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
def test_schemes(source: Write, tags: str, expected: list[str]) -> None:
    lines = "".join(f"{token}\t{tag}\n" for token, tag in zip("abcdefg", tags.split(),
                                                              strict=False))
    record, = conll_records([source(lines)])
    assert [text for text, _ in found(record)] == expected


def test_sentences_ids_and_separators(source: Write) -> None:
    text = "\r\nThe\tO\r\nBRCA1  gene\tB\r\n\r\n \t\n\nè O\n😀  B-X \nx\tNN\tI-X"
    first, second = conll_records([source(text)])
    assert (first["id"], first["text"]) == ("set-s1", "The BRCA1  gene")
    assert (second["id"], second["text"], second.place[-1]) == ("set-s2", "è 😀 x", "7")
    assert found(first) == [("BRCA1  gene", "ENTITY")]
    assert found(second) == [("😀 x", "X")]


def test_columns_are_chosen(source: Write) -> None:
    record, = conll_records([source("B-X\tnote\tword\tlow\nI-X\tnote\tmore\t")],
                            ConllConfig(token_column=3, tag_column=1))
    assert found(record) == [("word more", "X")]


def test_untyped_entities_get_a_type(source: Write) -> None:
    record, = conll_records([source("a\tB\nb\tB-Y\n")], ConllConfig(default_type="gene"))
    assert found(record) == [("a", "gene"), ("b", "Y")]


DOCUMENTS = ("-DOCSTART- (12)\n\na O\n\nb B\nc I\n\n-DOCSTART- -X- -X- O\nd B\n"
             "-DOCSTART-\n\n-DOCSTART- 15\ne O\n")


def test_documents_name_their_sentences(source: Write) -> None:
    records = list(conll_records([source(DOCUMENTS)]))
    assert [record["id"] for record in records] == ["12-s1", "12-s2", "set-d2-s1", "15-s1"]
    assert records[1]["meta"] == {"document": "12"}


def test_documents_are_joined(source: Write) -> None:
    records = list(conll_records([source(DOCUMENTS)], ConllConfig(documents=True)))
    assert [(record["id"], record["text"]) for record in records] == [
        ("12", "a\nb c"), ("set-d2", "d"), ("15", "e")]
    assert [found(record) for record in records] == [[("b c", "ENTITY")], [("d", "ENTITY")], []]


def test_documents_need_a_line_that_begins_them(source: Write) -> None:
    with pytest.raises(RecordError, match=r"set\.tsv:1: found a sentence before any -DOCSTART-"):
        list(conll_records([source("a O\n")], ConllConfig(documents=True)))


@pytest.mark.parametrize(("bad", "message"), [
    ("word", "found 1 column in 'word', expected 2 or more"),
    ("\tO", "found nothing in column 1, expected a token"),
    ("word\tX-Y", "found the tag 'X-Y' in column 2, expected O or one of B, I"),
    ("word\tB-", "found the tag 'B-' in column 2"),
    ("word\tO\tHigh", "found the tag 'High' in column 3, .*; tag_column 2 would take 'O'")])
def test_a_bad_line_is_reported(source: Write, bad: str, message: str) -> None:
    path = source(f"a\tO\n\nb\tO\n{bad}\nc\tO\n\nd\tB\n")
    with pytest.raises(RecordError, match=rf"set\.tsv:4: {message}"):
        list(conll_records([path]))
    rejected: list[RecordError] = []
    records = list(conll_records([path], reject=rejected.append))
    assert [record["text"] for record in records] == ["a", "d"]
    assert [error.content for error in rejected] == [f"b\tO\n{bad}\nc\tO"]


@pytest.mark.parametrize("settings", [{"token_column": 0}, {"tag_column": -1},
                                      {"token_column": 2, "tag_column": 2}, {"default_type": ""}])
def test_bad_settings(settings: dict) -> None:
    with pytest.raises(ValueError, match=r"column|type"):
        ConllConfig(**settings)


def assert_as_seqeval(record: Record, tags: list[str], tokens: list[str]) -> None:
    ends, position = [], 0
    for token in tokens:
        ends.append((position, position + len(token)))
        position += len(token) + 1
    expected = [(kind if kind != "_" else "ENTITY", ends[first][0], ends[last][1])
                for kind, first, last in get_entities(tags)]
    assert [(e["type"], e["start"], e["end"]) for e in record["entities"]] == expected


def test_random_typed_tags_agree_with_seqeval(source: Write) -> None:
    rng = random.Random(3)
    rows = [[rng.choice(["O", *(f"{p}-{t}" for p in "BIES" for t in "XY")]) for _ in range(9)]
            for _ in range(2000)]
    path = source("\n".join("".join(f"t {tag}\n" for tag in row) for row in rows))
    for record, row in zip(conll_records([path]), rows, strict=True):
        assert_as_seqeval(record, row, ["t"] * 9)


# Sentences and entities as the sources state them; EBM-NLP's entities are seqeval's.
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
SECOND = {f"parallel/abstrct-en-it/{name}.{kind}.tsv": count
          for name, count in (("glaucoma-test", 1247), ("neoplasm-dev", 679),
                              ("neoplasm-test", 1251))
          for kind in ("en", "it-auto", "it-manual")} | {
    f"parallel/casimedicos-arg/{lang}/{name}.tsv": count
    for lang in ("EN", "IT") for name, count in (("dev", 927), ("test", 1899))}


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_real_counts(data: Path, name: str) -> None:
    counts: Counter[str] = Counter()
    records = list(conll_records([str(data / name)], counts=counts))
    assert (len(records), sum(len(record["entities"]) for record in records)) == REAL[name]
    assert (sum(counts.values()) > 0) == ("EBM" in name)


@pytest.mark.data
@pytest.mark.parametrize("name", SECOND)
def test_real_counts_with_the_tag_second(data: Path, name: str) -> None:
    config = ConllConfig(tag_column=2)
    assert len(list(conll_records([str(data / name)], config))) == SECOND[name]


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


@pytest.mark.data
def test_three_editions_of_one_set_agree(data: Path) -> None:
    where = data / "en/ner/NCBI-disease"
    config = ConllConfig(default_type="Disease")
    texts = [[(record["text"], record["entities"])
              for record in conll_records([str(where / name)], config)]
             for name in ("test.tsv", "conll4-test.txt", "iobes-test.tsv")]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.data
def test_real_documents(data: Path) -> None:
    config = ConllConfig(documents=True)
    records = list(conll_records([str(data / "en/pico/EBM-NLP/dev.txt")], config))
    assert len(records) == 960
    assert sum(len(record["entities"]) for record in records) == 16561
    for record in records:
        check(record)
