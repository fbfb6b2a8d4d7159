"""Fine-tuning against transformers' Trainer, complete commands: `pytest --benchmark-enable -s ...`.

Both sides start, read the same records, train the same model with dropout for the same number of
epochs, score the development set after each epoch and write the model. `task_peer.py` is the other
side. Trainer's batches are random, as in its examples, and in one race grouped by length, as in
bmtools. Without that option models are tiny, and only the losses of one batch are compared.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from task_sets import MAX_LENGTH, Records, as_pairs, build_bert, read_set
from timing import THREADS, alternate, note, ratios, run, summary, write

from bmtools.models.hardware import describe_hardware
from bmtools.tasks import finetune

_PEER = Path(__file__).with_name("task_peer.py")
_BATCH = 16
_SETTINGS = {"epochs": 1, "batch_size": _BATCH, "dropout": 0.1, "precision": "no",
             "grouped": False}


class Sides:
    """Both programs with the same files.

    Args:
        directory: directory for files and models.
        task: task of bmtools; the other side gets relations as texts of pairs.
        model: model to start from.
        train: training records.
        dev: development records.
    """

    def __init__(self, directory: Path, task: str, model: Path, train: Records,
                 dev: Records) -> None:
        self._directory, self.task, self._model = directory, task, model
        sets = {"train": train, "dev": dev}
        self.files = {name: write(directory / f"{name}.jsonl", records)
                      for name, records in sets.items()}
        if task == "relations":
            sets = {name: as_pairs(records) for name, records in sets.items()}
        self._peer_files = {name: str(write(directory / f"peer-{name}.jsonl", records))
                            for name, records in sets.items()}

    def ours(self, *options: object, model: Path | None = None,
             precision: str = "no") -> list[object]:
        """Return the command of bmtools."""
        return ["-m", "bmtools", "finetune", self.task, "--model", model or self._model,
                "--train", self.files["train"], "--dev", self.files["dev"],
                "-o", self._directory / "ours", "--overwrite", "--seeds", 1, "--batch-size",
                _BATCH, "--max-length", MAX_LENGTH[self.task], "--set", "weight_decay=0",
                "--set", "warmup_ratio=0", "--precision", precision, *options]

    def theirs(self, model: Path | None = None, **settings: Any) -> list[object]:
        """Return the command of the other side."""
        return [_PEER, "finetune", json.dumps({
            **_SETTINGS, **self._peer_files, "model": str(model or self._model),
            "task": "classification" if self.task == "relations" else self.task,
            "max_length": MAX_LENGTH[self.task], "output": str(self._directory / "theirs"),
            **settings})]


def losses(sides: Sides, model: Path, directory: Path) -> tuple[float, float]:
    """Return both sides' loss for one batch with the same fine-tuned model."""
    start, lines = directory / "start", list[dict[str, Any]]()
    for before, after, dropout in ((model, start, 0.1), (start, directory / "further", 0.0)):
        lines.clear()
        finetune(sides.task, before, sides.files["train"], sides.files["dev"], after, seeds=1,
                 epochs=1, batch_size=_BATCH, max_length=MAX_LENGTH[sides.task], dropout=dropout,
                 learning_rate=1e-3, report=lines.append)
    [found] = [line["loss"] for line in lines if "loss" in line]
    theirs = run(*sides.theirs(start, dropout=0.0))
    return found, json.loads(theirs.out.splitlines()[-1])[0]["loss"]


@pytest.mark.data
@pytest.mark.parametrize("task", ["ner", "classification", "relations"])
def test_losses_agree(data: Path, tmp_path: Path, task: str) -> None:
    records = read_set(data, task, 60)
    if task == "relations":
        records = [one for one in records if one["relations"]][:2]
        assert len(as_pairs(records)) <= _BATCH
    elif task == "classification":
        records = [one for label in "01" for one in records if one["label"] == label][::6]
        assert len(records) <= _BATCH
    else:
        records = records[:_BATCH - 4]
    model = build_bert(data, tmp_path / "model", 1, 64)
    ours, theirs = losses(Sides(tmp_path, task, model, records, records), model, tmp_path)
    assert ours == pytest.approx(theirs, rel=1e-4)


@pytest.mark.data
@pytest.mark.parametrize(("task", "layers", "width", "records", "epochs"), [
    pytest.param("ner", 4, 256, 2_000, 2, id="ner"),
    pytest.param("classification", 4, 256, 1_600, 2, id="classification"),
    pytest.param("relations", 4, 256, 200, 3, id="relations"),
    pytest.param("ner", 12, 768, 160, 1, id="ner-base")])
def test_finetune_against_trainer(benchmark: Any, data: Path, tmp_path: Path, task: str,
                                  layers: int, width: int, records: int, epochs: int) -> None:
    if benchmark.disabled:
        benchmark(lambda: None)
        pytest.skip("a race alone; the losses of one batch are compared in another test")
    found = read_set(data, task, records + records // 5)
    dev = found[len(found) * 5 // 6:]
    sides = Sides(tmp_path, task, build_bert(data, tmp_path / "model", layers, width),
                  found[:len(found) * 5 // 6], dev)
    ours, theirs = sides.ours("--epochs", epochs), sides.theirs(epochs=epochs)
    racers: dict[str, list[object]] = {
        "trainer": theirs, "bmtools": ours, "grouped": sides.theirs(epochs=epochs, grouped=True)}
    if describe_hardware().bf16:
        racers |= {"trainer bf16": sides.theirs(epochs=epochs, precision="bf16"),
                   "bf16": sides.ours("--epochs", epochs, precision="bf16")}
    turns = alternate(racers)
    note(benchmark, threads=THREADS, records=len(found), epochs=epochs, sides=summary(turns),
         times_faster=ratios(turns["bmtools"], turns["trainer"]),
         grouped=ratios(turns["bmtools"], turns["grouped"]),
         **({"bf16": ratios(turns["bf16"], turns["trainer bf16"])} if "bf16" in turns else {}))
