"""Every architecture trains with every family of tokenizer, padded and packed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

pytestmark = pytest.mark.usefixtures("one_thread")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
ROLES = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>",
         "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}


def byte_pairs(texts: Iterable[str]) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made


def unigram(texts: Iterable[str]) -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=120, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False))
    return made


@pytest.mark.parametrize(("architecture", "make", "layout"), [
    ("roberta-1x64", byte_pairs, "packed"),
    ("roberta-1x64", unigram, "padded"),
    ("modernbert-2x64", byte_pairs, "padded"),
    ("modernbert-2x64", unigram, "packed"),
    ("megatron-bert-1x64", unigram, "packed"),
])
def test_it_trains_and_loads_in_transformers(
        run: Callable, corpus: Path, tmp_path: Path, architecture: str,
        make: Callable[[Iterable[str]], Tokenizer], layout: str) -> None:
    tokenizer = make(json.loads(line)["text"] for line in corpus.read_text().splitlines())
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ROLES).save_pretrained(
        tmp_path / "words")
    outcome = run("pretrain", corpus, "--architecture", architecture, "--tokenizer",
                  tmp_path / "words", "--layout", layout, "--max-length", 32, "--batch-size", 8,
                  "--steps", 40, "--set", "logging_steps=40", "--learning-rate", "3e-3",
                  "--set", "mask_replace_prob=1.0", "--set", "random_replace_prob=0.0", "-o",
                  tmp_path / "m")
    assert outcome.code == 0, outcome.err
    line = outcome.records[0]
    assert 0.15 < line["mask_rate"] < 0.3  # one word of five at least
    assert line["mlm_accuracy"] > 0.02 and line["loss"] < 5
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "m")
    assert model.config._attn_implementation in ("sdpa", "eager")
