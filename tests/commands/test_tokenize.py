"""`bmtools tokenize` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.data.shards import Corpus

Run = Callable[..., Any]


@pytest.fixture
def go(run: Run, tiny_tokenizer: Path) -> Run:
    """Run the command in one process: `go(files..., options...)`."""

    def call(*arguments: object) -> Any:
        return run("tokenize", *arguments, "--tokenizer", tiny_tokenizer, "--workers", 1)

    return call


def test_stdout_is_one_line_that_describes_the_shards(go: Run, corpus: Path, tmp_path: Path,
                                                      manifest: Callable[..., Any]) -> None:
    outcome = go(corpus, "-o", tmp_path / "s", "--sentences")
    assert outcome.code == 0, outcome.err
    content = manifest(tmp_path / "s")
    assert outcome.records == [{"output": str(tmp_path / "s"), **content["results"],
                                "vocabulary": content["vocabulary"]}]
    assert {name: content["results"][name] for name in ("shards", "records", "documents", "words",
                                                        "sentences", "empty")} == {
        "shards": 1, "records": 8, "documents": 8, "words": 70, "sentences": 8, "empty": 0}
    opened = Corpus.open(tmp_path / "s")
    assert (len(opened), opened.tokens) == (8, content["results"]["tokens"])
