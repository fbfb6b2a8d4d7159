"""Weights on disk: they are read back unchanged, and no file remains."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from bmtools.io.failures import WriteError
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.offload import WeightsFile, offload


@pytest.fixture
def checkpoint(tokenizer: Any) -> Checkpoint:
    torch.manual_seed(0)
    model = build_model(build_config("bert-1x64", tokenizer))
    return Checkpoint(Path("bert"), model, tokenizer, "")


def test_copies_have_equal_weights_and_share_no_memory(checkpoint: Checkpoint,
                                                       tmp_path: Path) -> None:
    before = {name: value.clone() for name, value in checkpoint.model.state_dict().items()}
    ids = torch.tensor([[2, 7, 3]])
    expected = checkpoint.model.eval()(ids).logits
    emptied = offload(checkpoint, tmp_path / "new" / "output")
    assert all(weight.is_meta for weight in emptied.model.parameters())
    first, second = (emptied.copy_model() for _ in range(2))
    for name, value in first.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.equal(first(ids).logits, expected)
    tied = first.get_output_embeddings().weight
    assert tied is first.get_input_embeddings().weight
    with torch.no_grad():
        tied.zero_()
    assert torch.equal(second.get_input_embeddings().weight,
                       before["bert.embeddings.word_embeddings.weight"])
    assert not [*tmp_path.iterdir()]


def test_later_weights_replace_earlier_ones(tmp_path: Path) -> None:
    file = WeightsFile(tmp_path / "output")
    file.save([torch.arange(6.0), torch.tensor(True)])
    file.save([torch.arange(6.0) + 1, torch.tensor(False)])
    found = [torch.zeros(6), torch.tensor(True)]
    file.load(found)
    assert found[0].tolist() == [1, 2, 3, 4, 5, 6] and not found[1]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = WeightsFile(tmp_path / "output")

    class Full:
        def seek(self, _: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file, "_file", Full())
    with pytest.raises(WriteError, match=r"output: cannot be written \(no space left on device\)"):
        file.save([torch.zeros(1)])
