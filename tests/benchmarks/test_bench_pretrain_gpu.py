"""Pretraining on one GPU against transformers' Trainer, both in bf16.

`make gpu-check` runs all benchmarks of this file, and `make bench-gpu` prints a table. The text
comes from BMTOOLS_DATA. Without it, documents have the lengths of real abstracts (a table in
`side.py`) and made-up ids, which cost the same.

Trainer gets simple and fast settings: joined documents in full sequences (group_texts), sdpa, fused
AdamW, four processes that make batches, and no dropout. Compiled models race separately, because
compiling takes minutes. Useful tokens are text, without padding and special tokens. The share of
the GPU's peak counts the operations that the objective needs for these tokens: attention inside
documents, and the head on masked tokens. Memory is the peak that torch allocated on the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import side
import torch
from race import Race, Side, note
from texts import encode_abstracts

from bmtools.models.documents import capability
from bmtools.models.hardware import describe_hardware, model_flop_utilisation
from bmtools.models.varlen import choose_kernel

pytestmark = [pytest.mark.gpu,
              pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
_ROUNDS = 4
_TURN_SECONDS = 2.0
_STEP_TOKENS = 32_000
# Buonocore et al. 2023: 28 GB of abstracts (table 1), with the 13 billion tokens in 81 GB of
# their base model; 720 hours on an A100. Gu et al. 2021, section 2.3: 62,500 steps of 8,192
# sequences. The paper does not state their length; 512 is assumed. Five days on 16 V100.
_PUBLISHED_RUNS = {
    "once through BioBIT's 28 GB (4.5 billion tokens)": 28 / 81 * 13e9,
    "PubMedBERT's 62,500 steps of 8,192 sequences (262 billion tokens)": 62_500 * 8_192 * 512.0,
}


@pytest.fixture(scope="module")
def text(request: pytest.FixtureRequest,
         tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Shards of abstracts and their tokenizer; empty names if there are no data."""
    if not request.config.getoption("benchmark_enable"):
        pytest.skip("timed by --benchmark-enable")
    try:
        data = request.getfixturevalue("data")
    except pytest.skip.Exception:
        return "", ""
    return encode_abstracts(data, tmp_path_factory.mktemp("abstracts"))


SIZES = pytest.mark.parametrize(("architecture", "max_length"), [
    ("bert-base", 128), ("bert-base", 512), ("modernbert-base", 1024)])


@SIZES
def test_pretrain_on_a_gpu(benchmark: Any, text: tuple[str, str], architecture: str,
                           max_length: int) -> None:
    ours = ours_on(text, architecture, max_length)
    run_race(benchmark, {"packed": ours,
                         "trainer": replace(ours, program="trainer", layout="grouped")})


@SIZES
def test_compiled_pretraining_on_a_gpu(benchmark: Any, text: tuple[str, str], architecture: str,
                                       max_length: int) -> None:
    ours = replace(ours_on(text, architecture, max_length), compiled=True)
    run_race(benchmark, {"packed compiled": ours, "trainer compiled": replace(
        ours, program="trainer", layout="grouped")})


def test_the_gpu_is_busy(benchmark: Any, text: tuple[str, str]) -> None:
    """Return the wall time in which a kernel or a copy runs, over some steps."""
    share = benchmark.pedantic(side.busy_share, (ours_on(text, "bert-base", 512),), rounds=1)
    benchmark.extra_info.update(gpu=describe_hardware("cuda").name, busy=round(share, 3))


def ours_on(text: tuple[str, str], architecture: str, max_length: int) -> Side:
    """Return our side of a race, not compiled."""
    return Side("bmtools", architecture, max_length, _STEP_TOKENS, "packed", 0.0, "bf16", False,
                "cuda", *text)


def run_race(benchmark: Any, sides: dict[str, Side]) -> None:
    """Race our side, the first one, against a peer that may fail if it is compiled."""
    (first, ours), (peer, _) = sides.items()
    with Race(sides, _TURN_SECONDS, 4, (peer,) if ours.compiled else ()) as running:
        benchmark.pedantic(running.turn, (first,), setup=lambda: running.turn(peer),
                           rounds=_ROUNDS)
        found = running.summary(peer)
    shares = dict(_shares_of_peak(ours, found["sides"]))
    device = describe_hardware("cuda")
    note(benchmark, ours, found, gpu=device.name, share_of_peak=shares, kernel=_kernel())
    if (ours.architecture, ours.max_length) == ("bert-base", 512):
        rate = found["sides"][first]["tokens_per_second"]
        hours = {what: round(tokens / rate / 3600, 1) for what, tokens in _PUBLISHED_RUNS.items()}
        benchmark.extra_info["gpu_hours"] = hours


def _shares_of_peak(ours: Side, measured: dict[str, dict[str, float]]) -> Iterator[
        tuple[str, float | None]]:
    """Return the share of the GPU's peak by side; None if the peak is unknown."""
    flops = side.flops_per_token(ours)
    device = describe_hardware("cuda")
    for name, one in measured.items():
        share = model_flop_utilisation(flops * one["tokens_per_second"], device, "bf16")
        yield name, share and round(share, 3)


def _kernel() -> str:
    return choose_kernel(capability(torch.device("cuda")), torch.bfloat16, 64, windowed=False) \
        or "runs of lengths"
