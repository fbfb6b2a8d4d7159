"""`bmtools score-masking` on the command line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("one_thread")
COMMON = ("--max-length", "16", "--repeats", "2", "--resamples", "20")
RECORDS = [{"id": "a", "text": "Il paziente ha diabete mellito e asma.", "domain": "lungs"},
           {"id": "b", "text": "Il cuore pompa il sangue nelle arterie.", "domain": "heart"},
           {"id": "c", "text": "L'asma riduce il respiro del paziente.", "domain": "lungs"}]


@pytest.fixture
def notes(write_lines: Callable[..., Path]) -> Path:
    return write_lines("notes.jsonl", *RECORDS)


def test_a_line_for_each_model_and_combination(
        run: Callable[..., Any], tiny_checkpoint: Path, make_checkpoint: Callable[..., Path],
        tiny_tokenizer: Path, tmp_path: Path, notes: Path) -> None:
    (tmp_path / "terms.txt").write_text("diabete mellito\nasma\n")
    other = make_checkpoint(tiny_tokenizer, seed=1)
    outcome = run("score-masking", notes, "--model", tiny_checkpoint, "--model", other,
                  "--masking", "tokens,words,spans,terms", "--mask-rate", "0.15,0.4",
                  "--corruption", "80/10/10,100/0/0", "--terms", tmp_path / "terms.txt",
                  "--by", "domain", *COMMON)
    assert outcome.code == 0, outcome.err
    grid = itertools.product((str(tiny_checkpoint), str(other)),
                             ("tokens", "words", "spans", "terms"), (0.15, 0.4),
                             ("80/10/10", "100/0/0"))
    assert [(line["model"], line["masking"], line["mask_rate"], line["corruption"])
            for line in outcome.records if "model" in line] == list(grid)
    lines = outcome.records[:32]
    for line in lines:
        assert line["perplexity"] == pytest.approx(math.exp(line["nats_per_token"]), rel=1e-5)
        assert line["records"] == 3 and line["repeats"] == 2
        assert set(line["by"]["domain"]) == {"lungs", "heart"}
    first, second = lines[:16], lines[16:]
    assert [line["masked_tokens"] for line in first] == [line["masked_tokens"] for line in second]
    assert [line["perplexity"] for line in first] != [line["perplexity"] for line in second]
    compared = outcome.records[32:]
    assert [line["difference"] for line in compared] == pytest.approx(
        [one["nats_per_token"] - other["nats_per_token"]
         for one, other in zip(first, second, strict=True)], abs=2e-6)
    for line, one in zip(compared, first, strict=True):
        assert all(line[key] == one[key] for key in (
            "masking", "mask_rate", "corruption", "unit", "units", "records"))
        assert line["p"] == line["p_holm"] >= 0.25  # at least two of the 2^3 exchanges
