"""`predict` against transformers' pipelines, complete programs: `pytest --benchmark-enable -s ...`.

Both sides load the same fine-tuned model and label the same records. The pipeline uses the batch
size that was fastest in its first turn. transformers 5 has no pipeline for question answering.
Without that option models are tiny, and only the predictions are compared.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from task_sets import MAX_LENGTH, build_bert, read_set
from timing import THREADS, alternate, note, ratios, run, summary, write

from bmtools.models.hardware import describe_hardware
from bmtools.tasks import finetune, predict

_PEER = Path(__file__).with_name("task_peer.py")
_SIZES = (1, 8, 32)


def tuned(data: Path, directory: Path, task: str, layers: int, width: int, records: int) -> Path:
    """Fine-tune a random model until it predicts some labels."""
    train = write(directory / "train.jsonl", read_set(data, task, records))
    model = build_bert(data, directory / "model", layers, width)
    finetune(task, model, train, train, directory / "tuned", seeds=1, epochs=3,
             learning_rate=1e-3, max_length=MAX_LENGTH[task])
    return directory / "tuned"


def predictions(path: Path, model: Path, task: str) -> list[Any]:
    """Predict, in the format of the other side."""
    found = [record["predicted"] for record in predict(path, model)]
    if task == "ner":
        return [[[one["start"], one["end"], one["type"]] for one in own["entities"]]
                for own in found]
    return [own["label"] for own in found]


def agreement(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    """Compute the share of records whose predictions are equal."""
    return statistics.fmean(one == other for one, other in zip(ours, theirs, strict=True))


@pytest.mark.data
@pytest.mark.parametrize(("task", "layers", "width", "tuning", "records"), [
    pytest.param("ner", 4, 256, 600, 2_000, id="ner"),
    pytest.param("classification", 4, 256, 600, 2_000, id="classification"),
    pytest.param("ner", 12, 768, 32, 300, id="ner-base")])
def test_predict_against_pipeline(benchmark: Any, data: Path, tmp_path: Path, task: str,
                                  layers: int, width: int, tuning: int, records: int) -> None:
    if benchmark.disabled:
        if layers > 4:
            benchmark(lambda: None)
            pytest.skip("the same with a larger model")
        layers, width, tuning, records = 1, 64, 24, 40
    model = tuned(data, tmp_path, task, layers, width, tuning)
    path = write(tmp_path / "records.jsonl", read_set(data, task, records))

    def theirs(size: int, precision: str = "no") -> list[object]:
        return [_PEER, "predict", json.dumps({
            "task": task, "model": str(model), "records": str(path), "batch_size": size,
            "precision": precision})]

    ours = ["-m", "bmtools", "predict", path, "--model", model]
    first = {size: run(*theirs(size)) for size in (_SIZES if not benchmark.disabled else (8,))}
    best = min(first, key=lambda size: first[size].seconds)
    share = agreement(predictions(path, model, task), json.loads(first[best].out))
    assert share >= 0.999  # two labels may be equally probable
    if benchmark.disabled:
        benchmark(lambda: None)
        return
    racers = {"pipeline": theirs(best), "bmtools": ours}
    if describe_hardware().bf16:
        racers |= {"pipeline bf16": theirs(best, "bf16"), "bf16": [*ours, "--precision", "bf16"]}
    turns = alternate(racers)
    note(benchmark, threads=THREADS, records=records, batch_size=best, agreement=share,
         sides=summary(turns), times_faster=ratios(turns["bmtools"], turns["pipeline"]),
         **({"bf16": ratios(turns["bf16"], turns["pipeline bf16"])} if "bf16" in turns else {}))
