"""Architectures by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bmtools.errors import BmtoolsError
from bmtools.models.architectures import BERT_SIZES, build_config, build_model
from bmtools.vocab.settings import WordPieceSettings
from bmtools.vocab.wordpiece import learn

TOKENIZER = learn(["il cuore pompa il sangue"] * 3, WordPieceSettings(size=100))
# Turc et al. 2019 and Devlin et al. 2019, with 30,522 tokens and no pooler nor next-sentence head.
MILLIONS = {"bert-tiny": 4.4, "bert-mini": 11.2, "bert-small": 28.8, "bert-medium": 41.4,
            "bert-base": 109.5, "bert-large": 335.2}


@pytest.mark.parametrize("name", BERT_SIZES)
def test_sizes_are_the_published_ones(name: str) -> None:
    config = build_config(name, TOKENIZER)
    config.vocab_size = 30_522
    with torch.device("meta"):
        parameters = sum(p.numel() for p in build_model(config).parameters())
    assert parameters / 1e6 == pytest.approx(MILLIONS[name], rel=0.03)


def test_a_shape_and_a_file_are_architectures_too(tmp_path: Path) -> None:
    config = build_config("bert-3x192", TOKENIZER)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (3, 192, 3)
    config.save_pretrained(tmp_path)
    again = build_config(str(tmp_path / "config.json"), TOKENIZER)
    assert (again.num_hidden_layers, again.vocab_size) == (3, len(TOKENIZER))
    assert again.pad_token_id == TOKENIZER.pad_token_id


@pytest.mark.parametrize("name", ["bert", "bert-0x64", "bert-2x65", "gpt-2x64"])
def test_a_wrong_name_is_one_line(name: str) -> None:
    with pytest.raises(BmtoolsError, match=f"--architecture: found '{name}'"):
        build_config(name, TOKENIZER)


def test_positions_start_as_waves() -> None:
    torch.manual_seed(0)
    weight = build_model(build_config("bert-1x64", TOKENIZER)).bert.embeddings \
        .position_embeddings.weight
    assert weight.std().item() == pytest.approx(0.02, rel=0.2)
    near, far = (torch.cosine_similarity(weight[:-d], weight[d:]) for d in (1, 30))
    assert near.std() < 1e-5, "likeness depends on distance alone"
    assert near.mean() > far.mean()
