"""CTranslate2's format: logits of every family and head are those of transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from toy_models import tiny_config

from bmtools.errors import CheckpointError
from bmtools.export.export import Source, measure_difference, write_ctranslate2
from bmtools.export.graph import Graph
from bmtools.models.exported.model import HEAD, load_ctranslate2

pytestmark = pytest.mark.usefixtures("one_thread")
pytest.importorskip("ctranslate2")
HEADS = ("MaskedLM", "TokenClassification", "SequenceClassification", "QuestionAnswering")
IDS = [np.random.default_rng(0).integers(4, 60, length) for length in (5, 24, 9)]


@pytest.fixture
def differ(tmp_path: Path, large_weights: Callable[[Any], Any]) -> Callable[..., dict[str, float]]:
    """Write a model of a family with a head, and compare it with the original."""

    def measure(family: str, head: str, int8: bool = False, **changes: Any) -> dict[str, float]:
        config = tiny_config(family, num_labels=3 if head != "QuestionAnswering" else 2, **changes)
        auto = getattr(transformers, f"AutoModelFor{head}")
        model = large_weights(auto.from_config(config).eval())
        checkpoint: Any = SimpleNamespace(model=model, tokenizer=SimpleNamespace(pad_token_id=1))
        graph = Graph(checkpoint, f"AutoModelFor{head}")
        model.config.save_pretrained(tmp_path)
        source = Source(checkpoint, graph, (), int8)
        write_ctranslate2(source, tmp_path)
        return measure_difference(graph, load_ctranslate2(tmp_path, 1, 1), [graph.inputs(IDS, 1)])

    return measure


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", ["BERT", "RoBERTa", "XLM-R", "CamemBERT", "Megatron-BERT"])
def test_float32_logits_are_those_of_transformers(differ: Callable[..., Any], family: str,
                                                  head: str) -> None:
    assert differ(family, head)["max"] < 5e-5


@pytest.mark.parametrize("tied", [True, False])
def test_a_masked_lm_with_its_own_output_table(differ: Callable[..., Any], tied: bool) -> None:
    assert differ("BERT", "MaskedLM", tie_word_embeddings=tied)["max"] < 5e-5


def test_int8_is_near_and_small(differ: Callable[..., Any], tmp_path: Path) -> None:
    assert differ("BERT", "TokenClassification")["max"] < 5e-5
    exact = (tmp_path / HEAD).stat().st_size
    for path in (tmp_path / "encoder").iterdir():
        path.unlink()
    (tmp_path / "encoder").rmdir()
    found = differ("BERT", "TokenClassification", int8=True)
    assert 1e-4 < found["mean"] < 0.1
    assert found["cosine"] > 0.99
    assert (tmp_path / HEAD).stat().st_size < exact


def test_other_families_are_refused(differ: Callable[..., Any]) -> None:
    with pytest.raises(CheckpointError, match=r"modernbert: cannot run in CTranslate2, expected "
                       r"BERT.*; leave out format ctranslate2"):
        differ("ModernBERT", "MaskedLM")


def test_a_damaged_directory_is_named(differ: Callable[..., Any], tmp_path: Path) -> None:
    differ("BERT", "MaskedLM")
    (tmp_path / "encoder" / "model.bin").write_bytes(b"no model")
    with pytest.raises(CheckpointError, match=r"CTranslate2 could not load it.*export the model"):
        load_ctranslate2(tmp_path, 1, 1)


def test_segments_reach_the_encoder(differ: Callable[..., Any], tmp_path: Path) -> None:
    differ("BERT", "SequenceClassification")
    run = load_ctranslate2(tmp_path, 1, 1)
    ids = torch.arange(4, 14).numpy()[None]
    first, second = (run({"input_ids": ids, "attention_mask": np.ones_like(ids),
                          "token_type_ids": np.full_like(ids, segment)}) for segment in (0, 1))
    assert np.abs(first - second).max() > 0.01
