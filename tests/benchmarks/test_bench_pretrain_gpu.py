"""Pretraining on one GPU against transformers' Trainer, both in bf16.

`make bench-gpu`, or where other software is installed already
`python3 -m pytest -W default -s --benchmark-enable tests/benchmarks/test_bench_pretrain_gpu.py`;
under ten minutes on an H100. Text is that of BMTOOLS_DATA; without it, documents are as long as
real abstracts (a table in `side.py`) and their ids are made up, which costs the same.

Trainer gets what is simple and fast: documents end to end in full sequences (group_texts), sdpa,
fused AdamW, four processes that make batches, no dropout; with torch_compile and without. Useful
tokens are text, neither padding nor special tokens. The share of the GPU's peak counts what the
objective needs for these: attention inside documents, and the head on masked tokens.
Memory is the peak of what torch allocated on the GPU.
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

from bmtools.data.phase_lengths import attended_tokens
from bmtools.models.architectures import build_config
from bmtools.models.hardware import (
    describe_hardware,
    model_flop_utilisation,
    training_flops_per_token,
)
from bmtools.models.varlen import kernel_fits
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import BatchConfig

pytestmark = [pytest.mark.gpu,
              pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
_ROUNDS = 4
_TURN_SECONDS = 2.0
_STEP_TOKENS = 32_000
_MASK_RATE = 0.15
# Buonocore et al. 2023: 28 GB of abstracts (table 1), at the 13 billion tokens in 81 GB of their
# base model; 720 hours on an A100. Gu et al. 2021, section 2.3: 62,500 steps of 8,192 sequences,
# whose length the paper leaves open, taken for 512; five days on 16 V100.
_PUBLISHED_RUNS = {
    "once through BioBIT's 28 GB (4.5 billion tokens)": 28 / 81 * 13e9,
    "PubMedBERT's 62,500 steps of 8,192 sequences (262 billion tokens)": 62_500 * 8_192 * 512.0,
}


@pytest.fixture(scope="module")
def text(request: pytest.FixtureRequest,
         tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Shards of abstracts and their tokenizer; empty names where there are no data."""
    if not request.config.getoption("benchmark_enable"):
        pytest.skip("timed by --benchmark-enable")
    try:
        data = request.getfixturevalue("data")
    except pytest.skip.Exception:
        return "", ""
    return encode_abstracts(data, tmp_path_factory.mktemp("abstracts"))


@pytest.mark.parametrize(("architecture", "max_length"), [
    ("bert-base", 128), ("bert-base", 512), ("modernbert-base", 1024)])
def test_pretrain_on_a_gpu(benchmark: Any, text: tuple[str, str], architecture: str,
                           max_length: int) -> None:
    ours = Side("bmtools", architecture, max_length, _STEP_TOKENS, "packed", 0.0, "bf16", False,
                "cuda", *text)
    peer = replace(ours, program="trainer", layout="grouped")
    sides = {"packed": ours, "packed compiled": replace(ours, compiled=True),
             "trainer": peer, "trainer compiled": replace(peer, compiled=True)}
    first, *others = sides
    with Race(sides, _TURN_SECONDS, 4, ("packed compiled", "trainer compiled")) as running:
        benchmark.pedantic(running.turn, (first,), setup=lambda: running.turn(*others),
                           rounds=_ROUNDS)
        found = running.summary("trainer", "trainer compiled")
    shares = dict(_shares_of_peak(ours, found["sides"]))
    device = describe_hardware("cuda")
    note(benchmark, ours, found, gpu=device.name, share_of_peak=shares, kernel=_kernel())
    print(f"  {device.name}, share of its peak: {shares}; attention by {_kernel()}")
    if architecture == "bert-base" and max_length == 512:
        best = max(found["sides"][name]["tokens_per_second"] for name in sides
                   if name.startswith("packed") and name in found["sides"])
        hours = {what: round(tokens / best / 3600, 1) for what, tokens in _PUBLISHED_RUNS.items()}
        benchmark.extra_info["gpu_hours"] = hours
        print("  " + "; ".join(f"{what}: {one} GPU-hours" for what, one in hours.items()))


def _shares_of_peak(ours: Side, measured: dict[str, dict[str, float]]) -> Iterator[
        tuple[str, float | None]]:
    """Share of the GPU's peak by side; None where the peak is not known."""
    corpus, tokenizer = side.open_text(ours)
    config = build_config(ours.architecture, tokenizer, ours.max_length)
    phase = Phase("main", batch=BatchConfig(max_length=ours.max_length))
    flops = training_flops_per_token(config, attended_tokens(phase, {"text": corpus}), _MASK_RATE)
    assert flops is not None
    device = describe_hardware("cuda")
    for name, one in measured.items():
        share = model_flop_utilisation(flops * one["tokens_per_second"], device, "bf16")
        yield name, share and round(share, 3)


def _kernel() -> str:
    query = torch.empty(1, 1, 64, dtype=torch.bfloat16, device="cuda")
    return "torch's kernel for unequal lengths" if kernel_fits(query, 0.0) else "runs of lengths"
