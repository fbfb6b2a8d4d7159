"""Contextual initialisation against plain batches: `pytest --benchmark-enable -s tests/benchmarks`.

All encode the same sentences with the same model on as many threads, and agree on every embedding.
The peers are what such scripts mostly do: batches of 32 in the order of the file, padded to the
longest of the batch or to 256 tokens. Sentences without a new token, which nobody encodes, do not
count. Without that option each runs once on little input, and only their agreement is checked.
"""

from __future__ import annotations

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
from transformers import BertTokenizer

from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.settings import TransferConfig
from bmtools.models.transfer.context_embeddings import (
    Sentence,
    contextual_embeddings,
    locate_pieces,
    sample_sentences,
)
from bmtools.models.transfer.init_weights import transfer
from bmtools.models.transfer.vocab_overlap import find_overlap
from bmtools.text.segment import sentence_spans
from bmtools.vocab.tokenizer import fingerprint

_ROUNDS = 3
_BATCH_SIZE = 32
_LONGEST = 256
_ABSTRACTS = "en/corpus/pubmed-drug-reviews.jsonl.gz"
Occurrences = dict[str, list[tuple[int, int, int]]]
Vectors = dict[int, torch.Tensor]


def vocabulary(path: Path) -> Any:
    lines = path.read_text(encoding="utf-8").splitlines()
    return BertTokenizer(vocab={token: number for number, token in enumerate(lines)},
                         do_lower_case=True)


@pytest.fixture(scope="module")
def new(data: Path) -> Any:
    """A biomedical vocabulary of 50,000 tokens."""
    return vocabulary(data / "vocab/covid-electra-50k-uncased.txt")


def build(data: Path, layers: int, width: int) -> Checkpoint:
    """A random BERT over BERT's own vocabulary."""
    words = vocabulary(data / "vocab/bert-base-uncased.txt")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_model(build_config(f"bert-{layers}x{width}", words)).eval()
    return Checkpoint(Path("bench"), model, words, fingerprint(words))


def sentences(data: Path, abstracts: int) -> list[Sentence]:
    with gzip.open(data / _ABSTRACTS, "rt", encoding="utf-8") as stream:
        texts = [json.loads(line)["text"] for line in itertools.islice(stream, abstracts)]
    return [Sentence(text[start:end]) for text in texts
            for start, end in sentence_spans(text, "en")]


def sampled(base: Checkpoint, new: Any, text: list[Sentence]) -> Occurrences:
    is_new = np.zeros(len(new), dtype=bool)
    is_new[list(find_overlap(base.tokenizer, new).pieces)] = True
    found = sample_sentences(base, new, is_new, text, 20, np.random.default_rng(0)).spans
    order = {one.text: number for number, one in enumerate(text)}
    return dict(sorted(found.items(), key=lambda item: order[item[0]]))


@pytest.mark.data
@pytest.mark.parametrize(("layers", "width", "beside"), [
    pytest.param(4, 256, "32 in file order", id="file-order"),
    pytest.param(4, 256, "32 padded to 256", id="padded")])
def test_contexts_against_plain_batches(benchmark: Any, data: Path, new: Any, layers: int,
                                        width: int, beside: str) -> None:
    if benchmark.disabled:
        layers, width = 1, 64
    base = build(data, layers, width)
    occurrences = sampled(base, new, sentences(data, 2 if benchmark.disabled else 120))
    padding = _LONGEST if "padded" in beside else 0

    def ours() -> Vectors:
        found = contextual_embeddings(base, locate_pieces(base, occurrences), "last",
                                      TransferConfig.batch_tokens)
        return dict(zip(found.tokens.tolist(), found.vectors, strict=True))

    def theirs() -> Vectors:
        return plainly(base, occurrences, padding)

    expected, found = theirs(), ours()
    assert found.keys() == expected.keys()
    for token, vector in found.items():
        torch.testing.assert_close(vector, expected[token], atol=1e-5, rtol=0)
    if benchmark.disabled:
        benchmark.pedantic(ours)
        return
    ratios = [seconds(theirs) / seconds(ours) for _ in range(_ROUNDS)]
    benchmark.pedantic(ours, rounds=_ROUNDS)
    ratio = statistics.median(ratios)
    benchmark.extra_info.update(
        sentences=len(occurrences), tokens=len(found), threads=torch.get_num_threads(),
        times_faster=round(ratio, 2), lowest=round(min(ratios), 2), highest=round(max(ratios), 2))
    print(f"\n{layers}x{width}, {len(occurrences)} sentences: {ratio:.1f} ({min(ratios):.1f} to "
          f"{max(ratios):.1f}) times faster than {beside}")


@pytest.mark.data
@pytest.mark.slow
def test_a_whole_vocabulary(benchmark: Any, data: Path, new: Any) -> None:
    """Time the new tokens of a vocabulary of 50,000: how long a user waits."""
    if benchmark.disabled:
        pytest.skip("a matter of time alone")
    base, text = build(data, 4, 256), sentences(data, 8_000)
    made = benchmark.pedantic(transfer, (base, new, TransferConfig("contextual"), text))
    benchmark.extra_info.update(made.report, threads=torch.get_num_threads())
    print(f"\n{made.report['contextual']} of {len(made.overlap.pieces)} new tokens found in "
          f"{made.report['sentences']} sentences: {benchmark.stats.stats.median:.0f} s")


@torch.inference_mode()
def plainly(base: Checkpoint, occurrences: Occurrences, padding: int) -> Vectors:
    """Encode sentences in the order of the file, 32 at a time."""
    texts = list(occurrences)
    found: dict[int, list[torch.Tensor]] = {}
    for start in range(0, len(texts), _BATCH_SIZE):
        batch = texts[start:start + _BATCH_SIZE]
        given = base.tokenizer(batch, return_tensors="pt", return_offsets_mapping=True,
                               padding="max_length" if padding else True,
                               max_length=padding or None)
        offsets = given.pop("offset_mapping")
        states = base.model.base_model(**given).last_hidden_state
        for index, text in enumerate(batch):
            for token, first, last in occurrences[text]:
                inside = (offsets[index, :, 0] < last) & (offsets[index, :, 1] > first)
                found.setdefault(token, []).append(states[index, inside].mean(dim=0))
    base.tokenizer.backend_tokenizer.no_padding()  # a tokenizer remembers how it padded last
    return {token: torch.stack(vectors).mean(dim=0) for token, vectors in found.items()}


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
