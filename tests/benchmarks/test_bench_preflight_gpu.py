"""Forecasts of `pretrain --dry-run` on a GPU against the run that follows: `make gpu-check`.

The memory of the run is all memory in use on the card after the last step, so no other program may
use the card.
"""

from __future__ import annotations

import gc
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from texts import write_made_up_texts
from timing import note

from bmtools.training.pretrain import pretrain
from bmtools.vocab.tokenizer import save_tokenizer

_SETTINGS: dict[str, Any] = {
    "architecture": "bert-base", "max_length": 512, "batch_size": 64, "precision": "bf16",
    "steps": 60}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_preflight_against_what_came(benchmark: Any, tmp_path: Path) -> None:
    if benchmark.disabled:
        pytest.skip("timed by --benchmark-enable")
    from side import stand_in_tokenizer

    save_tokenizer(stand_in_tokenizer(), tmp_path / "tokenizer")
    given = {"data": write_made_up_texts(tmp_path / "texts.jsonl", 6_000),
             "tokenizer": tmp_path / "tokenizer", **_SETTINGS}
    forecast = pretrain(**given, output=tmp_path / "model", dry_run=True)
    gc.collect()
    torch.cuda.empty_cache()
    rates, used = [], []

    def on_report(line: dict[str, Any]) -> None:
        if "tokens_per_second" in line:
            rates.append(line["tokens_per_second"])
            free, total = torch.cuda.mem_get_info()
            used.append((total - free) / 2**30)

    pretrain(**given, output=tmp_path / "model", on_report=on_report, logging_steps=10,
             save_steps=0)
    (phase,) = forecast["phases"]
    came = {"memory_gib": max(used), "tokens_per_second": statistics.median(rates[1:])}
    note(benchmark, gpu=forecast["device"]["name"], came=came,
         forecast={name: phase[name] for name in came},
         memory=round(phase["memory_gib"] / came["memory_gib"], 3),
         speed=round(phase["tokens_per_second"] / came["tokens_per_second"], 3))
