"""Translation by transformers, with models that memorized six sentences."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from bmtools.errors import CheckpointError
from bmtools.translation.engines.transformers_engine import (
    TransformersTranslator,
    batches_by_length,
)
from bmtools.translation.settings import EngineConfig

config = partial(EngineConfig, "transformers", "en", "it")


def test_translation_without_an_end_is_a_fault(marian: Path) -> None:
    """The model is made to repeat itself, and Marian's forced end does not hide this."""
    translator = TransformersTranslator(config(model=marian, beam_size=1))
    assert not translator.translate(["Fever is common."])[0].fault
    with torch.no_grad():
        translator._model.final_logits_bias[0, 0] = -1e9
    [translation] = translator.translate(["Fever is common."])
    assert "translation does not end" in translation.fault


def test_weights_come_from_safetensors_only(marian: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(marian, tmp_path / "model")
    torch.save({}, directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"expected config.json and model.safetensors"):
        TransformersTranslator(config(model=directory))


def test_batches_respect_the_token_limit_and_contain_every_index_once() -> None:
    batches = list(batches_by_length([3, 9, 1, 4, 4, 30], 12))
    assert batches == [[5], [1], [3, 4, 0], [2]]
    assert list(batches_by_length([], 12)) == []
