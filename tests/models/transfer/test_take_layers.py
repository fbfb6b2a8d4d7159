"""Students that start from some layers of a model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toy_models import tiny_config
from transformers import (
    AutoModelForMaskedLM,
)

from bmtools.errors import BmtoolsError
from bmtools.models.transfer.take_layers import take_layers, taken_layers
from bmtools.training.layers import encoder_layers


@pytest.mark.parametrize(("layers", "depth", "expected"), [
    ("even", 12, [0, 2, 4, 6, 8, 10]), ("even", 5, [0, 2, 4]), ("6", 12, [0, 2, 4, 7, 9, 11]),
    ("1", 12, [0]), ("12", 12, list(range(12))), ("0,3,11", 12, [0, 3, 11])])
def test_layers_are_numbered_from_0(layers: str, depth: int, expected: list[int]) -> None:
    """6 of 12 are the layers in DistilBERT's published script."""
    assert taken_layers(layers, depth) == expected


@pytest.mark.parametrize(("layers", "message"), [
    ("13", "found 13, expected 1 to 12, the number of layers"),
    ("0", "found 0, expected 1 to 12, the number of layers"),
    ("0,12", "found 0,12, but the 12 layers have the numbers 0 to 11"),
    ("2,2", "found 2,2, expected even, a number of layers, or rising numbers from 0 such as 0,2,4"),
    ("odd", "found odd, expected even, a number of layers, or rising numbers from 0 such as 0,2,4"),
])
def test_missing_layers_are_rejected(layers: str, message: str) -> None:
    with pytest.raises(BmtoolsError) as raised:
        taken_layers(layers, 12)
    assert str(raised.value) == f"take_layers: {message}"


@torch.no_grad()
def test_a_student_is_its_teacher_with_layers_left_out(random_model: Any) -> None:
    """Embeddings, layers and head are copied from the teacher; the other layer is skipped."""
    ids = torch.arange(5, 50).reshape(3, 15)
    mask = torch.ones_like(ids, dtype=torch.bool)
    student = take_layers(random_model, "0,2")
    assert student.config.num_hidden_layers == 2
    before = {name: weight.clone() for name, weight in random_model.state_dict().items()}
    layers = encoder_layers(random_model)
    in_tuple = random_model.config.model_type == "megatron-bert"
    layers[1].forward = lambda states, *_, **__: (states,) if in_tuple else states
    expected = random_model(input_ids=ids, attention_mask=mask.long()).logits
    torch.testing.assert_close(
        student(input_ids=ids, attention_mask=mask.long()).logits, expected)
    assert all(torch.equal(weight, random_model.state_dict()[name])
               for name, weight in before.items())


def test_modernberts_first_layer_is_required() -> None:
    model = AutoModelForMaskedLM.from_config(tiny_config("ModernBERT"))
    with pytest.raises(BmtoolsError, match=r"^take_layers: found 1,2, but a first layer does not "
                                           r"have model\.layers\.1\.attn_norm\.weight, which "
                                           r"layer 1 has; add layer 0$"):
        take_layers(model, "1,2")


@torch.no_grad()
def test_modernberts_layers_keep_their_kind_of_attention() -> None:
    """The second layer stays global; in a new model it is local."""
    model = AutoModelForMaskedLM.from_config(tiny_config("ModernBERT", num_hidden_layers=5))
    student = take_layers(model, "0,2,3")
    assert student.config.layer_types == [model.config.layer_types[n] for n in (0, 2, 3)]
    assert student.config.layer_types != AutoModelForMaskedLM.from_config(
        tiny_config("ModernBERT")).config.layer_types


