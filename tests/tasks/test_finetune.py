from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from toy_models import learn_wordpiece, save_random

from bmtools.corpus.split import SplitConfig, write_split
from bmtools.errors import refuse
from bmtools.io.json_files import read_manifest
from bmtools.io.jsonl import RecordReader
from bmtools.recipes.settings import LearningRateConfig, OptimizationConfig
from bmtools.records import Record
from bmtools.tasks.batches import TaskBatches, shuffle_batches
from bmtools.tasks.finetune import SEEDS, read_folds, run_finetuning, summarize
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.ner import NerConfig, NerTask
from bmtools.tasks.predict import Predictor
from bmtools.tasks.settings import FinetuneConfig, FinetunePlan, PredictConfig
from bmtools.tasks.task import Evaluation

pytestmark = pytest.mark.usefixtures("one_thread")

WORDS = ["il", "la", "paziente", "con", "dolore", "e", "febbre", "due", "caffe\u0301", "🧬"]
MARKED = {"diabete mellito": "DIS", "asma 🧬🧬": "DIS", "insulina": "DRUG"}
TAGGER = "AutoModelForTokenClassification"
LOOP = OptimizationConfig(dropout=0.1, precision="no")
SCHEDULE = LearningRateConfig(3e-3)


def record(rng: random.Random, number: int, words: int = 12) -> Record:
    """Return a text of ordinary words and marked ones, which are the entities."""
    text, entities = "", []
    for _ in range(words):
        mention = rng.choice(list(MARKED)) if rng.random() < 0.25 else rng.choice(WORDS)
        start = len(text) + bool(text)
        text += " " * bool(text) + mention
        if mention in MARKED:
            entities.append({"start": start, "end": len(text), "type": MARKED[mention]})
    return Record(id=str(number), text=text + ".", entities=entities)


def records(seed: int, count: int, words: int = 12) -> list[Record]:
    rng = random.Random(seed)
    return [record(rng, number, words) for number in range(count)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model of one layer with random weights."""
    tokenizer = learn_wordpiece((r["text"] for r in records(9, 80)), 120)
    return save_random(tmp_path_factory.mktemp("models") / "random", tokenizer)


Tune = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def tune(checkpoint: Path, tmp_path: Path) -> Tune:
    """Fine-tune the random model on the toy set."""

    def call(output: str = "tuned", train: list[Record] | None = None,
             dev: list[Record] | None = None, test: list[Record] | None = None,
             settings: FinetuneConfig | None = None, ner: NerConfig | None = None,
             loop: OptimizationConfig = LOOP, **options: Any) -> list[dict[str, Any]]:
        settings = settings or FinetuneConfig(seeds=1, epochs=6, batch_size=8)
        ner = ner or NerConfig(max_length=32)
        plan = FinetunePlan("ner", ner, checkpoint, tmp_path / output, settings, loop, SCHEDULE)
        splits = {"train": records(1, 60) if train is None else train,
                  "dev": records(2, 12) if dev is None else dev}
        if test is not None:
            splits["test"] = test
        lines: list[dict[str, Any]] = []
        lines.append(run_finetuning(plan, splits, lines.append, **options))
        return lines

    return call


def test_a_random_model_learns_marked_words(tune: Tune, tmp_path: Path,
                                            checkpoint: Path) -> None:
    lines = tune(test=records(3, 12, words=60), settings=FinetuneConfig(
        seeds=2, epochs=8, batch_size=8))
    assert [line["split"] for line in lines[:3]] == ["train", "dev", "test"]
    seeds = [line for line in lines if "best_epoch" in line]
    assert [line["seed"] for line in seeds] == [0, 1]
    for line in seeds:
        assert line["dev"]["f1"] == line["test"]["f1"] == 1
        assert set(line["test"]["by_type"]) == {"DIS", "DRUG"}
    assert lines[-1]["dev_f1"] == {"mean": 1.0, "median": 1.0, "deviation": 0.0,
                                   "interval": [1.0, 1.0]}
    assert lines[-1]["test_f1"] == lines[-1]["dev_f1"]
    assert lines[-1]["model"] == str(checkpoint)
    output = Path(lines[-1]["checkpoint"])
    assert output == tmp_path / "tuned"
    saved = [json.loads(line) for line in (output / SEEDS).read_text().splitlines()]
    assert saved == seeds
    manifest = read_manifest(output)
    assert manifest["command"] == "finetune"
    assert manifest["settings"]["max_length"] == 32
    assert manifest["results"]["best_seed"] == manifest["seed"] == 0


def test_scores_of_0_have_a_hint_once(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    def notes(*scores: float) -> list[str]:
        coming = iter(scores)
        monkeypatch.setattr(NerTask, "score", lambda *_: Evaluation({"f1": next(coming)}, {}, 1))
        lines = tune("".join(map(str, scores)), settings=FinetuneConfig(
            seeds=3, epochs=1, batch_size=60))
        return [line["note"] for line in lines if "note" in line]

    assert notes(0, 0.5, 0) == [
        "f1 on dev is 0 in 2 seeds, probably after too few or too small steps; raise epochs or "
        "learning_rate, or lower batch_size"]
    assert notes(0.1, 0.1, 0.1) == []


def test_predictions_have_exact_offsets(tune: Tune, tmp_path: Path) -> None:
    tune()
    given = records(4, 10, words=70)
    predictor = Predictor(tmp_path / "tuned", PredictConfig(batch_size=4))
    assert predictor.task.max_length == 32, "windows are as long as in training"
    stripped = [r.without("entities") for r in given]
    for gold, record in zip(given, predictor.predict(stripped), strict=True):
        found = record["predicted"]
        assert [{key: e[key] for key in ("start", "end", "type")} for e in found["entities"]] \
            == gold["entities"]
        for entity in found["entities"]:
            assert gold["text"][entity["start"]:entity["end"]] == entity["text"]
            assert 0.5 < entity["score"] <= 1
        assert [e["id"] for e in found["entities"]] == \
            [f"T{n}" for n in range(1, len(gold["entities"]) + 1)]


def test_saved_model_reproduces_the_reported_score(tune: Tune, tmp_path: Path) -> None:
    lines = tune(settings=FinetuneConfig(seeds=2, epochs=2, batch_size=8))
    seeds = [line for line in lines if "best_epoch" in line]
    best = max(seeds, key=lambda line: line["dev"]["f1"])
    given = records(2, 12)
    gold = {(r["id"], e["start"], e["end"], e["type"]) for r in given for e in r["entities"]}
    found = {(r["id"], e["start"], e["end"], e["type"])
             for r in Predictor(tmp_path / "tuned").predict(given)
             for e in r["predicted"]["entities"]}
    assert len(gold & found) == best["dev"]["correct"]
    assert len(found) == best["dev"]["predicted"]


def test_same_seed_writes_the_same_bytes(tune: Tune, tmp_path: Path) -> None:
    settings = FinetuneConfig(seeds=1, epochs=2, batch_size=8)
    first, second = (tune(output, settings=settings) for output in ("a", "b"))
    assert first[:-1] == second[:-1]
    tune("c", settings=settings, loop=replace(LOOP, seed=1))
    a, b, c = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert a == b and a != c


def test_seeds_do_not_depend_on_earlier_seeds(tune: Tune) -> None:
    def lines_of(seed: int, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [line for line in lines if line.get("seed") == seed]

    both = tune("both", settings=FinetuneConfig(seeds=2, epochs=2, batch_size=8))
    alone = tune("alone", settings=FinetuneConfig(seeds=1, epochs=2, batch_size=8),
                 loop=replace(LOOP, seed=1))
    assert lines_of(1, both) == lines_of(1, alone)


@pytest.mark.parametrize(("scores", "patience", "best", "ran"), [
    ([0.1, 0.3, 0.2, 0.3, 0.9], 2, 2, 4),
    ([0.1, 0.3, 0.2, 0.4, 0.3], 2, 4, 5),
    ([0.5, 0.5, 0.5], 1, 1, 2),
    ([0.0, 0.0, 0.0, 0.2, 0.2], 1, 4, 5),
])
def test_training_stops_after_patience_evaluations(
         checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scores: list[float],
        patience: int, best: int, ran: int) -> None:
    """An equal score is not an improvement; while the score is 0, a lower loss is one."""
    coming = iter(scores)
    losses = iter(range(9, 0, -1))
    monkeypatch.setattr(NerTask, "score", lambda self, examples, outputs: Evaluation(
        {"f1": next(coming)}, {}, next(losses)))
    settings = FinetuneConfig(seeds=1, epochs=len(scores), patience=patience, batch_size=8)
    plan = FinetunePlan("ner", NerConfig(max_length=32), checkpoint, tmp_path / "tuned", settings,
                        LOOP, SCHEDULE)
    lines: list[dict[str, Any]] = []
    run_finetuning(plan, {"train": records(1, 8), "dev": records(2, 2)}, lines.append)
    seed = next(line for line in lines if "best_epoch" in line)
    assert (seed["best_epoch"], seed["epochs"]) == (best, ran)


def tagger(checkpoint: Path, max_length: int = 24, merge_types: str = "") -> NerTask:
    return NerTask(NerConfig(max_length, merge_types=merge_types), load_encoder(checkpoint, TAGGER))


def batches(checkpoint: Path, count: int, batch_size: int = 8, seed: int = 0,
            micro_batch_size: int = 0) -> TaskBatches:
    """Return the batches of three epochs."""
    task = tagger(checkpoint)
    split = task.read("train", records(5, count, words=25))
    inputs = [window for example in split.examples for window in example.inputs]
    lengths = np.array([len(window) for window in inputs])
    order = [batch for epoch in range(3)
             for batch in shuffle_batches(lengths, batch_size, seed, epoch)]
    return TaskBatches(task, inputs, order, micro_batch_size)


def test_micro_batches_are_parts_of_the_batch(checkpoint: Path) -> None:
    whole, cut = batches(checkpoint, 20).batch(0), batches(checkpoint, 20,
                                                           micro_batch_size=3).batch(0)
    assert [len(inputs["labels"]) for inputs in cut.micro_batches] == [3, 3, 2]
    assert cut.counts == whole.counts
    for name, value in whole.micro_batches[0].items():
        assert torch.equal(torch.cat([inputs[name] for inputs in cut.micro_batches]), value)


@pytest.mark.parametrize(("examples", "size"), [(256, 4), (37, 8), (5, 8), (3_000, 16)])
def test_every_epoch_contains_every_example_once(examples: int, size: int) -> None:
    lengths = np.random.default_rng(0).integers(1, 60, size=examples)
    epochs = [np.concatenate(shuffle_batches(lengths, size, 3, epoch)) for epoch in range(2)]
    for found in epochs:
        assert sorted(found) == list(range(examples))
    assert examples <= size or (epochs[0] != epochs[1]).any()


def test_batches_contain_similar_lengths() -> None:
    lengths = np.random.default_rng(0).integers(1, 65, size=5_000)
    chosen = [lengths[batch] for batch in shuffle_batches(lengths, 32, 0, 0)[:100]]
    filled = sum(batch.sum() for batch in chosen) / sum(batch.max() * 32 for batch in chosen)
    assert filled > 0.95


def test_seeds_are_summarized_with_students_interval() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = [0.61, 0.66, 0.63]
    summary = summarize(values)
    theirs = stats.t.interval(0.95, 2, loc=np.mean(values), scale=np.std(values, ddof=1) / 3**0.5)
    assert summary.pop("interval") == pytest.approx(theirs, abs=1e-6)
    assert summary == {"mean": 0.633333, "median": 0.63, "deviation": 0.025166}
    assert summarize([0.5]) == {"mean": 0.5, "median": 0.5, "deviation": None}


@pytest.mark.parametrize("dev_fold", [None, 2])
def test_folds_equal_the_output_of_split(tmp_path: Path, dev_fold: int | None) -> None:
    """The set has twelve sentences in six documents."""
    whole = tmp_path / "all.jsonl"
    whole.write_bytes(b"".join(msgspec.json.encode(
        {"id": str(n), "text": f"a{n}", "label": "xy"[n % 3 > 0],
         "meta": {"document": str(n // 2)}}) + b"\n" for n in range(12)))
    write_split(RecordReader([str(whole)]), tmp_path / "folds",
                SplitConfig(folds=3, stratify="label"))
    folds = read_folds(tmp_path / "folds", dev_fold, refuse)
    tests = []
    for number, sources in folds.items():
        parts = {name: [record["id"] for record in source] for name, source in sources.items()}
        assert sorted((one for part in parts.values() for one in part), key=int) == [
            str(n) for n in range(12)]
        assert list(parts) == (["train", "dev", "test"] if dev_fold is None else
                               ["train", "dev" if number == dev_fold else "test"])
        assert sum(len({int(one) // 2 for one in part}) for part in parts.values()) == 6
        tests += parts.get("test", [])
    assert len(tests) == len(set(tests)) == (12 if dev_fold is None else 8)
    assert next(iter(folds)) == (dev_fold or 0)
