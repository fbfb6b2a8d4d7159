"""Pseudo-perplexity against minicons: `pytest --benchmark-enable -s tests/benchmarks`.

Both score the same sentences with the same model on as many threads. Without that option each
runs once on little input, and only the agreement is looked at.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from bmtools.corpus.segment import sentence_spans
from bmtools.models.checkpoint import Checkpoint
from bmtools.records import Record
from bmtools.scoring.pppl import score
from bmtools.scoring.predictors import MaskedModel
from bmtools.scoring.settings import PassSettings
from bmtools.vocab.settings import WordPieceSettings
from bmtools.vocab.tokenizer import fingerprint
from bmtools.vocab.wordpiece import learn

_ROUNDS = 3


@pytest.fixture(scope="module")
def texts(data: Path) -> list[str]:
    """Clinical cases in Italian."""
    with (data / "it/corpus/native-clinical.jsonl").open(encoding="utf-8") as stream:
        return [json.loads(line)["text"] for line in itertools.islice(stream, 300)]


def build(texts: list[str], layers: int, width: int, size: int, rows: int) -> Checkpoint:
    """A random BERT over a vocabulary learnt here, with an embedding for each of `rows` ids."""
    tokenizer = learn(texts, WordPieceSettings(size=size))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForMaskedLM(BertConfig(
            vocab_size=max(rows, len(tokenizer)), hidden_size=width, num_hidden_layers=layers,
            num_attention_heads=width // 64, intermediate_size=4 * width)).eval()
    return Checkpoint(Path("bench"), model, tokenizer, fingerprint(tokenizer))


@pytest.mark.data
@pytest.mark.parametrize(("layers", "width", "vocabulary"), [
    pytest.param(2, 128, 4_000, id="tiny"), pytest.param(4, 256, 30_000, id="mini")])
def test_pppl_against_minicons(
        benchmark: Any, texts: list[str], layers: int, width: int, vocabulary: int) -> None:
    pytest.importorskip("minicons")
    if benchmark.disabled:
        layers, width, vocabulary, texts = 1, 64, 300, texts[:3]
    checkpoint = build(texts, layers, width, min(vocabulary, 8_000), vocabulary)
    spans = ((text, span) for text in texts for span in sentence_spans(text, "it"))
    cut = (text[start:end] for text, (start, end) in spans if 20 < end - start < 300)
    sentences = list(itertools.islice(cut, 2 if benchmark.disabled else 30))
    records = [Record(id=str(number), text=text) for number, text in enumerate(sentences)]
    predictor = MaskedModel(checkpoint, PassSettings(), "cpu")

    def ours() -> list[float]:
        return [float(one.logprobs.sum()) for one in score(records, [predictor])]

    theirs = minicons(checkpoint, sentences)
    assert ours() == pytest.approx(theirs(), rel=1e-4)
    benchmark.pedantic(ours, rounds=_ROUNDS)
    if benchmark.disabled:
        return
    peer = statistics.median(seconds(theirs) for _ in range(_ROUNDS))
    ratio = peer / benchmark.stats.stats.median
    benchmark.extra_info.update(sentences=len(sentences), minicons_seconds=round(peer, 3),
                                times_faster=round(ratio, 2))
    print(f"\n{layers}x{width}, {vocabulary} tokens: {ratio:.1f} times faster than minicons")


def minicons(checkpoint: Checkpoint, sentences: list[str]) -> Callable[[], list[float]]:
    """Its scorer, a sentence a call; `batch_encode_plus` is gone from transformers 5."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from minicons.scorer import MaskedLMScorer

    class Readable(type(checkpoint.tokenizer)):  # type: ignore[misc]
        def batch_encode_plus(self, *args: Any, **settings: Any) -> Any:
            return self(*args, **settings)

    tokenizer = Readable(tokenizer_object=checkpoint.tokenizer.backend_tokenizer,
                         **checkpoint.tokenizer.special_tokens_map)
    peer = MaskedLMScorer(checkpoint.model, "cpu", tokenizer=tokenizer, PLL_metric="original")

    def run() -> list[float]:
        return [peer.sequence_score([text], reduction=lambda x: x.sum(0).item(),
                                    PLL_metric="original")[0] for text in sentences]

    return run


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
