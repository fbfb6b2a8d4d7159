"""`bmtools score-space` as people call it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FEW = ("--bands", 2, "--set", "words_per_band=3", "--set", "min_count=2",
       "--occurrences", 2, "--set", "neighbours=2",
       "--resamples", 50, "--device", "cpu")

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="session")
def other_checkpoint(make_checkpoint: Callable[..., Path], tiny_tokenizer: Path) -> Path:
    return make_checkpoint(tiny_tokenizer, seed=1)


def test_a_line_for_each_checkpoint_and_a_picture(
        run: Callable[..., Any], corpus: Path, tiny_checkpoint: Path, other_checkpoint: Path,
        tmp_path: Path) -> None:
    outcome = run("score-space", *FEW, "--model", tiny_checkpoint, "--model", other_checkpoint,
                  "--plot", tmp_path / "p.svg", corpus)
    assert outcome.code == 0, outcome.err
    first, second = outcome.records
    assert (first["model"], second["model"]) == (str(tiny_checkpoint), str(other_checkpoint))
    assert second["change"]["from"] == str(tiny_checkpoint)
    assert [first["words"], first["occurrences"], len(first["bands"])] == [6, 12, 2]
    assert first["average_cosine"] != second["average_cosine"]
    assert (tmp_path / "p.svg").read_bytes().startswith(b"<?xml")
    before = (tmp_path / "p.svg").read_bytes()
    again = run("score-space", *FEW, "--model", tiny_checkpoint, "--model", other_checkpoint,
                "--plot", tmp_path / "p.svg", corpus, "--overwrite")
    assert again.out == outcome.out
    assert (tmp_path / "p.svg").read_bytes() == before


def test_no_text_is_one_clear_line(run: Callable[..., Any], tiny_checkpoint: Path, tmp_path: Path,
                                   write_lines: Callable[..., Path]) -> None:
    blank = write_lines("blank.jsonl", {"id": "a", "text": " "})
    outcome = run("score-space", "--model", tiny_checkpoint, blank, "--plot",
                  tmp_path / "p.png", "-o", tmp_path / "o.jsonl")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == "bmtools: no words in the input; expected records with some text\n"
    assert not list(tmp_path.glob("[op].*"))


def test_too_few_words_name_the_way_out(run: Callable[..., Any], corpus: Path,
                                        tiny_checkpoint: Path) -> None:
    outcome = run("score-space", "--model", tiny_checkpoint, corpus)
    assert (outcome.code, outcome.out) == (1, "")
    assert "expected 3200 or more for 5 bands of 200" in outcome.err
    assert "lower --set words_per_band, --bands or --set min_count" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_layer_that_is_not_there(run: Callable[..., Any], corpus: Path,
                                   tiny_checkpoint: Path) -> None:
    outcome = run("score-space", "--model", tiny_checkpoint, "--layers", "0,7", corpus)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (f"bmtools: --layers: found 7, but {tiny_checkpoint} has layers 1 to 1, "
                           "and 0 for its embeddings\n")
