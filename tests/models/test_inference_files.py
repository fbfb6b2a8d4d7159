"""Models read without transformers compute the logits of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    CamembertConfig,
    DistilBertConfig,
    MegatronBertConfig,
    ModernBertConfig,
    RobertaConfig,
    XLMRobertaConfig,
)
from transformers.models.auto import modeling_auto

from bmtools.models.fast_encoder import InferenceModel
from bmtools.models.inference_files import read_inference_model

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL: dict[str, Any] = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 48, "max_position_embeddings": 40, "pad_token_id": 1,
    "initializer_range": 0.2}
MODERN = {**SMALL, "local_attention": 6, "global_attn_every_n_layers": 2, "bos_token_id": 2,
          "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
CONFIGS: dict[str, Callable[[], Any]] = {
    "bert": lambda: BertConfig(**SMALL),
    "bert, gelu_new, wide epsilon": lambda: BertConfig(**SMALL, hidden_act="gelu_new",
                                                       layer_norm_eps=0.1),
    "bert, own output table": lambda: BertConfig(**SMALL, tie_word_embeddings=False),
    "roberta": lambda: RobertaConfig(**SMALL | {"pad_token_id": 7}),
    "xlm-roberta": lambda: XLMRobertaConfig(**SMALL),
    "camembert": lambda: CamembertConfig(**SMALL),
    "megatron-bert": lambda: MegatronBertConfig(**SMALL),
    "modernbert": lambda: ModernBertConfig(**MODERN),
    "modernbert, biases": lambda: ModernBertConfig(
        **MODERN, attention_bias=True, mlp_bias=True, norm_bias=True, classifier_bias=True),
}
HEADS = {
    "AutoModelForMaskedLM": modeling_auto.AutoModelForMaskedLM,
    "AutoModelForTokenClassification": modeling_auto.AutoModelForTokenClassification,
    "AutoModelForSequenceClassification": modeling_auto.AutoModelForSequenceClassification}


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., tuple[Path, Any]]:
    def saved(config: Any, model_class: str = "AutoModelForMaskedLM") -> tuple[Path, Any]:
        with torch.random.fork_rng():
            torch.manual_seed(3)
            model = HEADS[model_class].from_config(config).eval()
            with torch.no_grad():  # biases are 0 at first, norms 1
                for weight in model.parameters():
                    weight += 0.1 * torch.randn_like(weight)
        model.save_pretrained(tmp_path)
        return tmp_path, model

    return saved


@pytest.mark.parametrize("model_class", HEADS)
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_transformers(save: Callable[..., tuple[Path, Any]], name: str,
                                   model_class: str) -> None:
    config = CONFIGS[name]()
    config.num_labels = 5
    directory, model = save(config, model_class)
    found = read_inference_model(directory, "cpu", model_class)
    assert isinstance(found, InferenceModel)
    ids = torch.randint(8, 60, (3, 30), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 17:] = mask[2, 5:] = 0
    ids[mask == 0] = config.pad_token_id
    batch = {"input_ids": ids, "attention_mask": mask}
    with torch.inference_mode():
        ours, theirs = found(**batch).logits, model(**batch).logits
        if ours.ndim == 3:
            ours, theirs = ours[mask.bool()], theirs[mask.bool()]
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)
        if getattr(config, "type_vocab_size", 0) > 1:
            batch["token_type_ids"] = (torch.arange(30) > 3).long().expand(3, 30)
            pairs, theirs_of_pairs = found(**batch).logits, model(**batch).logits
            assert not torch.allclose(pairs, found(ids, mask).logits)
            torch.testing.assert_close(pairs[0], theirs_of_pairs[0], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("config", "model_class"), [
    pytest.param(DistilBertConfig(vocab_size=60, dim=32, n_layers=1, n_heads=4, hidden_dim=48),
                 "AutoModelForMaskedLM", id="another family"),
    pytest.param(BertConfig(**SMALL, hidden_act="mish"), "AutoModelForMaskedLM",
                 id="an activation not known here"),
    pytest.param(ModernBertConfig(**MODERN, classifier_pooling="mean"),
                 "AutoModelForSequenceClassification", id="another pooling"),
    pytest.param(BertConfig(**SMALL), "AutoModelForTokenClassification", id="another head"),
])
def test_unknown_files_are_read_by_transformers(save: Callable[..., tuple[Path, Any]],
                                                config: Any, model_class: str) -> None:
    saved_as = "AutoModelForMaskedLM" if type(config) is BertConfig else model_class
    directory, _ = save(config, saved_as)
    assert read_inference_model(directory, "cpu", model_class) is None


@pytest.mark.parametrize("fault", ["missing", "untied", "torn", "rope", "relative"])
def test_files_in_other_formats_are_read_by_transformers(
        save: Callable[..., tuple[Path, Any]], fault: str) -> None:
    directory, _ = save(ModernBertConfig(**MODERN) if fault == "rope" else BertConfig(**SMALL))
    weights, config = directory / "model.safetensors", directory / "config.json"
    state, content = load_file(weights), json.loads(config.read_text())
    if fault == "missing":
        del state["bert.encoder.layer.1.output.dense.weight"]
        save_file(state, weights)
    elif fault == "untied":
        save_file({**state, "cls.predictions.decoder.weight": torch.zeros(60, 32)}, weights)
    elif fault == "torn":
        weights.write_bytes(weights.read_bytes()[:-10])
    elif fault == "rope":
        content["rope_parameters"]["full_attention"]["rope_type"] = "yarn"
        config.write_text(json.dumps(content))
    else:
        config.write_text(json.dumps({**content, "position_embedding_type": "relative_key"}))
    assert read_inference_model(directory, "cpu", "AutoModelForMaskedLM") is None


def test_older_configurations_of_modernbert(save: Callable[..., tuple[Path, Any]]) -> None:
    """transformers 4 wrote thetas and how often attention is global, not layers and rotations."""
    directory, model = save(ModernBertConfig(**MODERN))
    config = directory / "config.json"
    content = json.loads(config.read_text())
    thetas = content.pop("rope_parameters")
    content.pop("layer_types")
    content |= {"global_rope_theta": thetas["full_attention"]["rope_theta"],
                "local_rope_theta": thetas["sliding_attention"]["rope_theta"],
                "global_attn_every_n_layers": 2}
    config.write_text(json.dumps(content))
    found = read_inference_model(directory, "cpu", "AutoModelForMaskedLM")
    assert found is not None
    ids = torch.arange(8, 38)[None]
    with torch.inference_mode():
        torch.testing.assert_close(found(ids, torch.ones_like(ids)).logits, model(ids).logits,
                                   atol=2e-5, rtol=1e-4)
