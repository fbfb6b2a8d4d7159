"""docs/scaling.md: its forecasts equal the forecasts of the command on the page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from document_blocks import ROOT
from transformers import BertTokenizer

from bmtools.io.output import encode_lines
from bmtools.training import microbatch
from bmtools.vocab.tokenizer import save_tokenizer

PAGE = (ROOT / "docs/scaling.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| (\d+) \| ([\d.]+), ([\d.]+), ([\d.]+) \| ([\d.]+), ([\d.]+), "
                 r"([\d.]+) \| (\d+), (\d+), (\d+) \|$", re.MULTILINE)


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, str]:
    """Return a vocabulary of BERT's size, and text that uses it, under the page's names."""
    words = [f"w{number}" for number in range(30_517)]
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    save_tokenizer(BertTokenizer(vocab={entry: number for number, entry in enumerate(entries)}),
                   tmp_path / "vocabulary")
    (tmp_path / "corpus.jsonl").write_bytes(encode_lines([
        {"id": f"r{number}", "text": " ".join(words[number:number + 250])}
        for number in range(2_000)]))
    return {name: str(tmp_path / name) for name in ("vocabulary", "corpus.jsonl")}


@pytest.mark.slow
@pytest.mark.parametrize("row", ROW.findall(PAGE), ids=lambda row: "-".join(row[:2]))
def test_forecasts_equal_the_output_of_the_command(run: Callable[..., Any], inputs: dict[str, str],
                                                   monkeypatch: pytest.MonkeyPatch,
                                                   row: tuple[str, ...]) -> None:
    monkeypatch.setattr(microbatch, "_MEASURED_TOKENS", 0)  # the page does not state memory
    length, cards, *figures = row
    found = re.search(r"^(bmtools pretrain (?:.*\\\n)*.*--device-kind.*)$", PAGE, re.MULTILINE)
    assert found is not None
    words = [inputs.get(word, word) for word in shlex.split(found[1].replace("\\\n", " "))[1:]]
    for option, value in (("--max-length", length), ("--processes", cards),
                          ("--batch-size", str(524_288 // int(length)))):
        words[words.index(option) + 1] = value
    outcome = run(*words)
    assert outcome.code == 0, outcome.err
    [line] = outcome.records
    [phase] = line["phases"]
    shares = [100 * share for share in phase["model_flop_utilisation"]]
    assert [*map(float, figures)] == pytest.approx([*line["hours"], *line["kwh"], *shares],
                                                   rel=0.04)


def test_the_page_has_rows_for_1_8_and_64_cards() -> None:
    assert [(int(row[0]), int(row[1])) for row in ROW.findall(PAGE)] == [
        (length, cards) for length in (128, 512) for cards in (1, 8, 64)]
