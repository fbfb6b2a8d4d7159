"""`bmtools split` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "train.jsonl", tmp_path / "dev.jsonl", tmp_path / "test.jsonl"]
    for path, texts in zip(paths, (("a", "b"), (), ("B", "c")), strict=True):
        path.write_text("".join(json.dumps({"id": f"{path.stem}{text}", "text": text}) + "\n"
                                for text in texts))
    return paths


def test_check_compares_files_without_writing(run, parts: list[Path], tmp_path: Path) -> None:
    outcome = run("split", "--check", *parts)
    assert outcome.code == 0
    train, dev, test = map(str, parts)
    assert [(line["of"], line["in"], line["compared"], line["texts"]) for line in outcome.records] \
        == [(dev, train, 0, 0), (test, train, 2, 1), (test, dev, 2, 0)]
    assert outcome.err.startswith(f"bmtools: {test} shares texts with {train} (1 record) in ")
    assert sorted(tmp_path.iterdir()) == sorted(parts)
    table = run("split", "--check", parts[0], parts[2], "--table")
    assert "documents  0" in table.out
    apart = run("split", "--check", parts[0], parts[1])
    assert apart.err.startswith("bmtools: no parts share a document, text or question in ")


def test_split_reports_the_size_of_each_part(run, parts: list[Path], tmp_path: Path) -> None:
    records = tmp_path / "set.jsonl"
    records.write_text("".join(json.dumps({"id": str(number), "text": f"t{number % 9}"}) + "\n"
                               for number in range(10)))
    out = tmp_path / "out"
    outcome = run("split", records, "-o", out, "--counts", "-1,1,1")
    assert f"bmtools: wrote {out}: train 8, dev 1, test 1 records, each a document of " \
        "its own; " in outcome.err
    assert sorted(path.name for path in out.iterdir()) == [
        "bmtools.json", "dev.jsonl", "split.tsv", "test.jsonl", "train.jsonl"]
    again = tmp_path / "again"
    assert run("split", records, "-o", again, "--by", out / "split.tsv").code == 0
    for part in ("train", "dev", "test"):
        assert (again / f"{part}.jsonl").read_bytes() == (out / f"{part}.jsonl").read_bytes()
    folds = run("split", records, "-o", tmp_path / "folds", "--folds", "5")
    assert "more in the report" not in folds.err
