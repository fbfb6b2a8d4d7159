"""The next-sentence head against transformers' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    BertConfig,
    MegatronBertConfig,
    ModernBertConfig,
)

from bmtools.errors import CheckpointError
from bmtools.models.mlm import encode, masked_lm_loss
from bmtools.models.nsp_head import (
    FOLLOWS,
    RANDOM,
    NextSentenceHead,
    join_nsp_head,
    load_nsp_head,
)

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 40}
IGNORED = -100


@pytest.fixture(params=[BertConfig, MegatronBertConfig])
def whole(request: pytest.FixtureRequest) -> Any:
    """transformers' own model with both heads."""
    torch.manual_seed(0)
    model = AutoModelForPreTraining.from_config(request.param(**SMALL)).eval()
    for weight in model.cls.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


def parts_of(whole: Any) -> tuple[Any, NextSentenceHead]:
    model = AutoModelForMaskedLM.from_config(whole.config).eval()
    weights = whole.state_dict()
    model.load_state_dict({name: weights[name] for name in model.state_dict()})
    head = NextSentenceHead(32, seed=7)
    assert load_nsp_head(head, weights)
    return model, head


def batch() -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 60, (5, 18), generator=rng)
    attended = torch.arange(18) < torch.tensor([18, 12, 9, 18, 15])[:, None]
    asked = attended & (torch.rand(ids.shape, generator=rng) < 0.3)
    return {"ids": ids.where(attended, torch.tensor(0)), "attended": attended,
            "types": ((torch.arange(18) >= 6) & attended).long(),
            "labels": ids.where(asked, torch.tensor(IGNORED)),
            "relationships": torch.tensor([FOLLOWS, RANDOM, RANDOM, FOLLOWS, RANDOM])}


def test_the_loss_is_transformers_own(whole: Any) -> None:
    """The sum of both means, and its gradients, with the vocabulary met at masked places only."""
    given = batch()
    expected = whole(input_ids=given["ids"], attention_mask=given["attended"].long(),
                     token_type_ids=given["types"], labels=given["labels"],
                     next_sentence_label=given["relationships"]).loss
    expected.backward()
    model, head = parts_of(whole)
    states = encode(model, given["ids"], given["attended"], token_type_ids=given["types"])
    asked = given["labels"] != IGNORED
    masked, _ = masked_lm_loss(model, states[asked], given["labels"][asked])
    loss = masked / asked.sum() + head.cross_entropy_sum(states, given["relationships"]) / 5
    loss.backward()
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=0)
    theirs = {name: weight.grad for name, weight in whole.named_parameters()}
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, theirs[name], atol=1e-6, rtol=1e-4, msg=name)
    torch.testing.assert_close(head.pooler.weight.grad, theirs["bert.pooler.dense.weight"])
    torch.testing.assert_close(head.relationship.bias.grad, theirs["cls.seq_relationship.bias"])


def test_labels_are_bert_s() -> None:
    assert (FOLLOWS, RANDOM) == (0, 1)


def test_a_head_comes_from_its_seed_alone() -> None:
    torch.manual_seed(1)
    first = NextSentenceHead(64, seed=3).state_dict()
    torch.manual_seed(2)
    state = torch.get_rng_state()
    again, other = (NextSentenceHead(64, seed=seed).state_dict() for seed in (3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["pooler.weight"], other["pooler.weight"])
    assert torch.equal(torch.get_rng_state(), state), "the common generator is left alone"
    assert first["pooler.weight"].std().item() == pytest.approx(0.02, rel=0.05)
    assert not first["pooler.bias"].any() and not first["relationship.bias"].any()


@torch.inference_mode()
def test_saved_together_they_are_what_transformers_loads(whole: Any, tmp_path: Path) -> None:
    model, head = parts_of(whole)
    join_nsp_head(model, head).save_pretrained(tmp_path)
    again = AutoModelForPreTraining.from_pretrained(tmp_path, local_files_only=True).eval()
    given = batch()
    inputs = {"input_ids": given["ids"], "attention_mask": given["attended"].long(),
              "token_type_ids": given["types"]}
    torch.testing.assert_close(again(**inputs).seq_relationship_logits,
                               whole(**inputs).seq_relationship_logits)
    torch.testing.assert_close(again(**inputs).prediction_logits,
                               whole(**inputs).prediction_logits)
    read = NextSentenceHead(32)
    assert load_nsp_head(read, load_file(tmp_path / "model.safetensors"))
    assert torch.equal(read.relationship.weight, head.relationship.weight)


@pytest.mark.parametrize("width", [32, 64])
def test_a_checkpoint_without_a_fitting_head_changes_nothing(width: int) -> None:
    model = AutoModelForMaskedLM.from_config(BertConfig(**SMALL))
    head = NextSentenceHead(width)
    before = {name: weight.clone() for name, weight in head.state_dict().items()}
    weights = model.state_dict() if width == 32 else AutoModelForPreTraining.from_config(
        BertConfig(**SMALL)).state_dict()
    assert not load_nsp_head(head, weights)
    assert all(torch.equal(before[name], weight) for name, weight in head.state_dict().items())


def test_other_architectures_are_refused() -> None:
    model = AutoModelForMaskedLM.from_config(ModernBertConfig(
        **SMALL, pad_token_id=1, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3))
    with pytest.raises(CheckpointError, match="expected a BERT or Megatron-BERT"):
        join_nsp_head(model, NextSentenceHead(32))
