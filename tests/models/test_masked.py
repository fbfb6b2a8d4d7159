"""A model in two parts equals the model in one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from bmtools.errors import CheckpointError
from bmtools.models.masked import encode, predict


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(4, 60, (3, 20), generator=torch.Generator().manual_seed(1))
    attended = torch.arange(20) < torch.tensor([20, 13, 7])[:, None]
    return ids.where(attended, torch.tensor(1)), attended


@torch.inference_mode()
def test_encoder_and_head_give_the_model_s_logits(model: Any) -> None:
    ids, attended = batch()
    whole = model(input_ids=ids, attention_mask=attended.long()).logits
    states = encode(model, ids, attended)
    torch.testing.assert_close(predict(model, states)[attended], whole[attended])
    torch.testing.assert_close(predict(model, states[1, 4]), whole[1, 4])


@torch.inference_mode()
def test_causal_states_do_not_see_what_comes_after(model: Any) -> None:
    ids, attended = batch()
    before = encode(model, ids, attended, causal=True)
    changed = ids.clone()
    changed[:, 6] = 5 + (changed[:, 6] == 5)
    after = encode(model, changed, attended, causal=True)
    torch.testing.assert_close(before[:, :6], after[:, :6])
    assert not torch.allclose(before[:, 6], after[:, 6])
    assert not torch.allclose(before[0, 7], after[0, 7])


@torch.inference_mode()
def test_causal_states_equal_those_of_the_text_cut_short(model: Any) -> None:
    ids, attended = batch()
    whole = encode(model, ids[:1], attended[:1], causal=True)
    short = encode(model, ids[:1, :9], attended[:1, :9], causal=True)
    torch.testing.assert_close(whole[:, :9], short, atol=1e-5, rtol=1e-5)


def test_an_unknown_head_is_named() -> None:
    with pytest.raises(CheckpointError, match="head of this architecture is not known"):
        predict(nn.Linear(2, 2), torch.zeros(1, 2))
