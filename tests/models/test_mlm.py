"""A model in two parts equals the model in one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional
from toy_models import join_nsp_head, tiny_config
from transformers import (
    AutoModelForMaskedLM,
)

from bmtools.errors import CheckpointError
from bmtools.models.architectures import has_segment_embeddings
from bmtools.models.mlm import (
    _SummedLoss,
    encode,
    lm_head,
    masked_lm_loss,
)
from bmtools.models.next_sentence import NextSentenceHead

pytestmark = pytest.mark.usefixtures("one_thread")
IGNORED = -100


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(4, 60, (3, 20), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(20) < torch.tensor([20, 13, 7])[:, None]
    return ids.where(mask, torch.tensor(1)), mask


def masked_labels(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    rng = torch.Generator().manual_seed(2)
    masked = mask & (torch.rand(ids.shape, generator=rng) < 0.3)
    others = torch.randint(4, 60, ids.shape, generator=rng)
    return others.where(masked, torch.tensor(IGNORED))


def gradients(model: Any) -> dict[str, torch.Tensor]:
    found = {name: weight.grad.clone() for name, weight in model.named_parameters()
             if weight.grad is not None}
    model.zero_grad()
    return found


def same_gradients(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert any(value.abs().max() > 1e-3 for value in theirs.values())
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, atol=1e-6, rtol=1e-5, msg=name)


@torch.inference_mode()
def test_encoder_and_head_equal_the_whole_model(model: Any) -> None:
    ids, mask = batch()
    whole = model(input_ids=ids, attention_mask=mask.long()).logits
    states = encode(model, ids, mask)
    torch.testing.assert_close(lm_head(model)(states)[mask], whole[mask])
    torch.testing.assert_close(lm_head(model)(states[1, 4]), whole[1, 4])


@pytest.mark.parametrize("chunk", [1, 3, 5, None])
def test_chunked_loss_equals_loss_at_once(model: Any, chunk: int | None) -> None:
    """Loss, count and every gradient, against a plain computation over all positions."""
    ids, mask = batch()
    labels = masked_labels(ids, mask)
    masked = labels != IGNORED
    assert masked.sum() >= 10
    logits = lm_head(model)(encode(model, ids, mask)[masked])
    plain = functional.cross_entropy(logits, labels[masked], reduction="sum")
    (plain * 0.25).backward()
    theirs = gradients(model)
    targets = labels[masked]
    targets[::2] = logits.argmax(dim=-1)[::2]
    right = (logits.argmax(dim=-1) == targets).sum()
    with torch.no_grad():
        counted = masked_lm_loss(model, encode(model, ids, mask)[masked], targets, chunk)[1]
    assert counted == right > 0

    total, _ = masked_lm_loss(model, encode(model, ids, mask)[masked], labels[masked], chunk)
    (total * 0.25).backward()
    torch.testing.assert_close(total, plain)
    same_gradients(gradients(model), theirs)
    with torch.no_grad():
        quiet, _ = masked_lm_loss(model, encode(model, ids, mask)[masked], labels[masked], chunk)
    torch.testing.assert_close(quiet, plain)


def test_chunks_do_not_add_gradients_to_frozen_weights(model: Any) -> None:
    for weight in model.parameters():
        weight.requires_grad_(False)
    head = next(weight for name, weight in model.named_parameters()
                if name.startswith(("cls.", "lm_head.", "head.")) and weight.ndim == 2)
    head.requires_grad_(True)
    ids, mask = batch()
    total, _ = masked_lm_loss(model, encode(model, ids, mask)[mask], ids[mask], 4)
    total.backward()
    assert head.grad is not None and head.grad.abs().max() > 0
    assert sum(weight.grad is not None for weight in model.parameters()) == 1


def test_loss_of_extreme_logits_equals_torch() -> None:
    """Shares of 0, one that takes all, and equal ones."""
    logits = torch.randn(6, 9, generator=torch.Generator().manual_seed(0)) * 3
    logits[0] *= 200
    logits[1] = 1e4
    logits[2, 4] = -1e30
    labels = torch.tensor([int(logits[0].argmin()), 3, 4, 0, 1, 2])
    theirs = logits.clone().requires_grad_()
    expected = functional.cross_entropy(theirs, labels, reduction="sum")
    (expected / 3).backward()
    ours = logits.clone().requires_grad_()
    total, right = _SummedLoss.apply(ours.clone(), labels)
    (total / 3).backward()
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert right == 1 + sum(logits[place].argmax() == labels[place] for place in (0, 3, 4, 5))


def test_positions_after_the_labels_are_ignored() -> None:
    logits = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([1, 2, 4, 0])
    found = []
    for rows in (4, 7):
        own = logits[:rows].clone().requires_grad_()
        total, right = _SummedLoss.apply(own.clone(), labels)
        total.backward()
        found.append((total, right, own.grad))
    (few, few_right, few_grad), (many, many_right, many_grad) = found
    assert torch.equal(few, many) and torch.equal(few_right, many_right)
    assert torch.equal(many_grad[:4], few_grad) and not many_grad[4:].any()


@torch.inference_mode()
@pytest.mark.parametrize("causal", [False, True])
def test_inputs_embeds_replace_input_ids(model: Any, causal: bool) -> None:
    ids, mask = batch()
    embeddings = model.get_input_embeddings()(ids)
    torch.testing.assert_close(
        encode(model, ids, mask, causal, inputs_embeds=embeddings)[mask],
        encode(model, ids, mask, causal)[mask])
    changed = embeddings.clone()
    changed[0, 3] *= 2
    assert not torch.allclose(encode(model, ids, mask, inputs_embeds=changed)[0],
                              encode(model, ids, mask, inputs_embeds=embeddings)[0])


@torch.inference_mode()
def test_token_types_reach_models_with_segment_embeddings(model: Any) -> None:
    ids, mask = batch()
    types = (torch.arange(20) >= 5).long().expand(3, 20)
    if not hasattr(model.base_model.embeddings, "token_type_embeddings"):
        assert not has_segment_embeddings(model)
        with pytest.raises(CheckpointError, match="has no segment embeddings"):
            encode(model, ids, mask, token_type_ids=types)
        return
    whole = model.base_model(input_ids=ids, attention_mask=mask.long(),
                             token_type_ids=types).last_hidden_state
    found = encode(model, ids, mask, token_type_ids=types)
    torch.testing.assert_close(found[mask], whole[mask])
    assert not torch.allclose(found[0], encode(model, ids, mask)[0])
    torch.testing.assert_close(encode(model, ids, mask, token_type_ids=torch.zeros_like(ids)),
                               encode(model, ids, mask))


@torch.inference_mode()
def test_causal_states_ignore_later_tokens(model: Any) -> None:
    ids, mask = batch()
    before = encode(model, ids, mask, causal=True)
    changed = ids.clone()
    changed[:, 6] = 5 + (changed[:, 6] == 5)
    after = encode(model, changed, mask, causal=True)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6], after[:, 6])
    assert not torch.allclose(before[0, 7], after[0, 7])


@pytest.mark.parametrize("family", ["BERT", "Megatron-BERT"])
def test_nsp_loss_and_gradients_equal_transformers(family: str) -> None:
    """The sum of both means, and its gradients, with the head run at masked positions only."""
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(
        tiny_config(family, num_hidden_layers=2, pad_token_id=0)).eval()
    head = NextSentenceHead(32, seed=7, std=0.3)
    for weight in model.cls.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    joined = join_nsp_head(model, head)
    input_ids, mask = batch()
    labels = masked_labels(input_ids, mask)
    token_type_ids = ((torch.arange(20) >= 6) & mask).long()
    nsp_labels = torch.tensor([0, 1, 1])
    expected = joined(input_ids=input_ids, attention_mask=mask.long(), labels=labels,
                      token_type_ids=token_type_ids, next_sentence_label=nsp_labels).loss
    expected.backward()
    states = encode(model, input_ids, mask, token_type_ids=token_type_ids)
    masked = labels != IGNORED
    total, _ = masked_lm_loss(model, states[masked], labels[masked])
    loss = total / masked.sum() + functional.cross_entropy(head(states), nsp_labels)
    loss.backward()
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=0)
    theirs = {name: weight.grad for name, weight in joined.named_parameters()}
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, theirs[name], atol=1e-6, rtol=1e-4, msg=name)
    torch.testing.assert_close(head.pooler.weight.grad, theirs["bert.pooler.dense.weight"])
    torch.testing.assert_close(head.relationship.bias.grad, theirs["cls.seq_relationship.bias"])
