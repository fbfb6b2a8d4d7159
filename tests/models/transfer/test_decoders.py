"""Encoders made of decoders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from bmtools.errors import BmtoolsWarning, CheckpointError
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint_files import check_base, check_masked_lm
from bmtools.models.mlm import encode
from bmtools.models.transfer.decoders import load_decoder

pytestmark = pytest.mark.usefixtures("one_thread")
CONFIGS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "llama": (LlamaConfig, {"tie_word_embeddings": True}),
    "llama with biases": (LlamaConfig, {"attention_bias": True, "mlp_bias": True, "head_dim": 12}),
    "qwen2": (Qwen2Config, {}),
    "mistral": (MistralConfig, {"sliding_window": 50}),
    "qwen3": (Qwen3Config, {})}
END = "<|endoftext|>"
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Save a random decoder: `save("llama", bos_token="<s>", ...)`."""

    def make(name: str, vocab_size: int = 300, **roles: str) -> Path:
        kind, changes = CONFIGS[name]
        config = kind(**{
            "vocab_size": vocab_size, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, **changes})
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.3)
        words = Tokenizer(models.BPE({token: number for number, token in enumerate(
            ["<s>", END, *LETTERS])}, []))
        words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        model.save_pretrained(tmp_path / name)
        PreTrainedTokenizerFast(tokenizer_object=words, **roles).save_pretrained(tmp_path / name)
        return tmp_path / name

    return make


@torch.no_grad()
@pytest.mark.filterwarnings("ignore::bmtools.errors.BmtoolsWarning")
@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "qwen3"])
def test_with_a_causal_mask_the_encoder_equals_the_decoder(save: Callable[..., Path],
                                                           name: str) -> None:
    directory = save(name, bos_token="<s>", eos_token=END)
    decoder = AutoModelForCausalLM.from_pretrained(directory).eval()
    encoder = load_decoder(directory).model
    ids = torch.randint(3, 258, (2, 40), generator=torch.Generator().manual_seed(1))
    seen = torch.ones_like(ids, dtype=torch.bool)
    expected = decoder.model(ids).last_hidden_state
    states = encode(encoder, ids, seen, causal=True)
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(encoder.lm_head(states)[..., :258],
                               decoder.lm_head(expected)[..., :258], atol=1e-5, rtol=0)
    assert (encode(encoder, ids, seen) - expected).abs().max() > 0.1
    assert max_tokens(encoder) == (50 if name == "mistral" else 64)


@torch.no_grad()
@pytest.mark.parametrize("vocab_size", [258, 300])
def test_missing_tokens_of_a_decoder_are_added_as_the_mean(save: Callable[..., Path],
                                                           vocab_size: int) -> None:
    """Whether there are spare rows for them or not; padding is never a token that ends a text."""
    directory = save("qwen2", vocab_size, eos_token=END, pad_token=END)
    with pytest.warns(BmtoolsWarning, match=r"has no <\|cls\|>, <\|pad\|>, <\|mask\|>; added"):
        made = load_decoder(directory)
    old = AutoModelForCausalLM.from_pretrained(directory)
    words = made.tokenizer
    assert (words.cls_token_id, words.sep_token_id, words.pad_token_id, words.mask_token_id) \
        == (258, 1, 259, 260)
    assert made.model.config.vocab_size == max(261, vocab_size)
    assert made.model.config.mask_token_id == 260 and made.model.config.pad_token_id == 259
    for now, before in ((made.model.get_input_embeddings(), old.get_input_embeddings()),
                        (made.model.get_output_embeddings(), old.get_output_embeddings())):
        assert torch.equal(now.weight[:258], before.weight[:258])
        mean = before.weight[:258].mean(0)
        torch.testing.assert_close(now.weight[258:261], mean.expand(3, -1), atol=1e-6, rtol=0)
    assert words("<|mask|>")["input_ids"] == [258, 260, 1]
    pair = words("<|mask|>", "<|mask|>")["input_ids"]
    assert pair == [258, 260, 1, 260, 1]


def test_decoders_with_other_layers_are_rejected(save: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match="found the decoder qwen3, whose layers EuroBERT does "
                                              "not have; expected llama, mistral, qwen2 or a"):
        check_base(save("qwen3", bos_token="<s>"))
    qwen = save("qwen2", bos_token="<s>")
    check_base(qwen)
    with pytest.raises(CheckpointError, match=r"found model_type 'qwen2'.*; bmtools init-weights "
                                              "makes some decoders one"):
        check_masked_lm(qwen)
