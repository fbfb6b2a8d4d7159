"""Tests that every format of `import` must pass."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest
from backports import zstd
from toy_documents import pdf, warc

from bmtools.records import Record, check


@dataclass(frozen=True)
class Sample:
    """A small source of one format, and the same source with a bad record."""

    good: str
    bad: str
    told: str
    ids: tuple[str, ...]
    kept: tuple[str, ...]


XML = ("<PubmedArticleSet>\n<PubmedArticle><MedlineCitation><PMID>{0}</PMID><Article><Abstract>"
       "<AbstractText>One. Two.</AbstractText></Abstract></Article></MedlineCitation>"
       "</PubmedArticle>\n<PubmedArticle><MedlineCitation><PMID>{1}</PMID><Article><Abstract>"
       "<AbstractText>Three.</AbstractText></Abstract></Article></MedlineCitation>"
       "</PubmedArticle>\n</PubmedArticleSet>\n")
SAMPLES = {
    "pubmed": Sample(XML.format(1, 2), XML.format(1, ""), "in:3: found a citation without PMID",
                     ("1", "2"), ("1",)),
    "conll": Sample("One. B\n\nTwo. O\n", "One. B\n\nTwo. X\n", "in:3: found the tag 'X'",
                    ("in:1", "in:3"), ("in:1",)),
    "standoff": Sample("a|One. Two.\nb|Three.\n", "a|One. Two.\nThree.\n",
                       "in:2: found 'Three.', expected id|text", ("a", "b"), ("a",)),
    "text": Sample("One. Two.\n\nThree.\n", "One.\nTw\udcff.\n", "in:2: byte 3 is not UTF-8",
                   ("in:1", "in:3"), ()),
    "jsonl": Sample('{"id": 1, "text": "One. Two."}\n{"text": "Three."}\n',
                    '{"id": 1, "text": "One. Two."}\n{"title": "x"}\n',
                    "in:2: key 'text': found no such key", ("1", "in:2"), ("1",)),
}


def warc_text(*texts: str) -> str:
    return "".join(warc(number, f"<html><p>{text}</p></html>".encode()).decode()
                   for number, text in enumerate(texts))


SAMPLES |= {
    "warc": Sample(warc_text("One. Two.", "Three."), warc_text("One. Two.", "Three.")[:-9],
                   f"in:{len(warc_text('One. Two.'))}: found ", ("urn:uuid:0", "urn:uuid:1"),
                   ("urn:uuid:0",)),
}
FORMATS = pytest.mark.parametrize("form", SAMPLES)


@pytest.fixture
def source(tmp_path: Path):
    def write(content: str, name: str = "in") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode(errors="surrogateescape"))
        return path

    return write


@pytest.fixture
def options(tmp_path: Path):
    """Required options of a format."""
    mentions = tmp_path / "ann.txt"
    mentions.write_text("a\t0\t3\tOne\tX\nb\t0\t3\tNine\tX\n")
    return {"standoff": ("--annotations", mentions)}


@FORMATS
def test_records(run, source, options, form: str) -> None:
    outcome = run("import", form, source(SAMPLES[form].good), *options.get(form, ()))
    assert outcome.code == 0
    assert tuple(record["id"] for record in outcome.records) == SAMPLES[form].ids
    assert outcome.err.startswith("bmtools: 2 records")
    for record in outcome.records:
        check(Record(record))


@FORMATS
@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress, b"\xef\xbb\xbf".__add__],
                         ids=["gzip", "zstd", "bom"])
def test_stdin_equals_a_file(run, shell, source, options, form: str, pack) -> None:
    content = SAMPLES[form].good.encode()
    more = options.get(form, ())
    from_file = run("import", form, source(SAMPLES[form].good), *more)
    path = source("", "packed")
    path.write_bytes(pack(content))
    packed = run("import", form, path, *more)
    assert packed.out.replace("packed", "in") == from_file.out
    if pack is gzip.compress:
        piped = shell("import", form, *more, stdin=pack(content))
        assert piped.code == 0
        assert piped.out.replace("stdin", "in") == from_file.out


@FORMATS
def test_empty_input(run, source, options, form: str, tmp_path: Path) -> None:
    path, out = source(""), tmp_path / "out.jsonl"
    outcome = run("import", form, path, "-o", out, *options.get(form, ()))
    lost = " (annotations lost: 2)" if form == "standoff" else ""
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (f"bmtools: {path}: found no records{lost}, expected at least one; "
                           "use --allow-empty to accept it\n")
    assert not out.exists()
    outcome = run("import", form, path, "--allow-empty", *options.get(form, ()))
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith("bmtools: 0 records")


@FORMATS
def test_a_bad_record_is_named(run, source, options, form: str) -> None:
    outcome = run("import", form, source(SAMPLES[form].bad), *options.get(form, ()))
    assert outcome.code == 1
    assert SAMPLES[form].told in outcome.err.splitlines()[-1]
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("form", [form for form in SAMPLES if SAMPLES[form].kept])
def test_rejects_collects_it(run, source, options, tmp_path: Path, form: str) -> None:
    rejects = tmp_path / "rejects.jsonl"
    outcome = run("import", form, source(SAMPLES[form].bad), "--rejects", rejects,
                  *options.get(form, ()))
    assert outcome.code == 0
    assert tuple(record["id"] for record in outcome.records) == SAMPLES[form].kept
    lines = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert any(SAMPLES[form].told in f"{line['place']}: {line['reason']}" for line in lines)
    assert f"bmtools: {len(lines)} bad record" in outcome.err


@FORMATS
def test_output_and_keys_set_by_hand(run, source, options, tmp_path: Path, form: str) -> None:
    out = tmp_path / "out.jsonl.gz"
    outcome = run("import", form, source(SAMPLES[form].good), "-o", out, "--lang", "it",
                  "--source", "S", "--licence", "CC BY", *options.get(form, ()))
    assert (outcome.code, outcome.out) == (0, "")
    for line in gzip.decompress(out.read_bytes()).splitlines():
        record = json.loads(line)
        assert (record["lang"], record["source"], record["licence"]) == ("it", "S", "CC BY")


@pytest.mark.parametrize("form", ["pubmed", "standoff", "text", "jsonl"])
def test_sentences(run, source, options, form: str) -> None:
    outcome = run("import", form, source(SAMPLES[form].good), "--sentences", "--lang", "en",
                  *options.get(form, ()))
    assert [record["text"] for record in outcome.records] == ["One.", "Two.", "Three."]
    assert [record["id"] for record in outcome.records] == [
        f"{SAMPLES[form].ids[0]}-s1", f"{SAMPLES[form].ids[0]}-s2", f"{SAMPLES[form].ids[1]}-s1"]


def test_sentences_with_user_abbreviations(run, source, tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("amb. ...\n")
    text = source("Visto in amb. Cardiologia. Sta bene.\n")
    arguments = "import", "text", text, "--lang", "it", "--abbreviations", own
    outcome = run(*arguments, "--sentences")
    assert [record["text"] for record in outcome.records] == [
        "Visto in amb. Cardiologia.", "Sta bene."]
    alone = run(*arguments)
    assert (alone.code, alone.out) == (2, "")
    assert "--abbreviations requires --sentences; add it" in alone.err
    language = run("import", "text", text, "--sentences")
    assert language.code == 1 and "in:1: found no language" in language.err
    own.write_text("two words\n")
    wrong = run(*arguments, "--sentences")
    assert (wrong.code, wrong.err.count("\n")) == (1, 1)
    assert "own.txt:1: found 'two words', expected an abbreviation" in wrong.err


@pytest.mark.parametrize("arguments", [
    ("conll", "--tag-column", "1"), ("jsonl", "--columns", "txt=a"),
    ("conll", "--default-type", ""),
    ("conll", "--tag-column", "-1"), ("chemprot", "--entities", __file__), ("biored",),
    ("standoff",), ("text", "absent.txt"),
    ("text", "--duplicates", "burn"), ("text", "--lang", "italian"), ("nonsense",)])
def test_wrong_usage_exits_2_before_anything_is_read(run, arguments: tuple[str, ...]) -> None:
    outcome = run("import", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1


def test_updates_and_account(run, source, tmp_path: Path) -> None:
    old, new = tmp_path / "1.xml", tmp_path / "2.xml"
    old.write_text(XML.format(1, 2))
    new.write_text(XML.format(2, 3).replace("One", "Newer"))
    outcome = run("import", "pubmed", new, old, "--duplicates", "drop")
    assert [record["id"] for record in outcome.records] == ["2", "3", "1"]
    assert "Newer" in outcome.records[0]["text"]
    assert "records with a repeated id left out: 1" in outcome.err
    accounted = run("import", "pubmed", old, "--account")
    assert (accounted.code, len(accounted.records)) == (0, 2)
    assert " characters of text: 14 in records (" in accounted.err


@pytest.mark.data
def test_a_truncated_download_is_a_one_line_error(run, data: Path, tmp_path: Path) -> None:
    packed = (data / "en/pubmed-xml/medline16n0902.xml.gz").read_bytes()
    path, out = tmp_path / "cut.xml.gz", tmp_path / "out.jsonl"
    path.write_bytes(packed[:300_000])
    outcome = run("import", "pubmed", path, "-o", out)
    assert outcome.code == 1
    assert f"{path}: damaged compressed data" in outcome.err
    assert not out.exists()


@pytest.mark.data
@pytest.mark.parametrize(("name", "records"), [
    ("it/corpus/native-clinical.jsonl", 2303), ("en/corpus/pubmed-drug-reviews.jsonl.gz", 7752)])
def test_real_json_lines_pass_through(run, data: Path, name: str, records: int) -> None:
    outcome = run("import", "jsonl", data / name)
    assert outcome.code == 0
    path = data / name
    content = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    assert outcome.records == [json.loads(line) for line in content.splitlines()]
    assert len(outcome.records) == records


def test_help_warns_of_the_italian_relations(run) -> None:
    text = " ".join(run("import", "chemprot", "--help-all").out.split())
    assert "Italian files seem to refer to the English entities" in text
    assert "47 % of the relations in train join a chemical and a gene" in text


NOTE = "".join(f"Riga {number} della visita.\n" for number in range(10))


@pytest.mark.parametrize("options", [(), ("--paragraphs",), ("--whole-files",)])
def test_text_cut_at_line_ends_is_reported(run, tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "note.txt").write_text(NOTE)
    (tmp_path / "line.txt").write_text("Una riga.\n")
    said = run("import", "text", tmp_path / "note.txt", tmp_path / "line.txt", *options).err
    hint = "; files cut at line ends (--whole-files makes one record of each): 1 in "
    assert said.startswith("bmtools: 2 records in " if options else f"bmtools: 11 records{hint}")


def test_the_next_commands_run_on_a_small_file(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("note.txt").write_text(NOTE)
    Path("two.conll").write_text("Febbre\tB-DIS\n\nTosse\tB-DIS\n")

    def following(*arguments: object) -> list[str]:
        outcome = run(*arguments)
        assert outcome.code == 0, outcome.err
        return outcome.err.rpartition("; next: bmtools ")[2].split()

    built = following(*following("import", "text", "note.txt", "--lang", "it", "-o", "n.jsonl"))
    assert built[:3] == ["pretrain", "FILE", "--architecture"]
    assert built[-1] == "model"
    Path("model").mkdir()
    distinct = following(*following("clean", "n.jsonl", "-o", "c.jsonl"))
    again = following(*distinct)
    assert (again[-1], again[-3]) == ("model-2", "vocabulary-2")
    assert [one.name for one in Path().glob("vocabulary*")] == ["vocabulary", "vocabulary-2"]
    # A split needs documents, not sentences.
    assert "next:" not in run("import", "conll", "two.conll", "--lang", "it", "-o", "s.jsonl").err


def test_a_split_of_maskings_is_not_suggested(run, tmp_path: Path) -> None:
    curated = Path(__file__).parents[2] / "examples/quickstart/curated.json"
    outcome = run("import", "curated", curated, "-o", tmp_path / "maskings.jsonl")
    assert "187 records to" in outcome.err and "next:" not in outcome.err


def test_a_split_is_suggested_only_if_it_works(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    sentences = "Febbre {0}\tB-DIS\n\nTosse {0}\tO\n\n"
    for documents in (2, 7, 8, 9):
        Path("set.conll").write_text("".join(
            "-DOCSTART-\tO\n\n" + sentences.format(one) for one in range(documents)))
        said = run("import", "conll", "set.conll", "--lang", "it", "-o", f"{documents}.jsonl").err
        outcome = run("split", f"{documents}.jsonl", "-o", f"parts {documents}")
        assert ("; next: bmtools split" in said) == (outcome.code == 0) == (documents > 7)


def test_account_of_text(run, shell, source) -> None:
    outcome = run("import", "text", source("One two.\n\n Three.\n"), "--account")
    assert outcome.code == 0
    assert outcome.err.startswith("bmtools: 13 characters of text: 13 in records (100.0 %), 0 left "
                                  "out, 0 unaccounted for\nbmtools: 2 records")
    outcome = shell("import", "text", "--account", stdin=b"One.\n")
    assert outcome.code == 2
    assert "--account: found stdin, which cannot be read twice" in outcome.err
    assert run("import", "conll", source("One B\n"), "--account").code == 2


def test_account_shows_a_lost_line(run, source, monkeypatch) -> None:
    from bmtools.corpus.formats.texts import plain_text

    blocks = plain_text._blocks
    monkeypatch.setattr(plain_text, "_blocks", lambda *given: list(blocks(*given))[:-1])
    path = source("One.\nTwo.\n")
    outcome = run("import", "text", path, "--account", "-o", path.with_name("out.jsonl"))
    assert outcome.code == 1
    assert outcome.err.startswith(f"bmtools: {path}:2: the text 'Two.' is not accounted for, at "
                                  "the end")
    assert "run without --account to continue" in outcome.err
    assert not path.with_name("out.jsonl").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_files_of_a_folder_are_shared_among_workers(run, tmp_path: Path, jobs: int) -> None:
    for name in ("a/x.pdf", "b/x.pdf", "b/.hidden.pdf", "b/y.txt", "c.pdf"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(pdf([f"Text of {name}."]))
    (tmp_path / "empty").mkdir()
    outcome = run("import", "pdf", tmp_path / "in", tmp_path / "empty", "--workers", jobs)
    assert [record["id"] for record in outcome.records] == ["c", "a/x", "b/x"]
    assert "hidden files passed over: 1" in outcome.err
    assert "files that do not end in .pdf passed over: 1" in outcome.err
    nothing = run("import", "pdf", tmp_path / "empty")
    assert (nothing.code, nothing.out) == (1, "")
    assert f"{tmp_path}/empty: found no records" in nothing.err


def test_a_set_that_loses_most_annotations_is_rejected(run, source, tmp_path: Path) -> None:
    out, rejects = tmp_path / "out.jsonl", tmp_path / "rejects.jsonl"
    mentions = source("a\t0\t3\tOne\tX\ty\na\t0\t3\tNine\tX\na\t0\t3\tOne\tX\n", "ann")
    outcome = run("import", "standoff", source("a|One.\n"), "--annotations", mentions, "-o", out,
                  "--rejects", rejects)
    assert outcome.code == 1
    assert "found 2 of 3 annotations that cannot be read or are not in" in outcome.err
    assert len(rejects.read_text().splitlines()) == 2
    assert not out.exists()


def test_several_parts_of_a_set_are_named(run, tmp_path: Path) -> None:
    for name, part in (("a", "Test/Test for DDI"), ("b", "Test/Test for NER"), ("c", "")):
        (tmp_path / "set" / part / "x").mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / part / "x" / f"{name}.txt").write_text("Uno.")
    both = run("import", "brat", tmp_path / "set").err
    assert f"parts of a set: '{tmp_path}/set/Test/Test for DDI' (1), '{tmp_path}/set" in both
    assert "several parts" not in run("import", "brat", tmp_path / "set/Test/Test for NER").err


def test_names_of_files_that_are_not_utf8_are_readable(run, tmp_path: Path) -> None:
    arrow, pq = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
    folder, page = tmp_path / "in", b"<html><p>One. Two.</p></html>"
    contents = {"d\xe9/x.html": page, "caf\xe9.html": page, "caf\xe9.txt": b"asma",
                "caf\xe9.ann": b"T1\tD 0 4\tasma\nT2\tD 0 4\tno\n",
                "text/\xe9.txt": b"One.", "labels/\xe9.txt": b"<"}
    pq.write_table(arrow.table({"text": ["Uno."]}), table := BytesIO())
    contents["caf\xe9.parquet"] = table.getvalue()
    with tarfile.open(tmp_path / "in.tar", "w", errors="surrogateescape") as archive:
        for name, content in contents.items():
            path = folder / os.fsdecode(name.encode("latin-1"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            archive.add(path, str(path.relative_to(folder)))
    expected = {"html": ["caf\\xe9", "d\\xe9/x"], "parquet": ["caf\\xe9:1"], "hoc": ["\\xe9_s0"],
                "brat": ["caf\\xe9", "\\xe9", "\\xe9-2"]}
    for form, ids in expected.items():
        for source in ("in", "in.tar") if form != "brat" else ("in",):
            found = run("import", form, tmp_path / source, "--rejects", tmp_path / "lost.jsonl",
                        "--duplicates", "rename", "-o", tmp_path / "out.jsonl", "--overwrite")
            assert found.code == 0, found.err
            records = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
            assert sorted(record["id"] for record in records) == sorted(ids)
    assert json.loads((tmp_path / "lost.jsonl").read_text())["place"].endswith("/caf\\xe9.ann:2")
    verified = run("verify", tmp_path / "out.jsonl")
    assert {one["state"] for one in verified.records} == {"same"}
