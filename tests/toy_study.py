"""A study with every kind of result, in which all numbers are different."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bmtools.io.provenance.manifest import hash_directory

Line = dict[str, Any]
MODELS = ("base", "small", "large")


def lines_of_study(figure: Callable[[], float]) -> dict[str, list[Line]]:
    """Make the lines of each file; `figure` returns numbers."""
    def interval() -> list[float]:
        return sorted((figure(), figure()))

    def calibration() -> Line:
        return {**{key: figure() for key in ("error", "score", "precision", "kept", "threshold")},
                "bins": [{"from": number / 10, "predictions": 4, "score": figure(),
                          "precision": figure()} for number in (3, 9)]}

    return {
        "pppl.jsonl": [{"model": f"out/{model}", "pppl": figure(), "interval": interval(),
                        "bits_per_character": figure(), "data": "d", "signature": "pppl:original"}
                       for model in MODELS],
        "mrr.jsonl": [{"model": f"out/{model}", "mrr": figure(), "interval": interval(),
                       "maskings": 6, "data": "e", "signature": "mrr"} for model in MODELS],
        "details.jsonl": [{"model": f"out/{model}", "id": str(masking), "target": "cuore",
                           "rank": rank, "reciprocal_rank": 1 / rank if rank < 6 else 0.0}
                          for masking in range(6) for model, rank in
                          zip(MODELS, (masking + 1, 1, 9 - masking), strict=True)],
        "compared.jsonl": [{"compared": ["out/base", "out/small"], "metric": metric,
                            "difference": figure(), "interval": interval(), "p": figure(),
                            "p_holm": figure()} for metric in ("mrr", "f1")],
        "masking.jsonl": [{"model": model, "masking": strategy, "mask_rate": rate,
                           "corruption": "80/10/10", "perplexity": figure(),
                           "interval": interval(), "data": "d"}
                          for model in MODELS for strategy in ("tokens", "words")
                          for rate in (0.15, 0.4)],
        "space.jsonl": [{"model": model, "average_cosine": figure(), "intervals": {
            "average_cosine": interval()}, "bands": [
                {"min_count": low, "max_count": 2 * low, "average_cosine": figure(),
                 "own_band_neighbours": figure()} for low in (1000, 5)]} for model in MODELS],
        "tasks.jsonl": [{"model": model, "task": "ner", "f1": figure(), "interval": interval(),
                         "precision": figure(), "intervals": {"precision": interval()},
                         "calibration": calibration()} for model in MODELS],
        "ner.jsonl": [{"split": "train", "records": 4},
                      {"seed": 0, "epoch": 1, "of": 2, "loss": 3.3},
                      *({"checkpoint": f"out/tagger-{model}", "model": model, "best_seed": 1,
                         "seeds": 3, "test_f1": {"mean": figure(), "median": figure(),
                                                 "deviation": figure(), "interval": interval()}}
                        for model in MODELS)],
        "suite.jsonl": [{"model": model, "suite": "biobit", "scores": {
            "BC2GM": figure(), "BioRED": figure()}} for model in (*MODELS, "BaseBIT")],
        "vocabularies.jsonl": [
            *({"vocabulary": vocabulary, "scope": scope, "vocab_size": 500,
               "pieces_per_word": figure(), "whole_share": figure()}
              for vocabulary in ("old", "new") for scope in ("text", "entities:DRUG"))],
        "corpora.jsonl": [{"corpus": "notes", "records": 7, "documents": 7, "megabytes": figure(),
                           "words": 99, "words_per_record": {"median": 12}}],
        "log.jsonl": [*training(figure, 3), {"checkpoint": "out/logged", "steps": 3,
                                                     "evaluate": {"step": 3, "evaluate": {}}}],
    }


def training(figure: Callable[[], float], steps: int) -> Iterator[Line]:
    """Yield the lines of a run with two phases and an evaluation."""
    for step in range(1, steps + 1):
        yield {"step": step, "of": steps, "phase": "short" if step < 3 else "long",
               "loss": figure(), "tokens_seen": 1000 * step}
    yield {"step": steps, "evaluate": {"loss": figure(), "accuracy": 0.5}}


def write_study(folder: Path) -> dict[str, list[Line]]:
    """Write the files of a study, and a directory for each model; returns the lines."""
    rng = random.Random(0)
    numbers = iter(rng.sample(range(1_000_000, 9_000_000), 2000))

    def figure() -> float:
        return next(numbers) / 1e7

    lines = lines_of_study(figure)
    for number, model in enumerate(MODELS):
        name = f"out/{model}/metrics.jsonl"
        lines[name] = [*training(figure, 4 + number)]
        _write(folder / name, lines[name])
        before = {"model": hash_directory(folder / f"out/{MODELS[number - 1]}")} if number else {}
        _write(folder / f"out/{model}/bmtools.json", [{
            "command": "pretrain", "sha256": hash_directory(folder / f"out/{model}"), "settings": {
                "model": MODELS[number - 1] if number else None, "layer_decay": 0.95, "phases": [
                {"name": "short", "learning_rate": 1e-3}, {"name": "long", "learning_rate": 2e-3}]},
            "inputs": {f"text-{number}.jsonl": f"{number}" * 64}, "parents": before,
            "tokens_seen": 4000 + 1000 * number, "wall_seconds": figure(),
            "results": {"corpora": {"text": {"documents": 5, "tokens": 10**(4 + number)}}},
            "energy": {"run": model, "hours": figure(), "hardware": "a processor",
                       "measured": {"kwh": figure(), "by": ["nvml"], "hours": 0.5},
                       "declared": {"kwh": figure(), "watts": 300, "hours": 0.5},
                       "grid": {"country": "ITA", "year": 2024, "g_per_kwh": 250,
                                "source": "a table"},
                       "kg_co2eq": {"measured": figure(), "declared": figure()}}}])
    for name, own in lines.items():
        _write(folder / name, own)
    _write(folder / "notes.jsonl", [{"id": "a", "text": "Il cuore."}])
    return lines


def _write(path: Path, lines: list[Mapping[str, Any]] | list[Line]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def numbers_in(value: Any) -> Iterator[float]:
    """Yield all numbers in objects and lists."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from numbers_in(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value
