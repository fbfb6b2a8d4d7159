"""`bmtools import` of texts by several workers, in parts, and interrupted: equal output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bmtools.corpus import importing
from bmtools.corpus.importing import FileWorker
from bmtools.io import passes

CITATION = ("<PubmedArticle><MedlineCitation><PMID>{0}</PMID><Article><Abstract><AbstractText>"
            "Pain of {0}. It went.</AbstractText></Abstract></Article></MedlineCitation>"
            "</PubmedArticle>\n")


class _Killed(BaseException):
    pass


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Four files: one citation occurs twice, one file has no citation, one citation has no PMID."""
    found = []
    for name, ids in zip("abcd", (range(1, 12), range(20, 29), (), (30, 3, "", 31, 20)),
                         strict=True):
        path = tmp_path / f"{name}.xml"
        path.write_text("<PubmedArticleSet>\n" + "".join(map(CITATION.format, ids))
                        + "</PubmedArticleSet>\n")
        found.append(path)
    return found


@pytest.fixture
def imported(files: list[Path], run: Callable[..., Any],
             tmp_path: Path) -> Callable[..., tuple[list[Any], list[Any], str]]:
    def call(*options: Any) -> tuple[list[Any], list[Any], str]:
        output, rejects = tmp_path / "out.jsonl", tmp_path / "bad.jsonl"
        outcome = run("import", "pubmed", *files, "-o", output, "--rejects", rejects,
                      "--overwrite", *options)
        assert outcome.code == 0, outcome.err
        return (output.read_bytes().splitlines(), rejects.read_bytes().splitlines(),
                re.sub(r" in [\d.]+ m?s.*", "", outcome.err))

    return call


@pytest.mark.parametrize("options", [
    (), ("--duplicates", "rename", "--sentences"), ("--duplicates", "drop"), ("--sentences",)],
    ids=" ".join)
def test_two_processes_write_what_one_writes(
        options: tuple[str, ...], imported: Callable[..., Any]) -> None:
    alone = imported(*options)
    assert imported(*options, "--workers", "2") == alone
    lines, rejects, err = alone
    ids = [json.loads(line)["id"] for line in lines]
    assert len(set(ids)) == len(ids)
    if "rename" in options:
        assert ids[-6:] == ["3-2-s1", "3-2-s2", "31-s1", "31-s2", "20-2-s1", "20-2-s2"]
        assert json.loads(lines[-1])["meta"]["document"] == "20-2"
        assert "2 records renamed" not in err and "renamed because of a repeated id: 2" in err
    else:
        assert len(ids) == 22 * (1 + ("--sentences" in options))
    bad = [json.loads(line) for line in rejects]
    assert sum("without PMID" in one["reason"] for one in bad) == 1
    again = [one for one in bad if "' again, after" in one["reason"]]
    assert [one["record"]["id"] for one in again] == ([] if "--duplicates" in options
                                                      else ["3", "20"])
    assert all(re.search(r"after .*/[ab].xml:\d+;", one["reason"]) for one in again)


@pytest.mark.filterwarnings("ignore:what is done")
@pytest.mark.parametrize("options", [(), ("--duplicates", "rename", "--sentences")], ids=" ".join)
def test_a_killed_import_continues_at_the_file(options: tuple[str, ...],
                                               imported: Callable[..., Any], tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_CHUNK_BYTES", 300)
    whole = imported(*options)
    monkeypatch.setattr(passes, "COMMIT_SECONDS", -1.0)
    monkeypatch.setattr(passes, "_WORTH_KEEPING_SECONDS", -1.0)
    read = FileWorker.__call__
    read_files: list[str] = []

    def dying(self: FileWorker, file: Any) -> Iterator[Any]:
        read_files.append(Path(file.name).name)
        outcomes = read(self, file)
        yield next(outcomes)
        if len(read_files) in (2, 4):
            raise _Killed
        yield from outcomes

    monkeypatch.setattr(FileWorker, "__call__", dying)
    (tmp_path / "out.jsonl").unlink()
    for resume in ((), ("--resume",)):
        with pytest.raises(_Killed):
            imported(*options, *resume)
        assert not (tmp_path / "out.jsonl").exists()
    assert imported(*options, "--resume") == whole
    assert read_files == ["a.xml", "b.xml", "b.xml", "c.xml", "c.xml", "d.xml"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.xml", "b.xml", "bad.jsonl", "c.xml", "d.xml", "out.jsonl",
        "out.jsonl.bmtools.json"]


def test_earlier_files_are_imported_before_a_broken_file(imported: Callable[..., Any],
                                                         files: list[Path], run: Callable[..., Any],
                                                         tmp_path: Path) -> None:
    files[1].write_text("<PubmedArticleSet>")
    files[3].write_text("no XML")
    outcome = run("import", "pubmed", *files, "-o", tmp_path / "new.jsonl", "--workers", "2")
    assert outcome.code == 1
    assert outcome.err.startswith(f"bmtools: {files[1]}:")
    assert not (tmp_path / "new.jsonl").exists()


def test_a_file_may_have_more_lines_than_a_record_bytes(
        tmp_path: Path, run: Callable[..., Any]) -> None:
    lines = "\n" * 450_000
    citations = [CITATION.format(number).replace("<Article>", f"{lines}<Article>")
                 for number in (1, 2, 3)]
    (tmp_path / "a.xml").write_text(f"<PubmedArticleSet>{''.join(citations)}</PubmedArticleSet>")
    outcome = run("import", "pubmed", tmp_path / "a.xml", "--max-record-megabytes", "1")
    assert outcome.code == 0, outcome.err
    assert [record["id"] for record in outcome.records] == ["1", "2", "3"]
