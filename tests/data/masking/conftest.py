"""Texts to mask, made up or real, and tokenizers of each family."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from bmtools.data.masking.corruption import TokenBatch
from bmtools.keyed_random import derive

SPECIAL = ["<s>", "</s>", "<mask>", "<pad>", "<unk>"]
FIRST, LAST, MASK, ORDINARY = 0, 1, 2, len(SPECIAL)
Sample = tuple[Sequence[int], Sequence[bool]]


@pytest.fixture(scope="session")
def lay() -> Callable[..., TokenBatch]:
    """Lay samples of ids and word starts side by side, each between its special tokens."""

    def side_by_side(samples: Sequence[Sample], seed: int = 0, numbers: Sequence[int] | None = None,
                     special: bool = True) -> TokenBatch:
        before, after = ([FIRST], [LAST]) if special else ([], [])
        ids = [[*before, *one, *after] for one, _ in samples]
        starts = [[*(True for _ in before), *one, *(True for _ in after)] for _, one in samples]
        flat = np.array([number for one in ids for number in one], dtype=np.int64)
        named = np.arange(len(samples)) if numbers is None else np.array(numbers)
        return TokenBatch(flat, np.array([s for one in starts for s in one], dtype=bool),
                          flat >= ORDINARY,
                          np.repeat(np.arange(len(ids)), [len(one) for one in ids]),
                          derive(seed, named))

    return side_by_side


@pytest.fixture(scope="session")
def made_up() -> list[Sample]:
    """Samples of 0 to 300 tokens in words of 1 to 9, with a special token inside some."""
    rng = np.random.default_rng(0)
    samples = []
    for number in range(60):
        length = int(rng.integers(0, 300)) if number % 10 else number // 10
        ids = rng.integers(ORDINARY, 200, size=length)
        ids[rng.random(length) < 0.01] = LAST
        samples.append((ids.tolist(), (rng.random(length) < rng.uniform(0.2, 1.0)).tolist()))
    return samples


@pytest.fixture(scope="session")
def long_words() -> list[Sample]:
    """Samples of 200 tokens in words of 1 to 8."""
    rng = np.random.default_rng(1)
    lengths = [rng.integers(1, 9, size=200) for _ in range(300)]
    starts = [np.concatenate([[True] + [False] * int(n - 1) for n in one])[:200] for one in lengths]
    return [(rng.integers(ORDINARY, 200, size=200).tolist(), one.tolist()) for one in starts]


def wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def byte_bpe() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_bpe_trimmed() -> Tokenizer:
    tokenizer = byte_bpe()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", LAST), ("<s>", FIRST))
    return tokenizer


def byte_bpe_template() -> Tokenizer:
    tokenizer = byte_bpe()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", FIRST), ("</s>", LAST)])
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


FAMILIES: dict[str, Callable[[], Tokenizer]] = {
    "WordPiece": wordpiece,
    "byte BPE, RobertaProcessing": byte_bpe_trimmed,
    "byte BPE, TemplateProcessing": byte_bpe_template,
    "Unigram, Metaspace": unigram,
}


@pytest.fixture(scope="session", params=FAMILIES)
def learn(request: pytest.FixtureRequest) -> Callable[[Sequence[str], int], Any]:
    """Learn a tokenizer, once for each family."""
    known: dict[tuple[int, int], Any] = {}

    def make(texts: Sequence[str], size: int) -> Any:
        if (len(texts), size) not in known:
            tokenizer = FAMILIES[request.param]()
            shared = {"vocab_size": size, "special_tokens": SPECIAL, "show_progress": False}
            kind = type(tokenizer.model).__name__
            trainer = {
                "WordPiece": lambda: trainers.WordPieceTrainer(**shared),
                "BPE": lambda: trainers.BpeTrainer(
                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **shared),
                "Unigram": lambda: trainers.UnigramTrainer(unk_token="<unk>", **shared)}[kind]()
            processor = tokenizer.post_processor
            tokenizer.train_from_iterator(texts, trainer)
            tokenizer.post_processor = processor
            known[len(texts), size] = tokenizer
        return known[len(texts), size]

    return make


@pytest.fixture(scope="session")
def read(data: Path) -> Callable[[str], list[str]]:
    """Read real texts: English abstracts, Italian clinical cases or Japanese sentences."""

    def texts(language: str) -> list[str]:
        if language == "ja":
            return (data / "ja/corpus/general-gsd.txt").read_text(encoding="utf-8").splitlines()
        if language == "it":
            source = (data / "it/corpus/native-clinical.jsonl").read_bytes()
        else:
            source = gzip.decompress(
                (data / "en/corpus/pubmed-case-reports.jsonl.gz").read_bytes())
        return [json.loads(line)["text"] for line in source.splitlines()[:300]]

    return texts
