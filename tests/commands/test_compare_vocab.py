"""`bmtools compare-vocab` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##s", "##m", "##a", "cuore", "il"]
RECORDS = ({"id": "1", "text": "Il cuore, asma.", "entities": [
               {"start": 3, "end": 8, "type": "Body"}, {"start": 10, "end": 14, "type": "Ill"}]},
           {"id": "2", "text": "asma"})


@pytest.fixture
def records(write_lines: Run) -> Path:
    return write_lines("r.jsonl", *RECORDS)


@pytest.fixture
def vocab(tmp_path: Path) -> Callable[..., Path]:
    """Write a vocab.txt: `vocab("name", "more", "words")`."""

    def write(name: str, *words: str) -> Path:
        path = tmp_path / f"{name}.txt"
        path.write_text("\n".join([*TOKENS, *words]) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def pair(vocab: Callable[..., Path]) -> list[object]:
    return ["--vocab", f"small={vocab('small')}", "--vocab", f"large={vocab('large', 'asma')}"]


def test_a_line_for_each_scope_and_vocabulary_and_pair(run: Run, records: Path,
                                                       pair: list[object]) -> None:
    outcome = run("compare-vocab", records, *pair)
    assert outcome.code == 0
    assert [(line["scope"], line["vocabulary"]) for line in outcome.records] == [
        *((scope, name) for scope in ("text", "entities", "entities:Body", "entities:Ill")
          for name in ("small", "large"))]
    small, large = outcome.records[:2]
    assert (small["words"], small["pieces"], small["tokens"]) == (4, 2 + 4 + 4, 12)
    assert (large["pieces_per_word"], large["whole_share"]) == (1.0, 1.0)
    assert (large["relative_tokens"], large["casing"], large["tokenizer_model"]) == (0.5, "uncased",
                                                                                     "WordPiece")
    assert small["worst"] == [{"term": "asma", "count": 2, "pieces": ["a", "##s", "##m", "##a"]}]


def test_an_assumed_casing_is_reported(run: Run, records: Path, pair: list[object],
                                       tiny_tokenizer: Path) -> None:
    outcome = run("compare-vocab", records, *pair, "--vocab", tiny_tokenizer)
    assert outcome.err.splitlines()[:-1] == [
        f"bmtools: {name}: no file states its casing; its tokens suggest uncased, so text is "
        "lower-cased without accents" for name in ("small", "large")]
    told = {line["vocabulary"]: (line["casing"], line["casing_assumed"])
            for line in outcome.records if "casing" in line}
    assert told == {"small": ("uncased", True), "large": ("uncased", True),
                    str(tiny_tokenizer): ("cased", False)}


@pytest.mark.parametrize("name", ["p.svg"])
def test_a_plot(run: Run, records: Path, pair: list[object], tmp_path: Path, name: str) -> None:
    outcome = run("compare-vocab", records, *pair, "--plot", tmp_path / name)
    assert outcome.code == 0, outcome.err
    assert (tmp_path / name).stat().st_size > 1_000
    assert len(outcome.records) == 8


def test_a_table_of_ticks(run: Run, records: Path, pair: list[object], tmp_path: Path) -> None:
    terms = tmp_path / "terms.txt"
    terms.write_text("cuore\tBody\nasma\n")
    outcome = run("compare-vocab", "--terms", terms, *pair, "--by-term")
    assert [line["term"] for line in outcome.records] == ["cuore", "asma"]
    assert outcome.records[1]["vocabularies"]["small"] == {
        "whole": False, "pieces": ["a", "##s", "##m", "##a"], "first": ["B", "-", "-", "-"],
        "all": ["B", "I", "I", "I"]}
    assert "bmtools: compared 2 terms in" in outcome.err
    table = run("compare-vocab", records, "--terms", terms, *pair, "--by-term", "--table").out
    assert [[*map(str.strip, row.split("|")[1:-1])] for row in table.splitlines()[2:]] == [
        ["cuore", "Body", "\N{CHECK MARK}", "\N{CHECK MARK}"],
        ["asma", "Ill", "a ##s ##m ##a", "\N{CHECK MARK}"],
        ["asma", "", "a ##s ##m ##a", "\N{CHECK MARK}"]]
    refused = run("compare-vocab", records, *pair, "--by-term", "--plot", tmp_path / "p.svg")
    assert refused.code == 2 and "--plot: found with --by-term" in refused.err
