"""`bmtools convert`: the command that errors suggest, and its one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_error_suggests_convert(run: Any, tiny_checkpoint: Path, tmp_path: Path,
                                    monkeypatch: pytest.MonkeyPatch, corpus: Path) -> None:
    monkeypatch.chdir(tmp_path)
    pickled = tmp_path / "old model"
    pickled.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (pickled / name).write_bytes((tiny_checkpoint / name).read_bytes())
    weights = load_file(tiny_checkpoint / "model.safetensors")
    torch.save(weights, pickled / "pytorch_model.bin")
    refused = run("score-pppl", corpus, "--model", "old model")
    assert (refused.code, refused.err) == (1, (
        "bmtools: old model: no model.safetensors, but pytorch_model.bin, which can run code when "
        "it is loaded; to convert it safely, run: bmtools convert 'old model' -o "
        "'old model-converted'\n"))
    made = run("convert", "old model", "-o", "old model-converted")
    assert made.code == 0, made.err
    line = json.loads(made.out)
    assert (line["class"], line["left_out"]) == ("BertForMaskedLM", [])
    assert "wrote old model-converted: BertForMaskedLM" in made.err
    scores = [run("score-pppl", corpus, "--model", model) for model in
              (tiny_checkpoint, "old model-converted")]
    values = [[json.loads(text)["pppl"] for text in one.out.splitlines()] for one in scores]
    assert values[0] == values[1] and values[0]
    assert run("convert", "old model", "-o", "old model-converted").code == 1


def test_wrong_usage(run: Any, tmp_path: Path) -> None:
    wrong = run("convert", tmp_path, "-o", tmp_path / "new", "--casing", "lower")
    assert (wrong.code, "cased" in wrong.err) == (2, True)
    empty = run("convert", tmp_path, "-o", tmp_path / "new")
    assert (empty.code, empty.err.count("\n")) == (1, 1)
    assert "expected safetensors weights" in empty.err
