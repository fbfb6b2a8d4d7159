"""Packed documents against padded batches: `pytest --benchmark-enable -s tests/benchmarks`.

Both run forward and backward over the same documents, which the sampler of training batches by
length. Without that option each runs once on little input, and only their agreement is checked.
"""

from __future__ import annotations

import copy
import gzip
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from bmtools.models.mlm import encode as encode_padded
from bmtools.models.packed import encode_packed, prepare_packed
from bmtools.tasks.batches import shuffle_batches
from bmtools.vocab.encoding import encode
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.trainers import train_tokenizer

_ROUNDS = 3
_VOCABULARY = 4_000


@pytest.fixture(scope="module")
def texts(data: Path) -> list[str]:
    """Abstracts in English."""
    path = data / "en/corpus/pubmed-drug-reviews.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line)["text"] for line in itertools.islice(stream, 600)]


def padded(model: Any, documents: list[Tensor]) -> Callable[[], Tensor]:
    """Encode sequences of one document each, padded to the longest."""
    ids = torch.nn.utils.rnn.pad_sequence(documents, batch_first=True)
    lengths = torch.tensor([len(document) for document in documents])
    attention_mask = torch.arange(ids.shape[1]) < lengths[:, None]
    return lambda: encode_padded(model, ids, attention_mask)[attention_mask]


def packed(model: Any, documents: list[Tensor]) -> Callable[[], Tensor]:
    """Encode documents end to end, sorted by length."""
    ids, lengths = torch.cat(documents), torch.tensor([len(document) for document in documents])
    return lambda: encode_packed(model, ids, lengths)


def batches_of(documents: list[Tensor], batch_tokens: int, count: int,
               alike: bool) -> list[list[Tensor]]:
    """Documents of some batches, sorted by length; of like length, or as they come."""
    lengths = np.array([len(document) for document in documents])
    size = max(2, batch_tokens // int(lengths.mean()))
    order = np.random.default_rng(0).permutation(len(lengths))
    similar = shuffle_batches(lengths, size, seed=0, epoch=0)
    chosen = [similar[number] if alike else order[number * size:(number + 1) * size]
              for number in range(count)]
    return [sorted((documents[number] for number in batch), key=len) for batch in chosen]


@pytest.mark.data
@pytest.mark.parametrize("alike", [True, False], ids=["like-lengths", "any-lengths"])
@pytest.mark.parametrize(("layers", "width", "max_length"), [
    (4, 256, 128), (4, 256, 512), (6, 512, 128), (6, 512, 512)])
def test_packed_against_padded(benchmark: Any, texts: list[str], layers: int, width: int,
                               max_length: int, alike: bool) -> None:
    count, batch_tokens = 3, 3_500
    if benchmark.disabled:
        layers, width, texts, count, batch_tokens = 1, 64, texts[:12], 1, 300
    tokenizer = train_tokenizer(texts, VocabularyConfig(size=_VOCABULARY, allow_fewer=True))
    documents = [torch.from_numpy(text.ids[:max_length]).long()
                 for text in encode(tokenizer, texts)]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForMaskedLM(BertConfig(
            vocab_size=_VOCABULARY, hidden_size=width, num_hidden_layers=layers,
            num_attention_heads=width // 64, intermediate_size=4 * width)).eval()
    ready = copy.deepcopy(model)
    prepare_packed(ready)
    batches = batches_of(documents, batch_tokens, count, alike)
    tokens = sum(len(document) for batch in batches for document in batch)
    theirs = [padded(model, batch) for batch in batches]
    ours = [packed(ready, batch) for batch in batches]
    torch.testing.assert_close(ours[0](), theirs[0](), atol=1e-5, rtol=0)
    benchmark.pedantic(train, (ready, ours), rounds=_ROUNDS)
    if benchmark.disabled:
        return
    peer = statistics.median(seconds(model, theirs) for _ in range(_ROUNDS))
    rate = tokens / benchmark.stats.stats.median
    benchmark.extra_info.update(tokens=tokens, tokens_per_second=round(rate),
                                padded_tokens_per_second=round(tokens / peer))
    print(f"\n{layers}x{width}, length {max_length}: {rate:.0f} tokens/s packed, "
          f"{tokens / peer:.0f} padded")


def train(model: Any, runs: list[Callable[[], Tensor]]) -> None:
    """Forward and backward, without an update; a sum along one direction is the loss."""
    for run in runs:
        model.zero_grad()
        states = run()
        (states * torch.linspace(-1, 1, states.shape[-1])).sum().backward()


def seconds(model: Any, runs: list[Callable[[], Tensor]]) -> float:
    started = time.perf_counter()
    train(model, runs)
    return time.perf_counter() - started
