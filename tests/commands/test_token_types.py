"""Checkpoints whose model has one token type, and a vocabulary that numbers two segments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

Run = Callable[..., Any]
STEPS = ("--steps", 2, "--logging-steps", 2, "--max-length", 16, "--batch-size", 4)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def roberta(make_checkpoint: Callable[..., Path], tiny_tokenizer: Path) -> Path:
    """A RoBERTa with BERT's special tokens."""
    return make_checkpoint(tiny_tokenizer, "roberta-1x64")


@pytest.fixture
def built(make_tokenizer: Callable[..., Path]) -> Path:
    """Another vocabulary with BERT's special tokens."""
    return make_tokenizer("Il fegato filtra il sangue", "Il cuore pompa il sangue")


@pytest.mark.parametrize("command", [
    ("init-weights", "--base", "MODEL", "--tokenizer", "BUILT"),
    ("pretrain", "--architecture", "roberta-1x64", "--tokenizer", "BUILT", *STEPS),
    ("pretrain", "--model", "MODEL", *STEPS),
    ("distill", "--teacher", "MODEL", "--architecture", "roberta-1x64", *STEPS),
    ("distill", "--teacher", "MODEL", "--student", "MODEL", *STEPS)])
def test_transformers_runs_pairs_on_what_was_made(run: Run, corpus: Path, tmp_path: Path,
                                                  roberta: Path, built: Path,
                                                  command: tuple[object, ...]) -> None:
    paths = {"MODEL": roberta, "BUILT": built}
    outcome = run(*(paths.get(str(word), word) for word in command), corpus, "-o",
                  tmp_path / "out")
    assert outcome.code == 0, outcome.err
    pair = AutoTokenizer.from_pretrained(tmp_path / "out")("Il cuore", "il sangue",
                                                           return_tensors="pt")
    model = AutoModel.from_pretrained(tmp_path / "out")
    assert model.config.type_vocab_size == 1
    with torch.no_grad():
        assert model(**pair).last_hidden_state.isfinite().all()
