"""Families of models, scored like the forward pass of transformers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import save_checkpoint
from bmtools.models.families import MASKED_LM_FAMILIES
from bmtools.models.mlm import encode, lm_head
from bmtools.models.mlm import masked_lm_loss as mlm_loss
from bmtools.records import MASK
from bmtools.scoring.embedding_space import embedding_space
from bmtools.scoring.masked_lm_loss import masked_lm_loss
from bmtools.scoring.mrr import mrr
from bmtools.scoring.pppl import pppl
from bmtools.vocab.tokenizer import fingerprint

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["Il cuore pompa il sangue.", "La milza filtra la linfa.", "Il fegato regola il glucosio."]
SETTINGS: dict[str, dict[str, Any]] = {
    "convbert": {"embedding_size": 16}, "electra": {"embedding_size": 16},
    "albert": {"embedding_size": 16}, "longformer": {"attention_window": 8},
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 24},
    "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    "squeezebert": {"embedding_size": 32, **{f"{part}_groups": 1 for part in (
        "q", "k", "v", "post_attention", "intermediate", "output")}}}
OWN_HEAD = {"legacy": False}
RELATIVE = {**OWN_HEAD, "relative_attention": True, "pos_att_type": "c2p|p2c",
            "position_biased_input": False}
SCORED = [("distilbert", {}), ("albert", {}), ("electra", {}), ("deberta", {}),
          ("deberta", OWN_HEAD), ("deberta-v2", {}), ("deberta-v2", RELATIVE), ("eurobert", {})]


def tiny(family: str, vocabulary: int, **changes: Any) -> Any:
    """Make a random model with two layers of width 32."""
    settings = {"vocab_size": vocabulary, "hidden_size": 32, "num_hidden_layers": 2,
                "num_attention_heads": 2, "intermediate_size": 48, "max_position_embeddings": 40,
                "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "initializer_range": 0.3}
    if family not in CONFIG_MAPPING_NAMES:
        pytest.skip(f"this release of transformers has no {family}")
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(AutoConfig.for_model(
        family, **settings | SETTINGS.get(family, {}) | changes)).eval()


@pytest.fixture
def saved(tmp_path: Path, tokenizer: Any) -> Callable[..., Path]:
    """Save a tiny model of a family with the toy tokenizer."""

    def save(family: str, **changes: Any) -> Path:
        directory = tmp_path / family
        save_checkpoint(directory, tiny(family, len(tokenizer), **changes), tokenizer,
                        Manifest("test", {}, fingerprint(tokenizer)))
        return directory

    return save


@torch.inference_mode()
@pytest.mark.parametrize("family", sorted(MASKED_LM_FAMILIES))
def test_encoder_and_head_equal_the_complete_model(family: str) -> None:
    model = tiny(family, 60)
    ids = torch.randint(5, 60, (2, max_tokens(model)))
    whole = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    parts = lm_head(model)(encode(model, ids, torch.ones_like(ids, dtype=torch.bool)))
    torch.testing.assert_close(parts, whole)
    assert whole.std() > 0.1


def brute_force(directory: Path, tokenizer: Any) -> float:
    """Mask one token at a time in transformers' model, and average the losses."""
    model = AutoModelForMaskedLM.from_pretrained(directory).eval()
    losses = []
    for text in TEXTS:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        for position in range(1, ids.shape[1] - 1):
            masked = ids.clone()
            masked[0, position] = tokenizer.mask_token_id
            with torch.inference_mode():
                logits = model(input_ids=masked, attention_mask=torch.ones_like(ids)).logits
            losses.append(-logits[0, position].log_softmax(0)[ids[0, position]].item())
    return sum(losses) / len(losses)


@pytest.mark.parametrize(("family", "changes"), SCORED)
def test_gradients_of_heads_equal_the_complete_model( family: str, changes: dict[str, Any]) -> None:
    model = tiny(family, 60, **changes)
    ids = torch.randint(5, 60, (2, 20), generator=torch.Generator().manual_seed(0))
    masked = torch.arange(40).view(2, 20) % 3 == 1
    mask = torch.ones_like(ids)
    model(input_ids=ids, attention_mask=mask, labels=ids.where(masked, -100)).loss.backward()
    expected = {name: weight.grad.clone() for name, weight in model.named_parameters()
                if weight.grad is not None}
    model.zero_grad()
    # Chunks are small, so that gradients of the head are summed over several chunks.
    loss, _ = mlm_loss(model, encode(model, ids, mask.bool())[masked], ids[masked], chunk_size=3)
    (loss / masked.sum()).backward()
    found = {name: weight.grad for name, weight in model.named_parameters()
             if weight.grad is not None}
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("family", "changes"), SCORED)
def test_families_are_scored_by_all_measures(
        family: str, changes: dict[str, Any], saved: Callable[..., Path], tokenizer: Any) -> None:
    directory = saved(family, **changes)
    texts = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]
    [line] = pppl(texts, directory, device="cpu", workers=1)
    assert line["nats_per_token"] == pytest.approx(brute_force(directory, tokenizer), abs=1e-4)
    cloze = {"id": "1", "text": f"Il {MASK} pompa il sangue.", "target": "cuore"}
    [line] = mrr([cloze], directory, device="cpu", workers=1)
    assert 0 < line["probability"] < 1
    [line] = masked_lm_loss(texts, directory, device="cpu", workers=1, masking="tokens",
                            mask_rate="0.5", max_length=16, repeats=1)
    assert 0.5 < line["nats_per_token"] < 50
    [line] = embedding_space(texts * 4, directory, device="cpu", min_count=1, bands=2,
                             words_per_band=3, neighbours=2, resamples=0)
    assert math.isfinite(line["average_cosine"])


def test_debertas_head_is_identified_by_its_weights(saved: Callable[..., Path],
                                                    tokenizer: Any) -> None:
    directory = saved("deberta-v2", **RELATIVE)
    path = directory / "config.json"
    config = json.loads(path.read_text())
    right = brute_force(directory, tokenizer)
    del config["legacy"]  # as in Microsoft's checkpoints
    path.write_text(json.dumps(config))
    [line] = pppl([{"id": "1", "text": text} for text in TEXTS], directory, device="cpu")
    assert line["nats_per_token"] == pytest.approx(right, abs=1e-4)
