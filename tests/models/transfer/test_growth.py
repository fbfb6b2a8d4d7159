"""Larger models made of smaller ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from toy_models import join_nsp_head, tiny_config
from transformers import AutoModelForMaskedLM

from bmtools.errors import BmtoolsError
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.transfer.growth import (
    grow,
    grow_head,
)

pytestmark = pytest.mark.usefixtures("one_thread")
IDS = torch.tensor([[2, 7, 30, 41, 9, 12, 13, 55, 3, 21, 3]])


@torch.no_grad()
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_a_multiple_of_the_width_has_the_same_logits(random_model: Any, tied: bool,
                                                     tmp_path: Path) -> None:
    random_model.config.tie_word_embeddings = tied
    base = AutoModelForMaskedLM.from_config(random_model.config).eval()
    base.load_state_dict(random_model.state_dict())
    for size in ("3x64", "3x96"):
        wider = grow(base, size)
        wider.save_pretrained(tmp_path / size)
        reloaded, report = AutoModelForMaskedLM.from_pretrained(
            tmp_path / size, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        config, old = reloaded.config, base.config
        assert config.hidden_size // config.num_attention_heads \
            == old.hidden_size // old.num_attention_heads
        assert config.intermediate_size / config.hidden_size \
            == old.intermediate_size / old.hidden_size
        torch.testing.assert_close(reloaded.eval()(IDS).logits, base(IDS).logits, atol=2e-5,
                                   rtol=0)


def test_copies_of_a_unit_get_different_gradients(random_model: Any) -> None:
    """Otherwise the larger model would stay as small as its base."""
    wider = grow(random_model, "3x64")
    logits = wider(IDS).logits
    torch.nn.functional.cross_entropy(logits[0], IDS[0]).backward()
    checked = set()
    for name, weight in wider.named_parameters():
        ending = ".".join(name.split(".")[-2:])
        units = {"dense.weight": weight.grad, "dense.bias": weight.grad,
                 "query.weight": weight.grad, "Wqkv.weight": weight.grad[:64],
                 "Wi.weight": weight.grad[:96], "word_embeddings.weight": weight.grad.t(),
                 "tok_embeddings.weight": weight.grad.t()}.get(ending)
        if units is not None:
            half = len(units) // 2
            first, second = units.roll(-(half // 2), 0).split(half)
            assert (first - second).norm() > 1e-3 * units.norm() > 0, name
            checked.add(ending)
    assert len(checked) > 2


@pytest.mark.parametrize(("family", "layers", "expected"), [
    ("BERT", 6, [0, 0, 1, 1, 2, 2]), ("Megatron-BERT", 4, [0, 1, 1, 2]),
    ("ModernBERT", 7, [0, 1, 0, 1, 2, 1, 2])])  # every other layer is global
def test_copies_follow_their_layers(family: str, layers: int,
                                    expected: list[int]) -> None:
    torch.manual_seed(0)
    base = AutoModelForMaskedLM.from_config(tiny_config(family)).eval()
    deeper = grow(base, f"{layers}x32")
    weights, old = dict(deeper.named_parameters()), dict(base.named_parameters())
    ending = "mlp.Wi.weight" if family == "ModernBERT" else "intermediate.dense.weight"
    own = [weight for name, weight in old.items() if name.endswith(ending)]
    found = [next(number for number, one in enumerate(own) if torch.equal(one, weight))
             for name, weight in weights.items() if name.endswith(ending)]
    assert found == expected
    if family == "ModernBERT":
        types = base.config.layer_types
        assert deeper.config.layer_types == [types[number % 2] for number in range(layers)]
        assert [types[number] for number in found] == deeper.config.layer_types


@torch.no_grad()
@pytest.mark.parametrize(("family", "size"), [
    ("Megatron-BERT", "5x32"), ("Megatron-BERT", "7x64"), ("ModernBERT", "8x32"),
    ("ModernBERT", "7x96"), ("BERT", "6x64"), ("RoBERTa", "5x32")])
def test_copies_of_layers_do_not_change_the_output_at_first(build: Any, family: str,
                                                            size: str) -> None:
    base = build(tiny_config(family))
    if family in ("BERT", "RoBERTa"):  # a norm without its own scale can be applied once more
        for name, weight in base.named_parameters():
            if "LayerNorm" in name and "encoder" in name:
                weight.fill_(float(name.endswith("weight")))
    deeper = grow(base, size)
    torch.testing.assert_close(deeper(IDS).logits, base(IDS).logits, atol=5e-5, rtol=0)
    assert all(weight.any() for name, weight in deeper.named_parameters()
               if name.endswith(("query.weight", "Wqkv.weight", "Wi.weight")))


@torch.no_grad()
def test_the_head_of_sentence_pairs_grows_with_the_model(build: Any) -> None:
    base, head = build(tiny_config("BERT")), NextSentenceHead(32, seed=4)
    head.pooler.bias.normal_(generator=torch.Generator().manual_seed(5))
    both = [join_nsp_head(*pair)(IDS).seq_relationship_logits for pair in (
        (base, head), (grow(base, "3x64"), grow_head(head, 64)))]
    torch.testing.assert_close(*both, atol=2e-6, rtol=0)


@pytest.mark.parametrize(("family", "size", "message"), [
    ("BERT", "3x30", "found 3x30, but the base is 3x32; expected more layers or greater width"),
    ("BERT", "2x64", "found 2x64, but the base is 3x32"),
    ("BERT", "3x32", "found 3x32, but the base is 3x32"),
    ("BERT", "3x36", "found 3x36, but the base has heads of 8; expected a width that is a mult"),
    ("BERT", "modernbert-base", "but the base is of the family bert; expected LAYERSxWIDTH or an"),
    ("DeBERTa", "6x64", "the base is of the family deberta-v2, expected one of bert, camembert")])
def test_sizes_that_do_not_fit_are_one_line_errors(family: str, size: str,
                                                   message: str) -> None:
    base = AutoModelForMaskedLM.from_config(tiny_config(family))
    with pytest.raises(BmtoolsError, match=message):
        grow(base, size)
