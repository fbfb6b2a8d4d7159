"""The own forward pass gives the states of transformers at the asked places."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    BertConfig,
    CamembertConfig,
    DistilBertConfig,
    ElectraConfig,
    ModernBertConfig,
    RobertaConfig,
)

from bmtools.models import fast_encoder as swift
from bmtools.models.fast_encoder import FastReader, TransformersReader, extract_parts, make_reader

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 40, "pad_token_id": 1}
SPECIAL = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}


def draw(rows: int, tokens: int) -> Tensor:
    return torch.randint(4, 60, (rows, tokens), generator=torch.Generator().manual_seed(1))


def transformers_own(model: Any, ids: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    with torch.inference_mode():
        return model.base_model(input_ids=ids).last_hidden_state[rows, places]


def compare(model: Any, rows: list[int], places: list[int], ids: Tensor) -> None:
    asked = torch.tensor(rows), torch.tensor(places)
    expected = transformers_own(model, ids, *asked)
    reader = make_reader(model)
    assert reader.kind == "swift"
    found = reader.read(ids, *asked)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("rows", "places"), [
    pytest.param([0, 1, 2, 3], [0, 29, 7, 7], id="one place a row"),
    pytest.param([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 29, 3, 4, 4, 28, 0], id="two places a row"),
    pytest.param([0, 0, 0, 1, 3], [29, 0, 5, 7, 8], id="as many as it comes, or none"),
    pytest.param([2], [11], id="one row alone"),
    pytest.param([], [], id="nothing"),
])
def test_states_at_places_are_transformers_own(
        lively: Any, rows: list[int], places: list[int]) -> None:
    asked = torch.tensor(rows, dtype=torch.int64), torch.tensor(places, dtype=torch.int64)
    ids = draw(4, 30)
    expected = transformers_own(lively, ids, *asked)
    reader = make_reader(lively)
    assert reader.kind == "swift"
    torch.testing.assert_close(reader.read(ids, *asked), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("tokens", [1, 2, 5, 6, 20, 38])
def test_rows_of_any_length(lively: Any, tokens: int) -> None:
    """The window of ModernBERT is four tokens here: rows within it have no mask."""
    compare(lively, [0, 0, 1], [0, tokens - 1, tokens // 2], draw(2, tokens))


def test_one_row_is_a_batch(lively: Any) -> None:
    compare(lively, [0] * 9, list(range(9)), draw(1, 9))


def test_pieces_of_a_batch_make_no_difference(
        lively: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some pieces are asked nothing, and the last is shorter."""
    ids, rows = draw(7, 10), torch.tensor([0, 1, 1, 5, 6])
    places = torch.tensor([3, 0, 9, 4, 2])
    reader = make_reader(lively)
    whole = reader.read(ids, rows, places)
    for tokens in (1, 20, 30, 69):
        monkeypatch.setattr(swift, "_TOKENS_ON_CPU", tokens)
        torch.testing.assert_close(reader.read(ids, rows, places), whole, atol=1e-5, rtol=1e-5)


VARIANTS: dict[str, Callable[[], Any]] = {
    "gelu_new": lambda: BertConfig(**SMALL, hidden_act="gelu_new"),
    "relu": lambda: BertConfig(**SMALL, hidden_act="relu"),
    "silu": lambda: RobertaConfig(**SMALL, hidden_act="silu"),
    "one layer": lambda: BertConfig(**SMALL | {"num_hidden_layers": 1}),
    "one head": lambda: BertConfig(**SMALL | {"num_attention_heads": 1}),
    "wide epsilon": lambda: BertConfig(**SMALL, layer_norm_eps=0.1),
    "CamemBERT": lambda: CamembertConfig(**SMALL),
    "RoBERTa, padding at 7": lambda: RobertaConfig(**SMALL | {"pad_token_id": 7}),
    "ModernBERT, biases": lambda: ModernBertConfig(
        **SMALL, **SPECIAL, local_attention=6, global_attn_every_n_layers=2,
        attention_bias=True, mlp_bias=True, norm_bias=True),
    "ModernBERT, relu": lambda: ModernBertConfig(
        **SMALL, **SPECIAL, local_attention=6, hidden_activation="relu"),
    "ModernBERT, last layer local": lambda: ModernBertConfig(
        **SMALL | {"num_hidden_layers": 2}, **SPECIAL, local_attention=6),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_of_the_families(build: Callable[[Any], Any], variant: str) -> None:
    ids = draw(3, 25)
    ids[ids == 7] = 8
    compare(build(VARIANTS[variant]()), [0, 1, 1, 2], [24, 0, 13, 5], ids)


@pytest.mark.parametrize("config", [
    DistilBertConfig(vocab_size=60, dim=32, n_layers=2, n_heads=4, hidden_dim=48),
    ElectraConfig(**SMALL)], ids=["DistilBERT", "ELECTRA"])
def test_other_architectures_are_left_to_transformers(
        build: Callable[[Any], Any], config: Any) -> None:
    model = build(config)
    rows, places, ids = torch.tensor([0, 2, 2]), torch.tensor([3, 0, 24]), draw(3, 25)
    reader = make_reader(model)
    assert reader.kind == "transformers"
    torch.testing.assert_close(reader.read(ids, rows, places),
                               transformers_own(model, ids, rows, places))


def test_models_that_compute_otherwise_are_left_to_transformers(lively: Any) -> None:
    """What the plan does not see is changed, as a hook may do."""
    def hook(_: Any, __: Any, output: Any) -> None:
        output.last_hidden_state *= 1.001

    lively.base_model.register_forward_hook(hook)
    assert make_reader(lively).kind == "transformers"


@pytest.mark.parametrize("fault", ["reach", "rotation", "heads", "positions"])
def test_the_check_finds_faults(
        build: Callable[[Any], Any], fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One position, window or head off, and transformers reads."""
    family = BertConfig(**SMALL) if fault == "positions" else ModernBertConfig(
        **SMALL, **SPECIAL, local_attention=8, global_attn_every_n_layers=2)
    model = build(family)
    plan = extract_parts(model)
    assert plan is not None and make_reader(model).kind == "swift"
    if fault == "positions":
        plan.embed.places = plan.embed.places.roll(1, 0)  # type: ignore[attr-defined]
    elif fault == "reach":
        object.__setattr__(plan.layers[1], "reach", 5)
    elif fault == "heads":
        object.__setattr__(plan.layers[2], "heads", 2)
    else:
        object.__setattr__(plan.layers[1], "rotation", "full_attention")
    monkeypatch.setattr(swift, "extract_parts", lambda _: plan)
    assert make_reader(model).kind == "transformers"


def test_weights_lie_in_memory_once(lively: Any) -> None:
    before = {name: weight.clone() for name, weight in lively.state_dict().items()}
    make_reader(lively)
    after = lively.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    if lively.config.model_type != "modernbert":
        attention = lively.base_model.encoder.layer[0].attention.self
        storages = {part.weight.untyped_storage().data_ptr()
                    for part in (attention.query, attention.key, attention.value)}
        assert len(storages) == 1


def test_a_second_reader_of_a_model_reads_alike(lively: Any) -> None:
    ids, rows, places = draw(2, 12), torch.tensor([0, 1]), torch.tensor([3, 11])
    first, second = make_reader(lively), make_reader(lively)
    expected = first.read(ids, rows, places)
    assert torch.equal(second.read(ids, rows, places), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_under_autocast(lively: Any, dtype: torch.dtype) -> None:
    """As far from float32 as transformers' own pass is, or nearer."""
    asked, ids = (torch.tensor([0, 1, 1]), torch.tensor([3, 0, 24])), draw(2, 25)
    exact = transformers_own(lively, ids, *asked)
    with torch.autocast("cpu", dtype=dtype):
        theirs = TransformersReader(lively).read(ids, *asked).float()
    reader = make_reader(lively)
    with torch.autocast("cpu", dtype=dtype):
        ours = reader.read(ids, *asked).float()
    assert 0 < (ours - exact).norm() < 1.5 * (theirs - exact).norm()


def test_checks_ignore_autocast(lively: Any) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert make_reader(lively).kind == "swift"


def test_threads_share_a_reader(lively: Any) -> None:
    reader = make_reader(lively)
    work = [(draw(rows, tokens), torch.arange(rows), torch.arange(rows) % tokens)
            for rows, tokens in itertools.product((1, 3, 8), (2, 9, 33))] * 4
    expected = [reader.read(*batch) for batch in work]
    with ThreadPoolExecutor(3) as pool:
        for found, states in zip(pool.map(lambda batch: reader.read(*batch), work), expected,
                                 strict=True):
            torch.testing.assert_close(found, states, atol=1e-6, rtol=1e-5)


def test_nothing_global_is_drawn(lively: Any) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    assert isinstance(make_reader(lively), FastReader)
    assert torch.equal(torch.random.get_rng_state(), before)
