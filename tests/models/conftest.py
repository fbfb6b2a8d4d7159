"""Tiny models of each family, with random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    BertConfig,
    MegatronBertConfig,
    ModernBertConfig,
    RobertaConfig,
    XLMRobertaConfig,
)

SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 40, "pad_token_id": 1}
CONFIGS = {
    "BERT": lambda: BertConfig(**SMALL),
    "RoBERTa": lambda: RobertaConfig(**SMALL),
    "XLM-R": lambda: XLMRobertaConfig(**SMALL),
    "Megatron-BERT": lambda: MegatronBertConfig(**SMALL),
    "ModernBERT": lambda: ModernBertConfig(
        **SMALL, local_attention=8, global_attn_every_n_layers=2, bos_token_id=2, eos_token_id=3,
        cls_token_id=2, sep_token_id=3, reference_compile=False),
}


@pytest.fixture(params=CONFIGS)
def model(request: pytest.FixtureRequest) -> Any:
    """A masked language model of each family."""
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(CONFIGS[request.param]()).eval()
