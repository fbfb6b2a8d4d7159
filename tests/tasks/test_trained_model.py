"""Embeddings of read tokens alone: the run is the same, and other rows decay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import bmtools
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import save_checkpoint
from bmtools.records import Record
from bmtools.tasks import seed_run
from bmtools.tasks.seed_run import PartialEmbedding
from bmtools.vocab.tokenizer import fingerprint

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = {"a": "due asma e la febbre", "b": "il cuore con artrosi"}
TRAIN = [Record(id=str(number), text=TEXTS[label], label=label)
         for number, label in enumerate("baaa" * 4)]
EMBEDDINGS = {"bert": "bert.embeddings.word_embeddings.weight",
              "roberta": "roberta.embeddings.word_embeddings.weight",
              "modernbert": "model.embeddings.tok_embeddings.weight"}


@pytest.mark.parametrize("family", EMBEDDINGS)
def test_the_run_is_that_of_the_whole_vocabulary(
        pair_tokenizers: dict[str, Any], tmp_path: Path, family: str,
        monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = pair_tokenizers[family]
    torch.manual_seed(0)
    save_checkpoint(tmp_path / "model", build_model(build_config(f"{family}-1x64", tokenizer)),
                    tokenizer, Manifest("test", {}, fingerprint(tokenizer)))
    found = []
    for output in ("partial", "whole"):
        lines: list[dict[str, Any]] = []
        bmtools.tasks.finetune(
            "classification", tmp_path / "model", TRAIN, TRAIN[:4], tmp_path / output,
            report=lines.append, seeds=1, epochs=2, batch_size=4, learning_rate=1e-3,
            weight_decay=5.0, max_length=32)
        found.append([line["loss"] for line in lines if "loss" in line])
        monkeypatch.setattr(seed_run, "read_tokens", lambda *_: None)
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    before, partial, whole = (load_file(tmp_path / name / "model.safetensors")
                              for name in ("model", "partial", "whole"))
    assert partial.keys() == whole.keys()
    for name, weight in whole.items():
        torch.testing.assert_close(partial[name], weight, rtol=1e-3, atol=1e-4)
    name = EMBEDDINGS[family]
    ratios = partial[name].norm(dim=1) / before[name].norm(dim=1)
    assert (ratios < 0.99).sum() > len(ratios) / 2  # unread rows shrink, as weight decay has it


def test_rows_are_found_by_their_numbers_in_the_whole() -> None:
    whole = torch.nn.Embedding(9, 4, padding_idx=2)
    partial = PartialEmbedding(whole, torch.tensor([2, 5, 7]))
    ids = torch.tensor([[7, 5, 2]])
    assert torch.equal(partial(ids), whole(ids))
    partial(ids).sum().backward()
    assert partial.weight.grad is not None
    assert partial.weight.grad.sum(dim=1).tolist() == [0, 4, 4]
    with pytest.raises(IndexError):
        partial(torch.tensor([[3]]))
