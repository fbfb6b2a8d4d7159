"""`bmtools find-contexts` on the command line."""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("asma\ndiabete mellito\nassente\n", encoding="utf-8")
    return path


@pytest.fixture
def go(run: Run, words: Path) -> Run:
    """Run the command in one process: `go(files..., options...)`."""

    def call(*arguments: object) -> Any:
        return run("find-contexts", *arguments, "--words", words, "--workers", 1)

    return call


def test_stdout_has_sentences_with_their_words(go: Run, corpus: Path) -> None:
    outcome = go(corpus)
    assert outcome.code == 0, outcome.err
    assert outcome.records[:2] == [
        {"id": "0#0", "text": "Il paziente ha diabete mellito e asma.", "lang": "it",
         "targets": [{"word": "diabete mellito", "start": 15, "end": 30},
                     {"word": "asma", "start": 33, "end": 37}]},
        {"id": "3#0", "text": "L'asma riduce il respiro del paziente.", "lang": "it",
         "targets": [{"word": "asma", "start": 2, "end": 6}]}]
    assert len(outcome.records) == 4
    assert outcome.err.startswith("bmtools: 2 of 3 words found, 1 not found; 6 occurrences, "
                                  "4 sentences sampled in ")


def test_the_report_has_a_line_for_each_word(go: Run, corpus: Path, tmp_path: Path) -> None:
    outcome = go(corpus, "--max-sentences", 3, "--report", tmp_path / "report.jsonl",
                 "-o", tmp_path / "found.jsonl")
    assert (outcome.code, outcome.out) == (0, "")
    report = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
    assert report == [{"word": "asma", "occurrences": 4, "sampled": 3},
                      {"word": "diabete mellito", "occurrences": 2, "sampled": 2},
                      {"word": "assente", "occurrences": 0, "sampled": 0}]
    lines = (tmp_path / "found.jsonl").read_text().splitlines()
    assert sum(len(json.loads(line)["targets"]) for line in lines) == 5


def test_words_of_a_new_tokenizer(run: Run, corpus: Path, tiny_tokenizer: Path,
                                  make_tokenizer: Run) -> None:
    whole = run("find-contexts", corpus, "--tokenizer", tiny_tokenizer, "--workers", 1)
    assert whole.code == 0, whole.err
    base = make_tokenizer("Il cuore pompa il sangue nelle arterie.")
    outcome = run("find-contexts", corpus, "--tokenizer", tiny_tokenizer, "--base", base,
                  "--workers", 1)
    assert outcome.code == 0, outcome.err
    known = set((base / "vocab.txt").read_text().split())
    new = set((tiny_tokenizer / "vocab.txt").read_text().split()) - known
    named = {target["word"] for line in outcome.records for target in line["targets"]}
    assert named and named <= new
    assert len(outcome.records) < len(whole.records) or named < {
        target["word"] for line in whole.records for target in line["targets"]}
    for line in outcome.records:
        for target in line["targets"]:
            assert line["text"][target["start"]:target["end"]] == target["word"]


def test_two_processes_write_the_same(shell: Run, corpus: Path, words: Path,
                                      tmp_path: Path) -> None:
    big = tmp_path / "big.jsonl"
    big.write_text(corpus.read_text() * 2_000)
    outcomes = [shell("find-contexts", big, "--words", words, "--workers", processes)
                for processes in (1, 2)]
    assert outcomes[0].code == outcomes[1].code == 0
    assert outcomes[0].out == outcomes[1].out
    assert len(outcomes[0].records) == 40


@pytest.mark.slow
@pytest.mark.data
def test_real_abstracts_match_a_regular_expression(run: Run, data: Path, tmp_path: Path) -> None:
    """All occurrences of 300 words in 200 abstracts, with the case and accents of BERT's rule."""
    with gzip.open(data / "en/corpus/pubmed-drug-reviews.jsonl.gz", "rt") as stream:
        lines = list(itertools.islice(stream, 200))
    source, words = tmp_path / "text.jsonl", tmp_path / "words.txt"
    source.write_text("".join(lines))
    texts = [json.loads(line)["text"] for line in lines]
    found = sorted({word.lower() for text in texts for word in re.findall(r"[A-Za-z]{4,}", text)})
    words.write_text("\n".join(found[::20]) + "\n")
    outcome = run("find-contexts", source, "--words", words, "--uncased", "--workers", 1,
                  "--report", tmp_path / "report.jsonl")
    assert outcome.code == 0, outcome.err
    for line in outcome.records:
        for target in line["targets"]:
            place = re.search(rf"(?i)(?<![^\W_]){target['word']}(?![^\W_])", line["text"])
            assert place is not None and place.span() == (target["start"], target["end"])
    for line in (tmp_path / "report.jsonl").read_text().splitlines():
        told = json.loads(line)
        pattern = re.compile(rf"(?i)(?<![^\W_]){told['word']}(?![^\W_])")
        assert told["occurrences"] == sum(len(pattern.findall(text)) for text in texts)
