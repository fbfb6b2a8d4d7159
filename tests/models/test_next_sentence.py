"""Head of next-sentence prediction: saved and read back as transformers saves and reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from toy_models import tiny_config
from toy_tokenizers import train_tokenizer
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining

from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import save_checkpoint
from bmtools.models.next_sentence import NextSentenceHead, join_head, read_head
from bmtools.models.transfer.init_weights import init_weights
from bmtools.study.cards.card import write_cards
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint, save_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
FAMILIES = ["BERT", "Megatron-BERT"]


def tiny_model(family: str) -> Any:
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(tiny_config(family)).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_reads_the_saved_head(family: str, tmp_path: Path) -> None:
    model, head = tiny_model(family), NextSentenceHead(32, seed=1, std=0.5)
    join_head(model, head.state_dict()).save_pretrained(tmp_path)
    joined, report = AutoModelForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    assert joined.config.architectures == [type(joined).__name__]
    ids = torch.arange(5, 17)[None]
    found = joined.eval()(input_ids=ids)
    states = model.base_model(input_ids=ids).last_hidden_state
    torch.testing.assert_close(found.seq_relationship_logits, head(states))
    torch.testing.assert_close(found.prediction_logits, model(input_ids=ids).logits)
    alone, report = AutoModelForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    torch.testing.assert_close(alone.eval()(input_ids=ids).logits, model(input_ids=ids).logits)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_saved_by_transformers_is_read(family: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    joined = AutoModelForPreTraining.from_config(tiny_config(family))
    joined.save_pretrained(tmp_path)
    head = read_head(tmp_path, tiny_model(family))
    assert head is not None
    assert torch.equal(head.pooler.weight, joined.base_model.pooler.dense.weight)
    assert torch.equal(head.relationship.bias, joined.cls.seq_relationship.bias)


def test_a_new_vocabulary_keeps_the_head(tokenizer: Any, tmp_path: Path) -> None:
    """The card calls the checkpoint a masked language model, which it also is."""
    model, head = build_model(build_config("bert-2x64", tokenizer)), NextSentenceHead(64, seed=1)
    save_checkpoint(tmp_path / "base", join_head(model, head.state_dict()), tokenizer,
                    Manifest("test", {}, fingerprint(tokenizer)))
    write_cards(tmp_path / "base")
    card = (tmp_path / "base" / "README.md").read_text()
    assert "pipeline_tag: fill-mask" in card and "BertForPreTraining, 2 layers" in card
    assert "LABEL_0" not in card
    words = ["Il cuore pompa il sangue e la metformina."] * 3
    save_tokenizer(train_tokenizer(words, VocabularyConfig(size=100, allow_fewer=True)),
                   tmp_path / "words")
    init_weights(tmp_path / "base", tmp_path / "words", output=tmp_path / "start",
                 method="average")
    kept = read_head(tmp_path / "start", model)
    assert kept is not None
    assert all(torch.equal(value, kept.state_dict()[name])
               for name, value in head.state_dict().items())
