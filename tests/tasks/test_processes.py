"""Fine-tuning in processes: shared by several, and resumed after a kill."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from toy_models import learn_wordpiece, save_random
from training.test_run_processes import Job

WORDS = ["il", "la", "paziente", "con", "dolore", "e", "febbre", "due"]
SIGNS = {"asma": "DIS", "artrosi": "DIS", "insulina": "DRUG"}


def records(seed: int, count: int) -> list[dict[str, Any]]:
    """Texts with signs between other words, annotated for every task."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        text, entities = "", []
        for _ in range(rng.randint(3, 20)):
            word = rng.choice(list(SIGNS)) if rng.random() < 0.3 else rng.choice(WORDS)
            start = len(text) + bool(text)
            text += " " * bool(text) + word
            if word in SIGNS:
                entities.append({"start": start, "end": len(text), "type": SIGNS[word]})
        types = [entity["type"] for entity in entities]
        answers = [{"text": text[entity["start"]:entity["end"]], "start": entity["start"]}
                   for entity in entities[:1]]
        made.append({"id": f"{seed}-{number}", "text": text, "text_pair": rng.choice(WORDS),
                     "entities": entities, "question": "che dolore", "answers": answers,
                     "label": max(types, key=types.count, default="none"),
                     "labels": sorted(set(types)), "score": float(len(types))})
    return made


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a model of two layers with random weights, and of three sets."""
    folder = tmp_path_factory.mktemp("fine-tuning")
    save_random(folder / "model", learn_wordpiece((r["text"] for r in records(9, 80)), 120),
                "bert-2x64")
    for seed, (name, count) in enumerate([("train", 33), ("dev", 11), ("test", 7)]):
        (folder / f"{name}.jsonl").write_text(
            "".join(f"{json.dumps(record)}\n" for record in records(seed, count)))
    return folder


Start = Callable[..., Job]


@pytest.fixture
def start(data: Path, tmp_path: Path) -> Start:
    """Start fine-tuning: `start("ner", "out", "--seeds", 2, processes=2)`."""

    def begin(task: str, output: str, *more: object, processes: int = 1, hook: str = "") -> Job:
        return Job(tmp_path, [
            "finetune", task, "--model", data / "model", "--train", data / "train.jsonl",
            "--dev", data / "dev.jsonl", "--test", data / "test.jsonl", "-o", tmp_path / output,
            "--batch-size", 8, "--learning-rate", 2e-3, "--max-length", 24, *more], processes, hook)

    return begin


def results(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what differs between runs."""
    return [{name: value for name, value in line.items()
             if name not in ("wall_seconds", "checkpoint")} for line in lines]


def numbers(value: Any) -> list[float]:
    """List the numbers of lines, in order."""
    if isinstance(value, dict | list):
        return [number for one in (value.values() if isinstance(value, dict) else value)
                for number in numbers(one)]
    return [value] if isinstance(value, float | int) else []


# The last of five batches has one input, which leaves a second process without any.
@pytest.mark.parametrize(("task", "settings"), [
    ("ner", ("--micro-batch-size", 3, "--seeds", 2)), ("ner", ("--crf",)), ("qa", ("--stride", 4)),
    ("classification", ("--class-weights", "balanced")), ("multilabel", ()),
    ("similarity", ()), ("classification", ("--head", "bilstm", "--set", "head_dropout=0"))])
def test_several_processes_give_the_results_of_one(start: Start, tmp_path: Path, task: str,
                                                   settings: tuple[object, ...]) -> None:
    given = (task, "of-1", "--seeds", 1, "--epochs", 2, "--set", "dropout=0", *settings)
    one = start(*given).succeed()
    two = start(given[0], "of-2", *given[2:], processes=2).succeed()
    assert numbers(results(two.records)) == pytest.approx(numbers(results(one.records)),
                                                              rel=1e-4, abs=1e-5)
    assert len(one.records) >= 6 and two._outs[1].read_text() == ""
    weights = [load_file(tmp_path / f"of-{count}" / "model.safetensors") for count in (1, 2)]
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, rtol=0, atol=2e-4)
    assert two.err.count("wrote ") == 1 and not list(tmp_path.glob(".*"))
