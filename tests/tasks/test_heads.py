from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, ModernBertConfig, RobertaConfig

from bmtools.errors import CheckpointError
from bmtools.io.manifest import Manifest
from bmtools.models.checkpoint import load_fine_tuned, max_tokens, save_checkpoint
from bmtools.tasks.heads import load_encoder, with_new_head
from bmtools.tasks.tagging import tag_documents
from bmtools.tasks.windows import cut_into_windows
from bmtools.vocab.tokenizer import fingerprint

LABELS = ["O", "B-X", "I-X"]
TEXTS = ["Il paziente ha l'ipertensione arteriosa, e (PKU). " * 9, "", "🧬 asma"]


def config(kind: str, tokenizer: Any) -> Any:
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2,
             "num_attention_heads": 2, "intermediate_size": 64,
             "pad_token_id": tokenizer.pad_token_id, "bos_token_id": tokenizer.cls_token_id,
             "eos_token_id": tokenizer.sep_token_id}
    if kind == "modernbert":
        return ModernBertConfig(**sizes, max_position_embeddings=128, local_attention=16,
                                cls_token_id=tokenizer.cls_token_id,
                                sep_token_id=tokenizer.sep_token_id)
    return RobertaConfig(**sizes, max_position_embeddings=66, type_vocab_size=1)


@pytest.fixture(params=["roberta", "modernbert"])
def checkpoint(request: pytest.FixtureRequest, tokenizers: dict[str, Any],
               tmp_path: Path) -> Path:
    """A random masked language model; pad_token_id is 0, so RoBERTa's positions start at 1."""
    tokenizer = tokenizers["bytes" if request.param == "modernbert" else "bytes-trimmed"]
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(config(request.param, tokenizer))
    save_checkpoint(tmp_path / "lm", model, tokenizer,
                    Manifest("test", {}, fingerprint(tokenizer)))
    return tmp_path / "lm"


def test_other_architectures_tag_and_come_back(checkpoint: Path, tmp_path: Path) -> None:
    loaded = load_encoder(checkpoint)
    original = AutoModelForMaskedLM.from_pretrained(checkpoint)
    model = with_new_head(loaded.model, LABELS, 0).eval()
    for name, value in original.base_model.state_dict().items():
        assert torch.equal(value, model.base_model.state_dict()[name])
    documents = list(cut_into_windows(loaded.tokenizer, TEXTS, max_tokens(model)))
    assert len(documents[0].windows) > 1
    found = list(tag_documents(model, loaded.tokenizer, documents, 2))
    assert [logs.shape for logs in found] == [(len(d.words), 3) for d in documents]

    save_checkpoint(tmp_path / "tagger", model, loaded.tokenizer,
                    Manifest("test", {}, loaded.vocabulary))
    again = load_fine_tuned(tmp_path / "tagger", "AutoModelForTokenClassification")
    assert again.model.config.id2label == dict(enumerate(LABELS))
    for before, after in zip(found, tag_documents(again.model, loaded.tokenizer, documents, 2),
                             strict=True):
        assert (before == after).all()


def test_windows_are_tagged_as_they_would_be_alone(checkpoint: Path) -> None:
    """Padding and neighbours in a batch change nothing; compared with transformers' own pass."""
    loaded = load_encoder(checkpoint)
    model = with_new_head(loaded.model, LABELS, 1).eval()
    documents = list(cut_into_windows(loaded.tokenizer, TEXTS, 40))
    found = list(tag_documents(model, loaded.tokenizer, documents, 8))
    place = 0
    for window in documents[0].windows:
        ids = [loaded.tokenizer.cls_token_id, *map(int, window.ids),
               loaded.tokenizer.sep_token_id]
        with torch.inference_mode():
            alone = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1).numpy()
        held = found[0][place:place + len(window.firsts)]
        assert held == pytest.approx(alone[window.firsts + 1], abs=1e-5)
        place += len(window.firsts)


def test_an_encoder_without_a_head_will_do(checkpoint: Path, tmp_path: Path) -> None:
    loaded = load_encoder(checkpoint)
    encoder = AutoModel.from_pretrained(checkpoint)
    save_checkpoint(tmp_path / "encoder", encoder, loaded.tokenizer,
                    Manifest("test", {}, loaded.vocabulary))
    first, second = (load_encoder(tmp_path / "encoder").model.state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_dropout_comes_back_after_tagging(checkpoint: Path) -> None:
    loaded = load_encoder(checkpoint)
    documents = list(cut_into_windows(loaded.tokenizer, TEXTS, 40))
    loaded.model.train()
    list(tag_documents(loaded.model, loaded.tokenizer, documents, 8))
    assert loaded.model.training


def test_a_foreign_tokenizer_is_refused(checkpoint: Path, tokenizers: dict[str, Any]) -> None:
    tokenizers["wordpiece"].save_pretrained(checkpoint)
    with pytest.raises(CheckpointError, match="tokenizer: found vocabulary"):
        load_encoder(checkpoint)
