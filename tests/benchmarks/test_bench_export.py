"""Exported models against transformers: `pytest --benchmark-enable -s ...`.

A tagger with random weights reads batches of 8 x 128 tokens on two cores; engines take turns in one
process, so that the noise of a busy machine falls on all. Without that option the model is tiny,
and only its outputs are compared.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForTokenClassification, BertConfig

from bmtools.export.export import export_model
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import load_for_inference, save_checkpoint
from bmtools.vocab.tokenizer import fingerprint

_CLASS = "AutoModelForTokenClassification"
_FORMATS = ("onnx", "openvino")
_THREADS, _TURNS, _SHAPE = 2, 8, (8, 128)


def turns(models: dict[str, Any], batch: dict[str, torch.Tensor], rounds: int,
          clock: Callable[[], float]) -> dict[str, list[float]]:
    """Let models take turns; seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in models}
    with torch.inference_mode():
        for number in range(rounds + 2):
            for name, model in models.items():
                start = clock()
                model(**batch)
                if number > 1:
                    seconds[name].append(clock() - start)
    return seconds


def test_engines(benchmark: Any, tmp_path: Path, tokenizer: Any) -> None:
    layers, width, size = (6, 768, 30_522) if not benchmark.disabled else (1, 64, 200)
    before = torch.get_num_threads()
    torch.set_num_threads(_THREADS)
    torch.manual_seed(0)
    model = AutoModelForTokenClassification.from_config(BertConfig(
        vocab_size=size, num_hidden_layers=layers, hidden_size=width,
        num_attention_heads=width // 64, intermediate_size=4 * width, num_labels=5)).eval()
    save_checkpoint(tmp_path / "torch", model, tokenizer,
                    Manifest("bench", {}, fingerprint(tokenizer)))
    ids = torch.randint(5, size, _SHAPE)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    models: dict[str, Any] = {"torch": model}
    for int8 in (False, True)[:1 if benchmark.disabled else 2]:
        formats = _FORMATS[1:] if benchmark.disabled else _FORMATS
        for kind in formats:
            line = export_model(tmp_path / "torch", tmp_path / f"{kind} {int8}", int8=int8,
                                format=kind)
            name = f"{line['format']} {line['precision']}"
            models[name] = load_for_inference(Path(line["model"]), model_class=_CLASS).model
            with torch.inference_mode():
                cosine = torch.cosine_similarity(models[name](**batch).logits,
                                                 model(**batch).logits, dim=-1).mean()
            assert cosine > (0.98 if int8 else 0.99999)
    rounds = 1 if benchmark.disabled else _TURNS
    wall = turns(models, batch, rounds, time.perf_counter)
    processor = turns(models, batch, rounds, time.process_time)
    torch.set_num_threads(before)
    benchmark.pedantic(lambda: None, rounds=1)
    if benchmark.disabled:
        return
    benchmark.extra_info.update(
        threads=_THREADS, batch=_SHAPE, milliseconds=round(1e3 * min(wall["torch"])),
        times_faster={name: round(min(wall["torch"]) / min(wall[name]), 2) for name in wall},
        median={name: round(float(np.median(wall["torch"]) / np.median(wall[name])), 2)
                for name in wall},
        by_processor_time={name: round(min(processor["torch"]) / min(processor[name]), 2)
                           for name in wall})
    print(f"\n{benchmark.name}: {json.dumps(benchmark.extra_info)}")
