"""Architectures by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from toy_tokenizers import train_tokenizer

from bmtools.errors import BmtoolsError
from bmtools.models.architectures import (
    build_config,
    build_model,
    max_tokens,
)
from bmtools.models.mlm import encode
from bmtools.vocab.settings import VocabularyConfig

TOKENIZER = train_tokenizer(["il cuore pompa il sangue"] * 3,
                            VocabularyConfig(size=100, allow_fewer=True))
FAMILIES = ["bert-2x64", "roberta-2x64", "megatron-bert-2x64", "modernbert-4x64"]
# Published millions of weights, and how far off they may be. Turc et al. 2019, table 1, and
# Devlin et al. 2019 with 30,522 tokens: both count a pooler and a next-sentence head, which a
# masked language model does without. Liu et al. 2019: 50,265 tokens. Warner et al. 2024: 50,368.
MILLIONS = {
    ("bert-tiny", 30_522): (4.4, 0.01), ("bert-mini", 30_522): (11.3, 0.01),
    ("bert-small", 30_522): (29.1, 0.02), ("bert-medium", 30_522): (41.7, 0.01),
    ("bert-base", 30_522): (110, 0.01), ("bert-large", 30_522): (340, 0.02),
    ("roberta-base", 50_265): (125, 0.01), ("roberta-large", 50_265): (355, 0.01),
    ("modernbert-base", 50_368): (149, 0.01), ("modernbert-large", 50_368): (395, 0.01),
    # Weller et al. 2025 (Ettin), whose names are these numbers.
    ("modernbert-17m", 50_368): (17, 0.02), ("modernbert-32m", 50_368): (32, 0.02),
    ("modernbert-68m", 50_368): (68, 0.01),
    # BioMegatron's vocabularies: BERT's, cased and uncased, and its own with 50,000 tokens.
    ("megatron-bert-345m", 28_996): (345, 0.04), ("megatron-bert-345m", 30_522): (345, 0.03),
    ("megatron-bert-345m", 50_000): (345, 0.03),
    # "800m" is Megatron-LM's BERT of 752 million, pooler and next-sentence head included.
    ("megatron-bert-800m", 30_592): (752 - 1.6, 0.001),
    ("megatron-bert-1.2b", 30_522): (1200, 0.02),
}


class Vocabulary:
    """A vocabulary of a given size; the padding token has id 1, like in RoBERTa."""

    pad_token_id, bos_token_id, eos_token_id = 1, 0, 2
    cls_token_id, sep_token_id, mask_token_id = 0, 2, 4

    def __init__(self, size: int, padding: int = 1) -> None:
        self.size = size
        self.pad_token_id = padding

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize(("name", "tokens"), MILLIONS)
def test_models_have_the_published_sizes(name: str, tokens: int) -> None:
    expected, tolerance = MILLIONS[name, tokens]
    model = build_model(build_config(name, Vocabulary(tokens)), "meta")
    assert model.num_parameters() / 1e6 == pytest.approx(expected, rel=tolerance)


def test_modernbert_has_the_published_sizes() -> None:
    """Warner et al. 2024, table 4; the small ones as in Ettin's configurations."""
    for name, layers, width, heads, inner in (("modernbert-17m", 7, 256, 4, 384),
                                              ("modernbert-32m", 10, 384, 6, 576),
                                              ("modernbert-68m", 19, 512, 8, 768),
                                              ("modernbert-base", 22, 768, 12, 1152),
                                              ("modernbert-large", 28, 1024, 16, 2624)):
        config = build_config(name, Vocabulary(50_368))
        assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads,
                config.intermediate_size) == (layers, width, heads, inner)
        everywhere = [n for n, kind in enumerate(config.layer_types) if kind == "full_attention"]
        assert everywhere == list(range(0, layers, 3))
        assert config.local_attention == 128
        assert config.rope_parameters["full_attention"]["rope_theta"] == 160_000
        assert config.rope_parameters["sliding_attention"]["rope_theta"] == 10_000


@pytest.mark.parametrize("name", ["bert", "bert-0x64", "bert-2x65", "gpt-2x64", "roberta-2x0"])
def test_a_wrong_name_is_a_one_line_error(name: str) -> None:
    with pytest.raises(BmtoolsError, match=f"architecture: found '{name}'") as raised:
        build_config(name, TOKENIZER)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("tokenizer", [TOKENIZER, Vocabulary(60)])
def test_max_length_extends_positions(name: str, tokenizer: Any, one_thread: None) -> None:
    model = build_model(build_config(name, tokenizer, max_length=700))
    assert max_tokens(model) == max(700, 8192 if "modern" in name else 0)
    ids = torch.full((1, 700), 5)
    assert encode(model, ids, ids > 0).isfinite().all()


def test_roberta_rejects_a_padding_token_with_a_large_id() -> None:
    with pytest.raises(BmtoolsError, match="has id 50283; expected one below 1000"):
        build_config("roberta-base", Vocabulary(50_368, padding=50_283))
    build_config("modernbert-base", Vocabulary(50_368, padding=50_283))


@pytest.mark.parametrize("name", ["bert-1x64", "roberta-1x64", "megatron-bert-1x64"])
def test_positions_start_as_sinusoids(name: str) -> None:
    torch.manual_seed(0)
    config = build_config(name, Vocabulary(60))
    weight = build_model(config).base_model.embeddings.position_embeddings.weight.detach()
    if name.startswith("roberta"):
        assert not weight[1].any(), "padding has no position"
        weight = weight[2:]
    assert len(weight) == 512
    assert weight.std().item() == pytest.approx(0.02, rel=0.2)
    near, far = (torch.cosine_similarity(weight[:-d], weight[d:]) for d in (1, 30))
    assert near.std() < 1e-5, "likeness depends on distance alone"
    assert near.mean() > far.mean()


def deviations(model: Any) -> dict[str, float]:
    return {name: weight.std().item() for name, weight in model.named_parameters()
            if weight.ndim == 2}


@pytest.mark.parametrize(("name", "outputs"), [
    ("megatron-bert-8x256", ("attention.output.dense.weight", ".output.dense.weight")),
    ("modernbert-8x256", ("attn.Wo.weight", "mlp.Wo.weight"))])
def test_megatron_bert_scales_residual_outputs(name: str, outputs: tuple[str, ...]) -> None:
    """Shoeybi et al. 2020: 0.02 / sqrt(2 * layers) where a layer adds to the stream."""
    torch.manual_seed(0)
    found = deviations(build_model(build_config(name, Vocabulary(2_000))))
    layers = {key: value for key, value in found.items() if ".layer" in key}
    into_stream = {key for key in layers if key.endswith(outputs)}
    assert len(into_stream) == 16
    cut = 0.88 if name.startswith("modern") else 1.0  # its normal is cut off at two deviations
    for key, value in layers.items():
        expected = 0.02 / 4 if key in into_stream else 0.02
        assert value == pytest.approx(cut * expected, rel=0.03), key


def test_an_architecture_can_be_a_size_or_a_file(tmp_path: Path) -> None:
    config = build_config("bert-3x192", TOKENIZER)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (3, 192, 3)
    config.save_pretrained(tmp_path)
    again = build_config(str(tmp_path / "config.json"), TOKENIZER)
    assert (again.num_hidden_layers, again.vocab_size) == (3, len(TOKENIZER))
    assert again.pad_token_id == TOKENIZER.pad_token_id
