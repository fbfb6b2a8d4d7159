"""Checkpoint directories."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from toy_tokenizers import train_tokenizer
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bmtools.errors import CheckpointError
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import load_checkpoint, load_for_inference, save_checkpoint
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint, save_tokenizer


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tokenizer = train_tokenizer(["Il cuore pompa il sangue"] * 3,
                                VocabularyConfig(size=100, allow_fewer=True))
    model = build_model(build_config("bert-1x64", tokenizer))
    save_checkpoint(tmp_path / "m", model, tokenizer,
                    Manifest("pretrain", {}, fingerprint(tokenizer)))
    return tmp_path / "m"


def test_a_saved_checkpoint_is_loaded(saved: Path) -> None:
    checkpoint = load_checkpoint(saved)
    assert not checkpoint.model.training
    assert checkpoint.tokenizer.model_max_length == 512
    assert {path.name for path in saved.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        "vocab.txt", "bmtools.json"}


@pytest.mark.parametrize("load", [load_checkpoint, load_for_inference])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e36])
def test_weights_that_are_not_finite_are_rejected(saved: Path, load: Callable[[Path], Any],
                                                  value: float) -> None:
    weights = load_file(saved / "model.safetensors")
    weights["bert.encoder.layer.0.output.dense.bias"][3] = value
    save_file(weights, saved / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"weights of bert\.encoder\.layer\.0\.output\.dense"
                                              r"\.bias are not finite"):
        load(saved)


def test_a_swapped_tokenizer_is_rejected(saved: Path) -> None:
    save_tokenizer(train_tokenizer(["Il cuore pompa la linfa"] * 3,
                                   VocabularyConfig(size=100, allow_fewer=True)), saved)
    with pytest.raises(CheckpointError, match="use the tokenizer that it was made with"):
        load_checkpoint(saved)


def test_a_tokenizer_with_too_many_tokens_is_rejected(saved: Path) -> None:
    (saved / "bmtools.json").unlink()
    words = [f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in "lmnrs"]
    save_tokenizer(train_tokenizer([" ".join(words)] * 3,
                                   VocabularyConfig(size=300, allow_fewer=True)), saved)
    with pytest.raises(CheckpointError, match="put the model's own tokenizer there"):
        load_checkpoint(saved)


@pytest.mark.parametrize("special_tokens", ["bert", "roberta", "modernbert"])
@pytest.mark.parametrize(("architecture", "has_segments"), [
    ("bert-1x64", True), ("megatron-bert-1x64", True), ("roberta-1x64", False),
    ("modernbert-1x64", False)])
def test_transformers_runs_pairs_with_any_vocabulary(tmp_path: Path, architecture: str,
                                                     has_segments: bool,
                                                     special_tokens: Any) -> None:
    tokenizer = train_tokenizer(["Il cuore pompa il sangue"] * 3, VocabularyConfig(
        size=100, allow_fewer=True, special_tokens=special_tokens))
    save_checkpoint(tmp_path / "m", build_model(build_config(architecture, tokenizer)), tokenizer,
                    Manifest("pretrain", {}, fingerprint(tokenizer)))
    loaded = AutoTokenizer.from_pretrained(tmp_path / "m")
    pair = loaded("Il cuore", "il sangue", return_tensors="pt")
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "m")
    assert model(**pair).logits.isfinite().all()
    assert ("token_type_ids" in pair) == has_segments
    if has_segments:
        assert pair["token_type_ids"].max() == (special_tokens != "roberta")
    assert load_checkpoint(tmp_path / "m").vocabulary == fingerprint(tokenizer)
