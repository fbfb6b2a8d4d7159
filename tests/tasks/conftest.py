"""Small tokenizers of several families, trained when needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from toy_models import save_random
from toy_tokenizers import train_tokenizer
from transformers import PreTrainedTokenizerFast

from bmtools.vocab.settings import VocabularyConfig

TEXTS = [
    "Il paziente ha l'ipertensione arteriosa, e (PKU). Caffe\u0301 naïve 🧬🧬 DNA β-catenina.",
    "Due casi di E. coli; dose 10.5 mg/dl!\nFenilchetonuria (PKU), diabete mellito?",
    "患者は糖尿病です。インスリンを使う。",
]
SENTENCES = ["il la paziente con dolore e febbre due caffe\u0301 asma artrosi infarto"] * 9
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
           "sep_token": "[SEP]", "mask_token": "[MASK]"}
FAMILIES = ("wordpiece", "uncased", "bytes-trimmed", "bytes", "metaspace")


def learn(family: str, texts: Sequence[str] = TEXTS, size: int = 0) -> Any:
    """Train a tokenizer; the five families differ in how they treat spaces and accents."""
    tokens = list(SPECIAL.values())
    if family in ("wordpiece", "uncased"):
        backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        folds = family == "uncased"
        backend.normalizer = normalizers.BertNormalizer(lowercase=folds, strip_accents=folds)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer: Any = trainers.WordPieceTrainer(
            vocab_size=size or 160, special_tokens=tokens, show_progress=False)
    elif family == "metaspace":
        backend = Tokenizer(models.Unigram())
        backend.normalizer = normalizers.NFKC()
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=120, special_tokens=tokens, unk_token="[UNK]", show_progress=False)
    else:
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=size or 330, special_tokens=tokens, show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    backend.train_from_iterator(texts, trainer)
    if family == "bytes-trimmed":
        backend.post_processor = processors.RobertaProcessing(
            ("[SEP]", 3), ("[CLS]", 2), trim_offsets=True)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL)


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Any]:
    """A tokenizer of each family, by name."""
    return {family: learn(family) for family in FAMILIES}


@pytest.fixture(params=FAMILIES)
def tokenizer(request: pytest.FixtureRequest, tokenizers: dict[str, Any]) -> Any:
    """Each family in turn."""
    return tokenizers[request.param]


@pytest.fixture(scope="session")
def pair_tokenizers() -> dict[str, Any]:
    """Tokenizers whose post-processors format pairs like three architectures, by name."""
    texts = [*TEXTS, *SENTENCES]
    roberta, modernbert = learn("bytes-trimmed", texts, 600), learn("bytes", texts, 600)
    modernbert.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    bert = train_tokenizer(texts, VocabularyConfig(size=200, allow_fewer=True))
    return {"bert": bert, "roberta": roberta, "modernbert": modernbert}


@pytest.fixture(scope="session", params=["bert", "roberta", "modernbert"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory,
               pair_tokenizers: dict[str, Any]) -> Path:
    """A masked language model of one layer with random weights, of each architecture."""
    return save_random(tmp_path_factory.mktemp("models") / request.param,
                       pair_tokenizers[request.param], f"{request.param}-1x64")


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory, pair_tokenizers: dict[str, Any]) -> Path:
    """A BERT model."""
    return save_random(tmp_path_factory.mktemp("models") / "bert", pair_tokenizers["bert"])
