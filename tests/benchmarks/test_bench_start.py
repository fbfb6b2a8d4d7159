"""The time to a first result, whole programs on one sentence: `make bench`.

The floor is `python -c "import torch"`; the peers are transformers' pipelines on the same model and
text. Without that option each runs once, and the commands' output is checked.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from test_bench_scoring import build, run, write

from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import save_checkpoint
from bmtools.tasks.heads import load_encoder, with_new_head

_ROUNDS = 7
_TEXT = "Il paziente riferisce [MASK] addominale."
_FLOOR = ["-c", "import torch"]
_PIPELINE = """
import sys
from transformers import pipeline
task, model, text = sys.argv[1:]
print(pipeline(task, model=model)(text))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("start") / "model"
    return build(directory, [_TEXT.replace("[MASK]", "dolore")], 2, 128, 300, 8_000)


def commands(directory: Path, model: Path, name: str) -> tuple[list[Any], list[Any]]:
    """Give a command and the pipeline beside it."""
    masked = write(directory / "masked.jsonl", [{"id": "0", "text": _TEXT, "target": "dolore"}])
    plain = write(directory / "plain.jsonl", [{"id": "0", "text": _TEXT.replace("[MASK]", "e")}])
    if name == "predict":
        encoder, tagger = load_encoder(model, "AutoModelForTokenClassification"), directory / "ner"
        save_checkpoint(tagger, with_new_head(encoder, ["O", "B-X", "I-X"], 0), encoder.tokenizer,
                        Manifest("finetune", {"task": "ner"}, encoder.vocabulary))
        return (["-m", "bmtools", "predict", plain, "--model", tagger],
                ["-c", _PIPELINE, "token-classification", tagger, _TEXT])
    records = masked if name == "score-mrr" else plain
    return (["-m", "bmtools", name, records, "--model", model],
            ["-c", _PIPELINE, "fill-mask", model, _TEXT])


@pytest.mark.parametrize("name", ["score-pppl", "score-mrr", "predict"])
def test_start(benchmark: Any, tmp_path: Path, model: Path, name: str) -> None:
    ours, theirs = commands(tmp_path, model, name)
    assert json.loads(run(*ours).out.splitlines()[0])
    if benchmark.disabled:
        benchmark(lambda: None)
        return
    turns = [[run(*side).seconds for side in (ours, theirs, _FLOOR)] for _ in range(_ROUNDS)]
    benchmark.pedantic(lambda: run(*ours), rounds=1)
    own, peer, floor = (statistics.median(side) for side in zip(*turns, strict=True))
    benchmark.extra_info.update(
        seconds=round(own, 2), pipeline_seconds=round(peer, 2),
        import_torch_seconds=round(floor, 2),
        times_faster=round(statistics.median(turn[1] / turn[0] for turn in turns), 2))
    print(f"\n{name}: {own:.2f} s, pipeline {peer:.2f} s, import torch {floor:.2f} s")
