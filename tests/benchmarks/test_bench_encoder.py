"""The fast encoder against transformers' own: `pytest --benchmark-enable -s tests/benchmarks`.

Per token, both compute the states of one position of each sequence, in one process on one thread.
As a whole command, both are `score-pppl`, a program from its start to its end on two cores; in one
of them transformers loads the model and the check that the fast encoder agrees with it fails.
Without that option each runs once on little input, and only their agreement is checked.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_bench_scoring import alternate, build, ratios, run, write
from transformers import BertConfig, BertForMaskedLM, ModernBertConfig, ModernBertForMaskedLM

from bmtools.models.fast_encoder import Encoder, FastEncoder, TransformersEncoder, make_encoder

_ROUNDS = 5
_WITHOUT_FAST_ENCODER = (
    "import bmtools.models.checkpoint as checkpoint, bmtools.models.fast_encoder as fast_encoder; "
    "assert fast_encoder._agrees and checkpoint.read_inference_model; "
    "fast_encoder._agrees = lambda encoder, model: False; "
    "checkpoint.read_inference_model = lambda *arguments: None; "
    "from bmtools.cli.main import run; run()")
_FAMILIES = {"bert": (BertConfig, BertForMaskedLM),
             "modernbert": (ModernBertConfig, ModernBertForMaskedLM)}


def made_up_sentences(count: int) -> list[str]:
    """Make up sentences of 20 words."""
    rng = random.Random(0)
    syllables = [first + second for first in "bcdfglmnprst" for second in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(500)]
    return [f"{' '.join(rng.choices(words, k=20))}." for _ in range(count)]


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


@pytest.mark.parametrize(("family", "layers", "width"), [
    ("bert", 4, 256), ("bert", 12, 768), ("modernbert", 12, 768)])
def test_encoder_per_token(benchmark: Any, one_thread: None, family: str, layers: int,
                           width: int) -> None:
    """Encode masked copies of a sentence: 32 sequences of 32 tokens."""
    count, tokens = (3, 8) if benchmark.disabled else (32, 32)
    layers, width = (1, 64) if benchmark.disabled else (layers, width)
    make_config, make_model = _FAMILIES[family]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make_model(make_config(
            vocab_size=8_000, hidden_size=width, num_hidden_layers=layers, pad_token_id=0,
            num_attention_heads=width // 64, intermediate_size=4 * width, bos_token_id=1,
            eos_token_id=2)).eval()
    input_ids = torch.randint(3, 8_000, (count, tokens),
                              generator=torch.Generator().manual_seed(0))
    sequences, positions = torch.arange(count), torch.arange(count) % tokens
    fast, own = make_encoder(model), TransformersEncoder(model)
    assert isinstance(fast, FastEncoder)

    def states(encoder: Encoder) -> torch.Tensor:
        return encoder.states_at(input_ids, sequences, positions)

    torch.testing.assert_close(states(fast), states(own), atol=1e-4, rtol=1e-4)
    if benchmark.disabled:
        benchmark(lambda: None)
        return
    turns = [(seconds(lambda: states(fast)), seconds(lambda: states(own)))
             for _ in range(_ROUNDS)]
    benchmark.pedantic(lambda: states(fast), rounds=1)
    ours, theirs = (statistics.median(turn) for turn in zip(*turns, strict=True))
    benchmark.extra_info.update(
        tokens=input_ids.numel(), microseconds_per_token=round(1e6 * ours / input_ids.numel(), 2),
        times_faster=round(statistics.median(peer / own for own, peer in turns), 2))
    print(f"\n{family}, {layers}x{width}: {1e6 * ours / input_ids.numel():.1f} microseconds a "
          f"token, transformers {1e6 * theirs / input_ids.numel():.1f}")


def test_score_pppl_with_and_without_fast_encoder(benchmark: Any, tmp_path: Path) -> None:
    layers, width, size, count = (1, 64, 300, 2) if benchmark.disabled else (4, 256, 8_000, 100)
    texts = made_up_sentences(count)
    model = build(tmp_path / "model", texts, layers, width, min(size, 1_000), size)
    path = write(tmp_path / "s.jsonl", [{"id": str(number), "text": text}
                                        for number, text in enumerate(texts)])
    options = ["score-pppl", path, "--model", model]
    ours, theirs = ["-m", "bmtools", *options], ["-c", _WITHOUT_FAST_ENCODER, *options]
    found, expected = (json.loads(run(*side).out.splitlines()[0]) for side in (ours, theirs))
    assert found["pppl"] == pytest.approx(expected["pppl"], rel=1e-4)
    if benchmark.disabled:
        benchmark(lambda: None)
        return
    fast, own = alternate(ours, theirs)
    benchmark.pedantic(lambda: run(*ours), rounds=1)
    benchmark.extra_info.update(
        sentences=count, layers=layers, width=width, times_faster=ratios(fast, own),
        seconds=round(statistics.median(one.seconds for one in fast), 2))
    print(f"\n{layers}x{width}, {count} sentences: {ratios(fast, own)}")
