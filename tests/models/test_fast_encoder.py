"""Our forward pass computes the same states as transformers at the given positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_models import tiny_config

from bmtools.models import fast_encoder
from bmtools.models.fast_encoder import TransformersEncoder, make_encoder, weights_of

pytestmark = pytest.mark.usefixtures("one_thread")


def draw(sequences: int, tokens: int) -> Tensor:
    return torch.randint(4, 60, (sequences, tokens), generator=torch.Generator().manual_seed(1))


def transformers_own(model: Any, ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
    with torch.inference_mode():
        return model.base_model(input_ids=ids).last_hidden_state[sequences, positions]


def compare(model: Any, sequences: list[int], positions: list[int], ids: Tensor) -> None:
    queries = torch.tensor(sequences), torch.tensor(positions)
    expected = transformers_own(model, ids, *queries)
    encoder = make_encoder(model)
    assert encoder.implementation == "fast"
    found = encoder.states_at(ids, *queries)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("sequences", "positions"), [
    pytest.param([0, 1, 2, 3], [0, 29, 7, 7], id="one query each"),
    pytest.param([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 29, 3, 4, 4, 28, 0], id="two queries each"),
    pytest.param([0, 0, 0, 1, 3], [29, 0, 5, 7, 8], id="as many as it comes, or none"),
    pytest.param([2], [11], id="one sequence alone"),
    pytest.param([], [], id="nothing"),
])
def test_states_at_positions_equal_transformers(
        random_model: Any, sequences: list[int], positions: list[int]) -> None:
    queries = torch.tensor(sequences, dtype=torch.int64), torch.tensor(positions, dtype=torch.int64)
    ids = draw(4, 30)
    expected = transformers_own(random_model, ids, *queries)
    encoder = make_encoder(random_model)
    assert encoder.implementation == "fast"
    torch.testing.assert_close(encoder.states_at(ids, *queries), expected, atol=1e-5, rtol=1e-5)


def test_padding_tokens_in_a_text_have_the_positions_of_transformers(random_model: Any) -> None:
    ids, padding = draw(3, 12), random_model.config.pad_token_id
    ids[0, 4] = ids[1, 0] = ids[1, 7] = ids[1, 8] = padding
    compare(random_model, [0, 0, 1, 1, 1, 2], [3, 11, 0, 8, 11, 5], ids)


def test_states_do_not_depend_on_chunks(
        random_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some chunks have no queries, and the last is shorter."""
    ids, sequences = draw(7, 10), torch.tensor([0, 1, 1, 5, 6])
    positions = torch.tensor([3, 0, 9, 4, 2])
    encoder = make_encoder(random_model)
    whole = encoder.states_at(ids, sequences, positions)
    for tokens in (1, 20, 30, 69):
        monkeypatch.setattr(fast_encoder, "_TOKENS_ON_CPU", tokens)
        torch.testing.assert_close(encoder.states_at(ids, sequences, positions), whole, atol=1e-5,
                                   rtol=1e-5)


VARIANTS = {
    "gelu_new": tiny_config("BERT", hidden_act="gelu_new"),
    "relu": tiny_config("BERT", hidden_act="relu"),
    "silu": tiny_config("RoBERTa", hidden_act="silu"),
    "one layer": tiny_config("BERT", num_hidden_layers=1),
    "one head": tiny_config("BERT", num_attention_heads=1),
    "wide epsilon": tiny_config("BERT", layer_norm_eps=0.1),
    "CamemBERT": tiny_config("CamemBERT"),
    "RoBERTa, padding at 7": tiny_config("RoBERTa", pad_token_id=7),
    "ModernBERT, biases": tiny_config("ModernBERT", local_attention=6, attention_bias=True,
                                      mlp_bias=True, norm_bias=True),
    "ModernBERT, relu": tiny_config("ModernBERT", local_attention=6, global_attn_every_n_layers=3,
                                    hidden_activation="relu"),
    "ModernBERT, last layer local": tiny_config("ModernBERT", num_hidden_layers=2,
                                                local_attention=6),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_of_the_families(build: Callable[[Any], Any], variant: str) -> None:
    ids = draw(3, 25)
    ids[ids == 7] = 8
    compare(build(VARIANTS[variant]), [0, 1, 1, 2], [24, 0, 13, 5], ids)


@pytest.mark.parametrize("fault", ["sliding_window", "rotary", "heads", "positions"])
def test_wrong_weights_fall_back_to_transformers(
        build: Callable[[Any], Any], fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One position, window or head off, and transformers reads."""
    model = build(tiny_config("BERT" if fault == "positions" else "ModernBERT"))
    weights = weights_of(model)
    assert weights is not None and make_encoder(model).implementation == "fast"
    if fault == "positions":
        weights.embed.positions = weights.embed.positions.roll(1, 0)
    elif fault == "sliding_window":
        object.__setattr__(weights.layers[1], "sliding_window", 5)
    elif fault == "heads":
        object.__setattr__(weights.layers[2], "heads", 2)
    else:
        object.__setattr__(weights.layers[1], "rotary", "full_attention")
    monkeypatch.setattr(fast_encoder, "weights_of", lambda _: weights)
    assert make_encoder(model).implementation == "transformers"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_under_autocast(random_model: Any, dtype: torch.dtype) -> None:
    """As far from float32 as transformers' own pass is, or nearer."""
    queries, ids = (torch.tensor([0, 1, 1]), torch.tensor([3, 0, 24])), draw(2, 25)
    exact = transformers_own(random_model, ids, *queries)
    with torch.autocast("cpu", dtype=dtype):
        theirs = TransformersEncoder(random_model).states_at(ids, *queries).float()
    encoder = make_encoder(random_model)
    with torch.autocast("cpu", dtype=dtype):
        ours = encoder.states_at(ids, *queries).float()
    assert 0 < (ours - exact).norm() < 1.5 * (theirs - exact).norm()
