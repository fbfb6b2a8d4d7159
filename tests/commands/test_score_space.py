"""`bmtools score-space` on the command line."""

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
