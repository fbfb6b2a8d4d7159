"""Files in other encodings and formats: the message names the format and the command to type."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy_documents import epub

Run = Callable[..., Any]
PROSE = "Perché il paziente è febbrile?\nNon è chiaro.\n"


def _zip(member: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(member, "x")
    return content.getvalue()


NOT_TEXT = {
    "utf-16": (PROSE.encode("utf-16"), "found UTF-16, expected UTF-8 text; "
               "type iconv -f UTF-16 -t UTF-8 {} > utf8.txt"),
    "utf-16le without a mark": (PROSE.encode("utf-16le"), "found UTF-16, expected UTF-8 text; "
                                "type iconv -f UTF-16LE -t UTF-8 {} > utf8.txt"),
    "utf-16be without a mark": (PROSE.encode("utf-16be"), "found UTF-16, expected UTF-8 text; "
                                "type iconv -f UTF-16BE -t UTF-8 {} > utf8.txt"),
    "utf-32": (PROSE.encode("utf-32"), "found UTF-32, expected UTF-8 text; "
               "type iconv -f UTF-32 -t UTF-8 {} > utf8.txt"),
    "pdf": (b"%PDF-1.7\n%\xe2\xe3", "found a PDF, expected UTF-8 text; "
            "type bmtools import pdf {}"),
    "docx": (_zip("word/document.xml"), "found a Word document, expected UTF-8 text; "
             "type pandoc -t plain --wrap=none {} | bmtools import text --paragraphs"),
    "zip": (_zip("notes.txt"), "found an archive, expected UTF-8 text; "
            "type unpack it and name its files"),
    "epub": (epub({"a": "x"}), "found an EPUB, expected UTF-8 text; type bmtools import epub {}"),
    "other": (b"ab\0cd", "found the NUL byte 3, expected UTF-8 text, not a binary file"),
    "latin-1": (PROSE.encode("latin-1"), "byte 6 is not UTF-8; as Windows-1252 it is a letter: "
                "type iconv -f WINDOWS-1252 -t UTF-8 {} > utf8.txt"),
    "damage": ("è".encode() + b" \xe8\n", "byte 4 is not UTF-8; the line also has UTF-8 "
               "letters, so this byte is damaged: fix it, or drop all such bytes by iconv -c -f "
               "UTF-8 -t UTF-8 {} > utf8.txt"),
}


@pytest.mark.parametrize("kind", NOT_TEXT)
@pytest.mark.parametrize("arguments", [("import", "text"), ("build-vocab", "-o", "out")])
def test_files_that_are_not_text_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                           run: Run, kind: str, arguments: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    content, message = NOT_TEXT[kind]
    Path("my notes").write_bytes(content)
    outcome = run(*arguments, "my notes")
    assert (outcome.code, outcome.out) == (1, "")
    message = message.replace("{}", "'my notes'")
    assert outcome.err.replace(":1: ", ": ") == f"bmtools: my notes: {message}\n"


def test_the_suggested_command_converts_the_file(tmp_path: Path, run: Run) -> None:
    for number, (encoding, pack) in enumerate([("utf-16", bytes), ("cp1252", gzip.compress)]):
        path = tmp_path / f"notes {number}.txt{'.gz' * (pack is gzip.compress)}"
        path.write_bytes(pack(PROSE.encode(encoding)))
        command = run("import", "text", path).err.rpartition("type ")[2]
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
        assert (tmp_path / "utf8.txt").read_text() == PROSE


NO_RECORDS = {
    "xml": ('<?xml version="1.0"?>\n<PubmedArticleSet/>\n', "found XML, expected records; type "
            "bmtools import pubmed notes if it is PubMed's"),
    "html": ("<html>\n", "found markup, expected records; type bmtools import html notes"),
    "conll": ("Selegiline\tB-Chemical\n-\tO\n",
              "found tagged tokens, expected records; type bmtools import conll notes"),
    "standoff": ("8701013|La clonidina\n", "found id|text, expected records; type bmtools import "
                 "standoff notes --annotations FILE"),
    "pubtator": ("1|t|On DF.\n1|a|\n", "found PubTator's lines, expected records; type bmtools "
                 "import pubtator notes"),
    "annotations": ("10923\t0\t7\tAspirin\tChemical\n", "found annotations, expected records; type "
                    "bmtools import standoff TEXTS --annotations notes"),
    "ddi": ('<document id="d">\n', "found XML, expected records; type bmtools import ddi notes"),
    "list": ('[{"id": "1"}]\n', "found a JSON list, expected records; type jq -c "
             "'.[]' notes | bmtools import jsonl"),
    "document": ('{\n "id": "1"}\n', "found one JSON object over several lines, expected "
                 "records; type jq -c . notes | bmtools import jsonl, or bmtools import curated "
                 "notes for BioBIT's maskings"),
    "table": ("id,text\n1,Febbre\n", "found a table of 2 columns (id, text); type "
              "bmtools import table notes --columns id=id,text=text"),
    "prose": ("Il paziente ha asma.\n", "found 'Il paziente ha asma.' (JSON is malformed: invalid "
              "character (byte 0)), expected a JSON object on one line; for plain text, type "
              "bmtools import text"),
    "other keys": ('{"pmid": 1}\n', "key 'id' is missing; type bmtools import jsonl --help for "
                   "records under other keys"),
}


@pytest.mark.parametrize("kind", NO_RECORDS)
def test_the_importing_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run,
                                        kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    content, message = NO_RECORDS[kind]
    Path("notes").write_text(content)
    outcome = run("build-vocab", "-o", "out", "notes")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"bmtools: notes:1: {message}\n"


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.ann", "T1\tDisease 0 5\tfever\n", "found BRAT's annotations, expected tagged tokens; type "
     "bmtools import brat a.ann"),
    ("pubtator", NO_RECORDS["pubtator"][0], "found PubTator's lines, expected tagged tokens; type "
     "bmtools import pubtator pubtator"),
    # A wrong column of tagged tokens is not another format.
    ("train.tsv", "a\tO\tx\n", "found the tag 'x' in column 3, expected O or one of B, I, E, S "
     "(L, U), with or without -TYPE; set its column with --tag-column")])
def test_import_conll_names_the_command_of_another_format(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, name: str, content: str,
        message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    outcome = run("import", "conll", name)
    assert (outcome.code, outcome.err) == (1, f"bmtools: {name}:1: {message}\n")


def test_the_error_for_a_directory_lists_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                   run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    Path("notes/a.jsonl.gz").write_bytes(b"")
    outcome = run("build-vocab", "-o", "out", "notes")
    assert outcome.code == 2
    assert ("found the directory 'notes', expected files; to read its files, give notes/*.jsonl.gz"
            in outcome.err)


HEADED = '"record id",Abstract\n1,"Febbre, ""alta"".\nTosse."\n2,Asma.\n'
TABLES = {
    "a.csv": (HEADED, ["Febbre, \"alta\".\nTosse.", "Asma."]),
    "a.tsv": ('index\tsentence\tlabel\n0\tUna "febbre\t1\n', ['Una "febbre']),
    "no suffix": ("id;text\n1;Febbre\n2;Asma\n", ["Febbre", "Asma"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_not_text_and_the_suggested_command_imports_it(tmp_path: Path, run: Run,
                                                                  name: str) -> None:
    content, texts = TABLES[name]
    (tmp_path / name).write_text(content)
    outcome = run("import", "text", tmp_path / name)
    assert (outcome.code, outcome.out) == (1, "")
    message, _, command = outcome.err.rstrip("\n").partition("; type ")
    assert message.startswith(f"bmtools: {tmp_path / name}: found a table of ")
    command = command.replace("bmtools import", f"{sys.executable} -m bmtools import")
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == texts


@pytest.mark.parametrize(("content", "found"), [
    ("codice;nota\n1;Febbre alta\n", "found a table of 2 columns (codice, nota); type bmtools "
     "import table {} --columns text=COLUMN"),
    ("<?xml version='1.0'?>\n<a/>\n", "found XML, expected plain text; type bmtools import "
     "pubmed {} if it is PubMed's"),
    ('{"id": "1", "text": "x"}\n', "found JSON Lines, expected plain text; type bmtools import "
     "jsonl {}"),
    ("Il O\npaziente O\nasma B-DIS\n\n", "found tagged tokens, expected plain text; type bmtools "
     "import conll {}"),
    ("10923|t|Aspirin\n10923|a|It bled.\n10923\t0\t7\tAspirin\tChemical\tD001241\n",
     "found PubTator's lines, expected plain text; type bmtools import pubtator {}"),
    ("10923\t0\t7\tAspirin\tChemical\tD001241\n10923\tCID\tD001241\tD006470\n",
     "found annotations, expected plain text; type bmtools import standoff TEXTS --annotations {}"),
    ("22083351\tA\t187\t202\tacido valproico\tTRIVIAL\n", "found annotations, expected plain text; "
     "type bmtools import standoff TEXTS --annotations {}"),
    ("T1\tDRUG 49 61\tcyclosporine\nR1\tEFFECT Arg1:T1 Arg2:T2\n*\tEquiv T1 T2\n",
     "found BRAT's annotations, expected plain text; type bmtools import brat {}"),
    ('c="a fever" 1:1 1:2||t="problem"\n', "found annotations of i2b2, expected plain text; type "
     "bmtools import i2b2-2010 on the folder of this file"),
    ("10064839\tCPR:2\tN \tDIRECT-REGULATOR\tArg1:T18\tArg2:T53\n"
     "15485686\tAssociation\tD001919\tp|SUB|V|1763|M\tNovel\n10064839\tT1\t0\t7\tAspirin\tGENE-Y\n",
     "found annotations, expected plain text; type bmtools import standoff TEXTS --annotations {}"),
    ("8808605|La selezione\n8589723|Il rischio\n", "found id|text, expected plain text; type "
     "bmtools import standoff {} --annotations FILE"),
    ("<!DOCTYPE html>\n", "found markup, expected plain text; type bmtools import html {}"),
    ('[\n {"id": "1"}\n]\n', "found a JSON list, expected plain text; type jq -c '.[]' {} | "
     "bmtools import jsonl"),
    ('{\n "id": "1"}\n', "found one JSON object over several lines, expected plain text; type jq "
     "-c . {0} | bmtools import jsonl, or bmtools import curated {0} for BioBIT's maskings"),
])
def test_other_formats_are_not_text(tmp_path: Path, run: Run, content: str, found: str) -> None:
    path = tmp_path / ("notes.csv" if "table" in found else "notes")
    path.write_text(content)
    assert run("import", "text", path).err == f"bmtools: {path}: {found.format(path)}\n"


@pytest.mark.parametrize("content", [
    "Febbre, tosse\nAsma, diabete\n", "Il paziente, febbrile, tossiva.\nUn altro, sano, no.\n",
    "asma\ndiabete\n", "<unk> era il paziente.\n", "id\n1\n", "Il gruppo O\nLa vitamina B\n",
    "asma,diabete\nfebbre,tosse\n", "[Referto] Il paziente\n", "WBC | 12.3 | 4-10 | H\n",
    "12|Il paziente\n13|Un altro\n", "WBC\t12\t14\tH\n", "T1\tN0\tM0\n",
    "12345678|prima\nseconda riga\n", "<5 mg al giorno\n",
    "Una frase con molto più di sessanta caratteri prima della sua virgola, note, e altro.\n"])
def test_prose_and_lists_are_text(tmp_path: Path, run: Run, content: str) -> None:
    (tmp_path / "notes").write_text(content)
    assert [record["text"] for record in run("import", "text", tmp_path / "notes").records] == \
        content.splitlines()
