"""Documents end to end in one sequence have the states of separate documents."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from attention_kernels import attend, visible
from torch import Tensor
from toy_models import tiny_config
from transformers import AttentionInterface, AutoModelForMaskedLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from bmtools.errors import BmtoolsError
from bmtools.models import packed
from bmtools.models.architectures import max_tokens
from bmtools.models.documents import DocumentLengths
from bmtools.models.mlm import encode
from bmtools.models.packed import encode_packed, prepare_packed, self_check
from bmtools.models.varlen import attend_by_length

pytestmark = pytest.mark.usefixtures("one_thread")
CAUSAL = pytest.mark.parametrize("causal", [False, True], ids=["both-ways", "causal"])
WINDOWS = [(-1, -1), (-1, 0), (3, 3), (3, 0), (0, 0), (60, 60)]


@pytest.fixture
def ready(model: Any) -> Any:
    """A copy of the model that takes packed documents."""
    prepared = copy.deepcopy(model)
    prepare_packed(prepared)
    return prepared


def documents_for(model: Any) -> tuple[Tensor, Tensor]:
    """Documents of one token, of some, of equal length and as long as the model can take."""
    lengths = torch.tensor([5, 1, 1, 12, 12, max_tokens(model), 9])
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 60, (int(lengths.sum()),), generator=generator)
    ids[[2, 5, 10, 20]] = model.config.pad_token_id  # as of a text that contains <pad>
    return ids, lengths


def each_alone(model: Any, ids: Tensor, lengths: Tensor, causal: bool = False) -> Tensor:
    """States of separate documents, end to end."""
    return torch.cat([encode(model, part[None], torch.ones(1, len(part), dtype=torch.bool),
                             causal)[0] for part in ids.split(lengths.tolist())])


def gradients(model: Any, states: Tensor) -> dict[str, Tensor]:
    """Gradients of a weighted sum of states, by weight."""
    direction = torch.randn(states.shape, generator=torch.Generator().manual_seed(2))
    model.zero_grad()
    (states.float() * direction).sum().backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()
            if weight.grad is not None}


def assert_same_gradients(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    size = torch.cat([value.flatten() for value in expected.values()]).norm()
    for name, value in expected.items():
        torch.testing.assert_close(found[name] / size, value / size, atol=1e-5, rtol=0, msg=name)


@CAUSAL
def test_packed_documents_equal_separate_documents(model: Any, ready: Any, causal: bool) -> None:
    ids, lengths = documents_for(model)
    alone = each_alone(model, ids, lengths, causal)
    states = encode_packed(ready, ids, lengths, causal=causal)
    torch.testing.assert_close(states, alone, atol=1e-6, rtol=0)
    assert_same_gradients(gradients(ready, states), gradients(model, alone))


@CAUSAL
def test_heads_that_share_keys_and_values_are_packed(build: Callable[..., Any],
                                                     causal: bool) -> None:
    """As in decoders that became encoders."""
    model = build(tiny_config("EuroBERT", num_key_value_heads=2, attention_bias=True))
    ready = copy.deepcopy(model)
    prepare_packed(ready)
    ids, lengths = documents_for(model)
    torch.testing.assert_close(encode_packed(ready, ids, lengths, causal=causal),
                               each_alone(model, ids, lengths, causal), atol=1e-5, rtol=0)
    self_check(ready, ids, lengths, causal=causal)


@pytest.mark.parametrize("reach", [1, 4, 100])
@CAUSAL
def test_sliding_windows_of_any_size(reach: int, causal: bool) -> None:
    torch.manual_seed(0)
    config = tiny_config("ModernBERT", local_attention=2 * reach, global_attn_every_n_layers=3,
                         initializer_range=0.2)
    model = AutoModelForMaskedLM.from_config(config).eval()
    ids, lengths = documents_for(model)
    alone = each_alone(model, ids, lengths, causal)
    prepare_packed(model)
    states = encode_packed(model, ids, lengths, causal=causal)
    torch.testing.assert_close(states, alone, atol=1e-5, rtol=0)


@CAUSAL
def test_token_types_can_be_packed(model: Any, ready: Any, causal: bool) -> None:
    if model.config.model_type == "modernbert":
        pytest.skip("has no token types")
    ids, lengths = documents_for(model)
    types = torch.randint(0, 2, ids.shape, generator=torch.Generator().manual_seed(3))
    states = encode_packed(ready, ids, lengths, types, causal)
    if not causal:
        alone = torch.cat([
            model.base_model(input_ids=part[None], token_type_ids=kinds[None],
                             attention_mask=torch.ones_like(part)[None]).last_hidden_state[0]
            for part, kinds in zip(ids.split(lengths.tolist()), types.split(lengths.tolist()),
                                   strict=True)])
        torch.testing.assert_close(states, alone, atol=1e-6, rtol=0)
    assert not torch.allclose(states, encode_packed(ready, ids, lengths, causal=causal))
    self_check(ready, ids, lengths, types, causal)


@torch.no_grad()
def test_a_prepared_model_still_takes_padded_batches(model: Any, ready: Any) -> None:
    ids = torch.randint(4, 60, (3, 20), generator=torch.Generator().manual_seed(1))
    attention_mask = torch.arange(20) < torch.tensor([20, 13, 7])[:, None]
    for causal in (False, True):
        assert torch.equal(encode(ready, ids, attention_mask, causal)[attention_mask],
                           encode(model, ids, attention_mask, causal)[attention_mask])
    assert torch.equal(ready(input_ids=ids).logits, model(input_ids=ids).logits)


def set_attention_dropout(model: Any, probability: float) -> None:
    """Remove all dropout except for attention weights."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = probability if name.endswith("self.dropout") else 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = probability


def test_attention_dropout_is_only_on_in_training(ready: Any) -> None:
    ids, lengths = documents_for(ready)
    set_attention_dropout(ready, 0.3)
    at_rest = encode_packed(ready, ids, lengths)
    ready.train()
    torch.manual_seed(4)
    drawn = encode_packed(ready, ids, lengths)
    torch.manual_seed(4)
    assert torch.equal(drawn, encode_packed(ready, ids, lengths))
    assert not torch.allclose(drawn, at_rest)
    assert all(found.isfinite().all() for found in gradients(ready, drawn).values())


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_activations_have_equal_gradients(ready: Any, reentrant: bool) -> None:
    ids, lengths = documents_for(ready)
    set_attention_dropout(ready, 0.3)
    ready.train()
    torch.manual_seed(7)
    whole = gradients(ready, encode_packed(ready, ids, lengths))
    enable = getattr(ready, "activation_checkpointing_enable", None) \
        or ready.gradient_checkpointing_enable
    enable({"use_reentrant": reentrant})
    torch.manual_seed(7)
    states = encode_packed(ready, ids, lengths)
    encode_packed(ready, ids.flip(0), lengths.flip(0))  # no state is kept between calls
    assert_same_gradients(gradients(ready, states), whole)


def test_saved_files_equal_a_plain_model(
        model: Any, ready: Any, tmp_path: Path) -> None:
    ready.save_pretrained(tmp_path / "ready")
    model.save_pretrained(tmp_path / "plain")
    saved = {name: (tmp_path / name / "config.json").read_text() for name in ("ready", "plain")}
    assert json.loads(saved["ready"]) == json.loads(saved["plain"])
    assert "bmtools" not in saved["ready"]
    assert (tmp_path / "ready/model.safetensors").read_bytes() \
        == (tmp_path / "plain/model.safetensors").read_bytes()
    again = AutoModelForMaskedLM.from_pretrained(tmp_path / "ready").eval()
    assert again.config._attn_implementation == model.config._attn_implementation
    ids, lengths = documents_for(model)
    with torch.no_grad():
        torch.testing.assert_close(again(input_ids=ids[None, :20]).logits,
                                   model(input_ids=ids[None, :20]).logits, atol=0, rtol=0)
        torch.testing.assert_close(each_alone(again, ids, lengths),
                                   encode_packed(ready, ids, lengths), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("lengths", "message"), [
    ([], "at least one"), ([3, 0, 7], "1 token or more"), ([3, 4], "7 tokens in all, expected 10")])
def test_wrong_lengths_are_rejected(lengths: list[int], message: str) -> None:
    model = AutoModelForMaskedLM.from_config(tiny_config("BERT", num_hidden_layers=1))
    prepare_packed(model)
    with pytest.raises(ValueError, match=message):
        encode_packed(model, torch.arange(10), torch.tensor(lengths, dtype=torch.long))


@pytest.mark.parametrize("window", WINDOWS)
def test_attention_by_length_equals_a_mask_over_all_pairs(window: tuple[int, int]) -> None:
    lengths = torch.tensor([7, 7, 1, 13, 2, 2, 2, 60])
    generator = torch.Generator().manual_seed(0)
    found, expected = ([torch.randn(94, 2, 8, generator=generator.manual_seed(0 + part))
                        .requires_grad_() for part in range(3)] for _ in range(2))
    ours = attend_by_length(*found, lengths, 0.3, window)
    boundaries = DocumentLengths.of(lengths).boundaries
    theirs = attend(*expected, visible(boundaries, window), 0.3)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)
    direction = torch.randn(ours.shape, generator=generator)
    (ours * direction).sum().backward()
    (theirs * direction).sum().backward()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=0)


@CAUSAL
@pytest.mark.parametrize("precision", [None, torch.bfloat16], ids=["float32", "bfloat16"])
def test_self_check_passes_a_prepared_model(
        ready: Any, causal: bool, precision: torch.dtype | None) -> None:
    ready.train()
    before = ready.config._attn_implementation
    with torch.autocast("cpu", precision or torch.bfloat16, enabled=precision is not None):
        self_check(ready, *documents_for(ready), causal=causal)
    assert ready.training and ready.config._attn_implementation == before
    assert all(weight.grad is None for weight in ready.parameters())


Attention = Callable[..., tuple[Tensor, None]]


def leaks(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any,
          documents: Any = None, **rest: Any) -> tuple[Tensor, None]:
    """Attend across the whole sequence, as if it were one document."""
    return sdpa_attention_forward(module, query, key, value,
                                  mask if documents is None else None, **rest)


def looks_ahead(module: Any, *inputs: Any, documents: Any = None, **rest: Any) -> Any:
    """Keep documents apart and forget that each is read forwards."""
    both_ways = documents and replace(documents, causal=False)
    return packed._attention(module, *inputs, documents=both_ways, **rest)


def off_by_one(module: Any, *inputs: Any, documents: Any = None, **rest: Any) -> Any:
    """Let the second document begin one token early."""
    if documents is not None:
        first, second, *others = documents.lengths.tolist()
        lengths = torch.tensor([first - 1, second + 1, *others])
        documents = DocumentLengths.of(lengths, documents.boundaries.device, documents.causal)
    return packed._attention(module, *inputs, documents=documents, **rest)


def ignores_windows(module: Any, *inputs: Any, sliding_window: Any = None, documents: Any = None,
                    **rest: Any) -> Any:
    """See the whole document in every layer."""
    kept = sliding_window if documents is None else None
    return packed._attention(module, *inputs, sliding_window=kept, documents=documents, **rest)


def loses_gradients(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any,
                    **rest: Any) -> Any:
    """Give the right states and a wrong gradient."""
    return packed._attention(module, query, key, value.detach(), mask, **rest)


@pytest.mark.parametrize("precision", [None, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("attention", "causal", "message"), [
    (leaks, False, r"document \d+ changes when tokens it must not see change.*layout padded"),
    (leaks, True, "changes when tokens it must not see change"),
    (looks_ahead, True, "changes when tokens it must not see change"),
    (off_by_one, False, "document [12] changes when tokens it must not see change"),
    (loses_gradients, False, r"gradients of \S+ in packed and.* differ by.*layout padded"),
])
def test_self_check_catches(
        ready: Any, monkeypatch: pytest.MonkeyPatch, precision: torch.dtype | None,
        attention: Attention, causal: bool, message: str) -> None:
    if ready.config.model_type == "megatron-bert":
        pytest.skip("asks no interface; tested below")
    monkeypatch.setitem(AttentionInterface._global_mapping, packed.ATTENTION, attention)
    ids, lengths = documents_for(ready)
    with torch.autocast("cpu", precision or torch.bfloat16, enabled=precision is not None), \
            pytest.raises(BmtoolsError, match=message):
        self_check(ready, ids, lengths, causal=causal)


def test_self_check_catches_a_leak_in_megatron_bert(
        ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if ready.config.model_type != "megatron-bert":
        pytest.skip("goes through the interface; tested above")
    monkeypatch.setattr(packed, "varlen_attention", lambda *parts, **more: attend_by_length(
        *parts[:3], torch.tensor([len(parts[0])]), parts[4], (-1, -1)))
    with pytest.raises(BmtoolsError, match="changes when tokens it must not see change"):
        self_check(ready, *documents_for(ready))


def test_self_check_catches_windows_that_are_ignored(
        ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if ready.config.model_type != "modernbert":
        pytest.skip("has no windows")
    monkeypatch.setitem(AttentionInterface._global_mapping, packed.ATTENTION, ignores_windows)
    monkeypatch.setitem(packed._TOLERANCES, torch.float32, 1e-5)
    with pytest.raises(BmtoolsError, match="differs from the same document alone"):
        self_check(ready, *documents_for(ready))


def number_positions_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have positions not restart with each document."""
    made = DocumentLengths.of
    monkeypatch.setattr(DocumentLengths, "of", lambda *given: replace(
        made(*given), positions=torch.arange(int(given[0].sum()))))


def test_self_check_catches_positions_that_do_not_restart(
        ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if ready.config.model_type == "modernbert":
        pytest.skip("rotary positions are relative, so it does not matter where they begin")
    number_positions_through(monkeypatch)
    with pytest.raises(BmtoolsError, match="document 2 differs from the same document alone"):
        self_check(ready, torch.arange(4, 24), torch.tensor([8, 12]))


def blurry() -> Any:
    """A correct model whose states bf16 changes by a tenth, like states after 24 trained layers."""
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(tiny_config(
        "BERT", num_hidden_layers=6, initializer_range=0.8))
    prepare_packed(model)
    return model


def test_self_check_passes_a_model_that_bf16_blurs() -> None:
    """Both layouts are as far from float32, and that is further than the usual rounding."""
    model = blurry().eval()
    ids, lengths = torch.arange(4, 30), torch.tensor([5, 9, 12])
    exact = encode_packed(model, ids, lengths)
    with torch.autocast("cpu", torch.bfloat16):
        blurred = encode_packed(model, ids, lengths)
        assert packed._errors(blurred.float(), exact).max() > packed._TOLERANCES[torch.bfloat16]
        self_check(model, ids, lengths)
