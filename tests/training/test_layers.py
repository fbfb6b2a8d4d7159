"""Depths in every family, against tables written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toy_models import tiny_config
from transformers import AutoModelForMaskedLM

from bmtools.errors import BmtoolsError
from bmtools.recipes.settings import FreezeConfig
from bmtools.training.layers import (
    freeze,
    frozen_names,
    layer_numbers,
    layerwise_lr_scales,
)

EXPECTED = {
    "BERT": {"bert.embeddings.word_embeddings.weight": 0, "bert.embeddings.LayerNorm.bias": 0,
             "bert.encoder.layer.0.attention.self.query.weight": 1,
             "bert.encoder.layer.2.output.LayerNorm.weight": 3,
             "cls.predictions.bias": 4, "cls.predictions.transform.dense.weight": 4},
    "RoBERTa": {"roberta.embeddings.position_embeddings.weight": 0,
                "roberta.encoder.layer.1.output.dense.weight": 2, "lm_head.dense.weight": 4},
    # The head comes first here, so the tied weight bears the decoder's name.
    "XLM-R": {"lm_head.decoder.weight": 0, "roberta.embeddings.LayerNorm.weight": 0,
              "roberta.encoder.layer.0.output.dense.weight": 1, "lm_head.bias": 4},
    "Megatron-BERT": {"bert.embeddings.word_embeddings.weight": 0,
                      "bert.encoder.layer.2.attention.ln.weight": 3, "bert.encoder.ln.weight": 4,
                      "cls.predictions.transform.LayerNorm.weight": 4},
    "ModernBERT": {"model.embeddings.tok_embeddings.weight": 0, "model.embeddings.norm.weight": 0,
                   "model.layers.0.attn.Wqkv.weight": 1, "model.layers.2.mlp.Wi.weight": 3,
                   "model.final_norm.weight": 4, "head.dense.weight": 4, "decoder.bias": 4},
    "DeBERTa": {"deberta.embeddings.word_embeddings.weight": 0,
                "deberta.encoder.rel_embeddings.weight": 0,
                "deberta.encoder.layer.1.attention.self.query_proj.weight": 2,
                "cls.predictions.transform.dense.weight": 4},
}


def build(family: str) -> Any:
    torch.manual_seed(0)
    more = {"relative_attention": True, "pos_att_type": ["p2c"]} if family == "DeBERTa" else {}
    return AutoModelForMaskedLM.from_config(tiny_config(family, **more))


@pytest.mark.parametrize("family", EXPECTED)
def test_depths_equal_the_table(family: str) -> None:
    model = build(family)
    found = layer_numbers(model)
    assert {name: found[name] for name in EXPECTED[family]} == EXPECTED[family]
    assert found.keys() == dict(model.named_parameters()).keys()
    assert set(found.values()) == {0, 1, 2, 3, 4}


def test_rates_fall_by_the_layer() -> None:
    found = layerwise_lr_scales(build("BERT"), 0.5)
    assert found["cls.predictions.bias"] == 1
    assert found["bert.encoder.layer.2.output.dense.weight"] == 0.5
    assert found["bert.encoder.layer.0.output.dense.weight"] == 0.125
    assert found["bert.embeddings.word_embeddings.weight"] == 0.0625
    assert set(layerwise_lr_scales(build("ModernBERT"), 1.0).values()) == {1.0}


@pytest.mark.parametrize("family", EXPECTED)
def test_low_layers_freeze_with_the_embeddings(family: str) -> None:
    model = build(family)
    frozen = frozen_names(model, FreezeConfig(2))
    assert frozen == {name for name, depth in layer_numbers(model).items() if depth <= 2}
    assert model.get_input_embeddings().weight in {
        weight for name, weight in model.named_parameters() if name in frozen}
    assert frozen_names(model, FreezeConfig()) == set()


def test_freezing_too_many_layers_is_an_error() -> None:
    assert frozen_names(build("BERT"), FreezeConfig(3))
    with pytest.raises(BmtoolsError, match="frozen_layers: found 4, but the model has 3 layers"):
        frozen_names(build("BERT"), FreezeConfig(4))


def test_unfreezing_keeps_weights_that_were_frozen_before() -> None:
    model = build("RoBERTa")
    inner = model.roberta.encoder.layer[0].output.dense
    inner.bias.requires_grad_(False)
    before = {name: weight.requires_grad for name, weight in model.named_parameters()}
    names = frozen_names(model, FreezeConfig(1))
    inner.weight.grad = torch.ones_like(inner.weight)
    frozen = freeze(model, names)
    assert {name for name, weight in model.named_parameters() if not weight.requires_grad} == names
    assert inner.weight.grad is None
    for weight in frozen:
        weight.requires_grad_(True)
    assert {name: weight.requires_grad for name, weight in model.named_parameters()} == before
