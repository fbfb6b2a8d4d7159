"""`bmtools build-vocab` as people call it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from bmtools.io.manifest import Manifest

Run = Callable[..., Any]


def test_help_tells_the_defaults(run: Run) -> None:
    outcome = run("build-vocab", "--help")
    assert outcome.code == 0
    for part in ("--size", "30000", "--uncased / --no-uncased", "--strip-accents", "--overwrite"):
        assert part in outcome.out


def test_stdout_is_one_line_about_the_directory(
        run: Run, corpus: Path, tmp_path: Path, manifest: Callable[..., Any]) -> None:
    outcome = run("build-vocab", corpus, "-o", tmp_path / "tok", "--size", "120")
    assert outcome.code == 0, outcome.err
    assert outcome.records == [{
        "tokenizer": str(tmp_path / "tok"), "tokens": 120, "asked": 120,
        "vocabulary": manifest(tmp_path / "tok")["vocabulary"]}]


def test_the_directory_says_how_it_was_made(
        run: Run, corpus: Path, tmp_path: Path, manifest: Callable[..., Any]) -> None:
    run("build-vocab", corpus, "-o", tmp_path / "tok", "--size", "120", "--uncased")
    content = manifest(tmp_path / "tok")
    assert content["command"] == "build-vocab"
    assert content["settings"] == {"size": 120, "uncased": True, "strip_accents": False,
                                   "min_frequency": 2, "max_alphabet": 1000}
    assert content["inputs"] == {str(corpus): hashlib.sha256(corpus.read_bytes()).hexdigest()}
    assert content["results"] == {"tokens": 120, "asked": 120}
    assert (content["seed"], content["parents"], content["tokens_seen"]) == (None, {}, 0)
    assert content["wall_seconds"] > 0
    assert {"bmtools", "tokenizers", "transformers"} <= set(content["versions"])


def test_transformers_loads_it_with_its_casing(run: Run, corpus: Path, tmp_path: Path) -> None:
    run("build-vocab", corpus, "-o", tmp_path / "cased", "--size", "150")
    run("build-vocab", corpus, "-o", tmp_path / "uncased", "--size", "150", "--uncased")
    cased, uncased = (AutoTokenizer.from_pretrained(tmp_path / name)
                      for name in ("cased", "uncased"))
    assert cased.decode(cased("Il cuore")["input_ids"]) == "[CLS] Il cuore [SEP]"
    assert uncased.decode(uncased("Il cuore")["input_ids"]) == "[CLS] il cuore [SEP]"
    lines = (tmp_path / "cased/vocab.txt").read_text("utf-8").splitlines()
    assert cased.get_vocab() == {token: number for number, token in enumerate(lines)}


def test_titles_are_read_too(run: Run, write_lines: Run, tmp_path: Path) -> None:
    path = write_lines("t.jsonl", {"id": "a", "title": "zzz zzz", "text": "il cuore"})
    run("build-vocab", path, "-o", tmp_path / "tok", "--size", "100")
    assert "zzz" in (tmp_path / "tok/vocab.txt").read_text().splitlines()


def test_stdin_equals_a_file(run: Run, piped: Run, corpus: Path, tmp_path: Path,
                             contents: Callable[..., Any], manifest: Callable[..., Any]) -> None:
    run("build-vocab", corpus, "-o", tmp_path / "named", "--size", "120")
    assert piped(corpus, "build-vocab", "-o", tmp_path / "piped", "--size", "120").code == 0
    assert piped(corpus, "build-vocab", "-", "-o", tmp_path / "dash", "--size", "120").code == 0
    assert contents(tmp_path / "named") == contents(tmp_path / "piped") \
        == contents(tmp_path / "dash")
    assert set(manifest(tmp_path / "piped")["inputs"]) == {"<stdin>"}


def test_several_files_are_one_corpus(run: Run, corpus: Path, write_lines: Run, tmp_path: Path,
                                      manifest: Callable[..., Any]) -> None:
    more = write_lines("more.jsonl", {"id": "x", "text": "xyxy xyxy"})
    run("build-vocab", corpus, more, "-o", tmp_path / "tok", "--size", "150")
    assert set(manifest(tmp_path / "tok")["inputs"]) == {str(corpus), str(more)}
    assert "xyxy" in (tmp_path / "tok/vocab.txt").read_text().splitlines()


@pytest.mark.parametrize("records", [(), ({"id": "a", "text": " \n"},)],
                         ids=["no records", "no words"])
def test_empty_input_is_one_clear_line(run: Run, write_lines: Run, tmp_path: Path,
                                       records: tuple[dict[str, str], ...]) -> None:
    outcome = run("build-vocab", write_lines("none.jsonl", *records), "-o", tmp_path / "tok")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == \
        "bmtools: no words in the input; expected records with some text\n"
    assert [path.name for path in tmp_path.iterdir()] == ["none.jsonl"]


def test_a_bad_line_stops_or_is_collected(run: Run, bad_corpus: Path, tmp_path: Path) -> None:
    arguments = ("build-vocab", bad_corpus, "-o", tmp_path / "tok", "--size", "120")
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"bmtools: {bad_corpus}:3: key 'text' is missing\n"
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]
    outcome = run(*arguments, "--rejects", tmp_path / "rejects.jsonl")
    assert (outcome.code, len(outcome.records)) == (0, 1)
    assert "1 bad records in" in outcome.err
    assert json.loads((tmp_path / "rejects.jsonl").read_text())["record"] == {"id": "c"}


@pytest.mark.parametrize(("arguments", "message"), [
    (("-o", "tok", "--size", "99"), "--size: found 99, expected at least 100"),
    (("-o", "tok", "--size", "many"), "'many' is not a valid integer"),
    (("-o", "tok", "--min-frequency", "0"), "--min-frequency: found 0, expected at least 1"),
    ((), "Missing option '-o' / '--output'"),
    (("-o", "tok", "absent.jsonl"), "'absent.jsonl' does not exist"),
])
def test_wrong_usage_ends_with_two(run: Run, corpus: Path, tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch,
                                   arguments: tuple[str, ...], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run("build-vocab", corpus, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err and outcome.err.count("\n") == 1
    assert not (tmp_path / "tok").exists()


def test_a_full_directory_is_kept_unless_told(run: Run, corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "tok"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    outcome = run("build-vocab", corpus, "-o", target, "--size", "120")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (f"bmtools: {target} is not empty; give another name, or --overwrite "
                           "to replace it\n")
    assert [path.name for path in target.iterdir()] == ["mine.txt"]
    assert run("build-vocab", corpus, "-o", target, "--size", "120", "--overwrite").code == 0
    assert {path.name for path in target.iterdir()} == {
        "tokenizer.json", "tokenizer_config.json", "vocab.txt", "bmtools.json"}


def test_nothing_is_left_of_a_failed_write(run: Run, corpus: Path, tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Manifest, directory: Path) -> None:
        assert (directory / "tokenizer.json").is_file()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Manifest, "write", full)
    outcome = run("build-vocab", corpus, "-o", tmp_path / "tok", "--size", "120")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "bmtools: [Errno 28] No space left on device\n"
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]
