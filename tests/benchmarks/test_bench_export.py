"""Exported models against transformers: `pytest --benchmark-enable -s ...`.

A tagger with random weights reads batches of 8 x 128 tokens on two cores. Engines take turns in one
process, so the noise of a busy machine affects all of them. Without that option the model is tiny,
and only its outputs are compared.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from timing import THREADS, in_turns, note
from transformers import AutoModelForTokenClassification, BertConfig

from bmtools.export.export import export_model
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import load_for_inference, save_checkpoint
from bmtools.vocab.tokenizer import fingerprint

_CLASS = "AutoModelForTokenClassification"
_TURNS, _SHAPE = 8, (8, 128)


def test_engines(benchmark: Any, tmp_path: Path, tokenizer: Any) -> None:
    layers, width, size = (6, 768, 30_522) if not benchmark.disabled else (1, 64, 200)
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
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
        line = export_model(tmp_path / "torch", tmp_path / f"{int8}", int8=int8)
        name = f"{line['format']} {line['precision']}"
        models[name] = load_for_inference(Path(line["model"]), model_class=_CLASS).model
        with torch.inference_mode():
            cosine = torch.cosine_similarity(models[name](**batch).logits,
                                             model(**batch).logits, dim=-1).mean()
        assert cosine > (0.98 if int8 else 0.99999)
    sides = {name: partial(one, **batch) for name, one in models.items()}
    wall, processor = {}, {}
    with torch.inference_mode():
        for clock, seconds in ((time.perf_counter, wall), (time.process_time, processor)):
            seconds |= in_turns(sides, 1 if benchmark.disabled else _TURNS, clock)
    torch.set_num_threads(before)
    note(benchmark, threads=THREADS, milliseconds=round(1e3 * min(wall["torch"])), **{
        what: {name: round(min(seconds["torch"]) / min(own), 2) for name, own in seconds.items()}
        for what, seconds in (("times_faster", wall), ("by_processor_time", processor))})
