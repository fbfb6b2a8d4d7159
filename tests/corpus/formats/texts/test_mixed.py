"""Files of mixed formats."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from backports import zstd
from pyarrow import parquet
from toy_documents import PAGE, epub, pdf, warc

from bmtools.corpus.formats.texts.mixed import format_of, mixed_records
from bmtools.errors import DataError, RecordError

CITATION = (b'<?xml version="1.0"?><PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>7</PMID>'
            b"<Article><Abstract><AbstractText>x</AbstractText></Abstract></Article>"
            b"</MedlineCitation></PubmedArticle></PubmedArticleSet>")
ARTICLE = (b"<!DOCTYPE article><article><front><article-meta><article-id pub-id-type='pmc'>8"
           b"</article-id></article-meta></front><body><p>x</p></body></article>")


def rows() -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table({"text": ["x"]}), out)
    return out.getvalue()


FILES = {
    "a/page.html": PAGE.encode(), "a/book.epub": epub({"a": "<p>x</p>"}), "b/page": PAGE.encode(),
    "b/x.pdf.gz": gzip.compress(pdf(["x"])), "b/rows.parquet": rows(), "c.xml": CITATION,
    "crawl": gzip.compress(warc(1, PAGE.encode())), "d.nxml": ARTICLE, "README": b"x",
    "lines.dat": b'{"text": "x"}\n', "NOTES.csv": b"ROW_ID,CATEGORY,TEXT\n9,ECG,x\n",
    "t.tsv.zst": zstd.compress(b"pmid\tAbstract\n5\tx\n")}
UNKNOWN = {"z1.bin": b"\0\1", "z2.json": b"{}", "z3.py": b"x = 1\n", "z4.csv": b"a,b\n1,2\n",
           "z5.docx": b"PK\3\4" + b"[Content_Types].xml" * 3, "z6.xml": b"<other/>"}
FORMATS = {"html": 2, "epub": 1, "pdf": 1, "parquet": 1, "pubmed": 1, "warc": 1, "pmc": 1,
           "text": 1, "jsonl": 1, "mimic": 1, "table": 1}
IDS = {"a/page", "a/book", "b/page", "b/x", "rows:1", "7", "urn:uuid:1", "PMC8", "README",
       "lines:1", "9", "5"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in (FILES | UNKNOWN).items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "in"


@pytest.mark.parametrize("kind", ["folder", "tar", "zip"])
def test_every_format(folder: Path, kind: str) -> None:
    source = folder
    if kind == "tar":
        source = folder.with_suffix(".tar.gz")
        with tarfile.open(source, "w:gz") as packed:
            packed.add(folder, ".")
    elif kind == "zip":
        source = folder.with_suffix(".zip")
        with zipfile.ZipFile(source, "w") as archive:
            for name, content in (FILES | UNKNOWN).items():
                archive.writestr(name, content)
    counts: Counter[str] = Counter()
    records = list(mixed_records([str(source)], counts))
    assert {record["id"] for record in records} == IDS
    assert {record["meta"]["file"] for record in records} == set(FILES)
    assert {form: counts[f"files of the format {form}"] for form in FORMATS} == FORMATS
    assert counts["files of no known format (z1.bin, z2.json, z3.py and 3 more)"] == 6


def test_archives_in_folders_are_read_and_not_those_in_archives(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as inner:
        inner.add(__file__, "code.txt")
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as outer:
        outer.add(tmp_path / "a.tar", "a.tar")
    counts: Counter[str] = Counter()
    record, = mixed_records([str(tmp_path)], counts)
    assert (record["id"], record["meta"]["file"]) == ("a.tar/code", "a.tar/code.txt")
    assert counts["files of no known format (b.tar.gz/a.tar)"] == 1


def test_one_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name, own_id in (("a/book.epub", "book"), ("b/x.pdf.gz", "x"), ("README", "README")):
        for path in (f"{folder}/{name}", f"./{name}"):
            record, = mixed_records([path])
            assert (record["id"], record["meta"]["file"]) == (own_id, path)


def test_damage_to_one_file_is_rejected_and_the_others_stay(folder: Path) -> None:
    (folder / "b/x.pdf.gz").write_bytes(gzip.compress(b"%PDF-1.4 damaged"))
    (folder / "c.xml").write_bytes(CITATION[:-40])
    rejected: list[RecordError] = []
    ids = {record["id"] for record in mixed_records([str(folder)], reject=rejected.append)}
    assert ids >= IDS - {"b/x", "7"}
    assert [error.place for error in rejected] == [f"{folder}/c.xml:1", f"{folder}/b/x.pdf.gz"]
    assert "damaged XML" in rejected[0].reason
    with pytest.raises(DataError, match=r"c\.xml:1: damaged XML"):
        list(mixed_records([str(folder)]))


@pytest.mark.parametrize(("head", "name", "form"), [
    (b"<!-- a --><HTML>", "x", "html"), (b"  <html>", "x.php", "html"), (b"x", "x.htm", "html"),
    (b'<xmi:XMI xmlns:xmi="http://www.omg.org/XMI">', "x.xml", "xmi"), (b"", "a.txt", ""),
    (b"<PubmedBookArticleSet>", "x.xml", "pubmed"),
    (b"<articles><article_x/></articles>", "x.xml", ""), (b"\xff\xfea\0", "a.txt", ""),
    (b"NOTE_ID;x", "a.txt", "text"), (b'"note_id","note_type","x","text"\n', "a", "mimic"),
    (b"Testo;N\n", "a.csv", "table"), (b"PAR1", "a", "parquet"), (b"\xef\xbb\xbf{\"text\": 1}",
                                                                 "a", "jsonl")])
def test_formats(head: bytes, name: str, form: str) -> None:
    assert format_of(head, name) == form
