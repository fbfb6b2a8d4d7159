"""Matrices in eight bits through CTranslate2: the same weights, rounded."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_models import tiny_config
from transformers import AutoModelForMaskedLM, DistilBertConfig

from bmtools.errors import BmtoolsError, CheckpointError
from bmtools.models.int8 import Int8Encoder

pytestmark = pytest.mark.usefixtures("one_thread")
SEQUENCES, POSITIONS = torch.tensor([0, 0, 1, 3]), torch.tensor([29, 0, 7, 8])
IDS = torch.randint(4, 60, (4, 30), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def known(random_model: Any) -> Any:
    if random_model.config.model_type == "modernbert":
        pytest.skip("not known to this encoder")
    pytest.importorskip("ctranslate2")
    return random_model


def exact(model: Any) -> Tensor:
    with torch.inference_mode():
        return model.base_model(input_ids=IDS).last_hidden_state[SEQUENCES, POSITIONS]


def error(found: Tensor, expected: Tensor) -> float:
    return float(((found - expected).norm(dim=-1) / expected.norm(dim=-1)).max())


def test_float32_states_equal_transformers(known: Any) -> None:
    expected = exact(known)
    found = Int8Encoder(known, compute_type="float32").states_at(IDS, SEQUENCES, POSITIONS)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_int8_states_are_close(known: Any) -> None:
    expected = exact(known)
    encoder = Int8Encoder(known)
    assert encoder.implementation == "int8"
    assert 0 < error(encoder.states_at(IDS, SEQUENCES, POSITIONS), expected) < 0.05


def test_the_model_keeps_its_weights(known: Any) -> None:
    """CTranslate2 scales what it is given in place."""
    before = {name: weight.clone() for name, weight in known.state_dict().items()}
    Int8Encoder(known)
    after = known.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


@pytest.mark.parametrize("changes", [
    {"hidden_act": "gelu_new"}, {"hidden_act": "relu"}, {"num_hidden_layers": 1},
    {"layer_norm_eps": 0.1}], ids=str)
def test_variants_of_bert(build: Callable[[Any], Any], changes: dict[str, Any]) -> None:
    pytest.importorskip("ctranslate2")
    model = build(tiny_config("BERT", **changes))
    expected = exact(model)
    found = Int8Encoder(model, compute_type="float32").states_at(IDS, SEQUENCES, POSITIONS)
    # The tanh of CTranslate2 is not torch's to the last digit.
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_threads_share_an_encoder(known: Any) -> None:
    encoder = Int8Encoder(known, threads=2)
    expected = encoder.states_at(IDS, SEQUENCES, POSITIONS)
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda _: encoder.states_at(IDS, SEQUENCES, POSITIONS), range(8)):
            torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_temporary_files_are_removed(
        known: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Int8Encoder(known).states_at(IDS, SEQUENCES, POSITIONS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("config", "message"), [
    pytest.param(
        DistilBertConfig(vocab_size=60, dim=32, n_layers=2, n_heads=4, hidden_dim=48),
        "distilbert: cannot run in int8, expected BERT, RoBERTa, XLM-R, CamemBERT "
        "or Megatron-BERT; use precision float32", id="DistilBERT"),
    pytest.param(
        tiny_config("ModernBERT"),
        "modernbert: cannot run in int8, expected BERT, RoBERTa, XLM-R, CamemBERT "
        "or Megatron-BERT; use precision float32", id="ModernBERT"),
    pytest.param(
        tiny_config("BERT", hidden_act="mish"),
        "bert: cannot run in int8 with activation 'mish', expected gelu, "
        "gelu_python, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu, silu, swish; "
        "use precision float32", id="activation"),
])
def test_unsupported_models_are_refused(config: Any, message: str) -> None:
    pytest.importorskip("ctranslate2")
    with pytest.raises(CheckpointError) as refused:
        Int8Encoder(AutoModelForMaskedLM.from_config(config))
    assert str(refused.value) == message


def test_without_ctranslate2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(BmtoolsError, match=r"install .*\[ctranslate2\]'"):
        Int8Encoder(AutoModelForMaskedLM.from_config(tiny_config("BERT")))


def test_models_on_other_devices_are_refused() -> None:
    pytest.importorskip("ctranslate2")
    with pytest.raises(BmtoolsError, match="found a model on meta, expected cpu"):
        Int8Encoder(AutoModelForMaskedLM.from_config(tiny_config("BERT")).to("meta"))
