"""Classification with any number of labels, on toys and on Hallmarks of Cancer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from sklearn.preprocessing import MultiLabelBinarizer
from tasks.test_classification import SIGNS, WORDS
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

import bmtools.tasks
from bmtools.io.json_files import read_manifest
from bmtools.records import Record
from bmtools.tasks.classification import MultilabelTask
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.settings import MultilabelConfig
from bmtools.tasks.task import Evaluation

pytestmark = pytest.mark.usefixtures("one_thread")

SETTINGS: dict[str, Any] = {"seeds": 1, "epochs": 12, "patience": 12, "batch_size": 8,
                            "learning_rate": 1e-3, "max_length": 32}


def records(seed: int, count: int) -> list[Record]:
    """Sentences of documents of two, each with none to three signs, which decide the labels."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        signs = rng.sample(list(SIGNS), rng.randint(0, 3))
        words = [*rng.choices(WORDS, k=rng.randint(3, 6)), *signs]
        rng.shuffle(words)
        made.append(Record(id=str(number), text=" ".join(words), place=f"a.jsonl:{number}",
                           labels=sorted(SIGNS[sign] for sign in signs),
                           meta={"document": str(number // 2)}))
    return made


@pytest.fixture(scope="module")
def tuned(bert: Path) -> Path:
    """A model that has learned the signs."""
    bmtools.tasks.finetune("multilabel", bert, records(1, 160), records(2, 30),
                           bert.parent / "tuned", **SETTINGS)
    return bert.parent / "tuned"


def task_of(bert: Path, **settings: Any) -> MultilabelTask:
    return MultilabelTask(MultilabelConfig(max_length=16, **settings),
                          load_encoder(bert, MultilabelTask.model_class))


def test_a_random_model_learns_and_transformers_agrees(tuned: Path) -> None:
    test = records(3, 20)
    predicted = list(bmtools.tasks.predict([one.without("labels") for one in test], tuned))
    right = sum(one["predicted"]["labels"] == gold["labels"]
                for one, gold in zip(predicted, test, strict=True))
    assert right >= 11
    assert any(not gold["labels"] for gold in test)
    model = AutoModelForSequenceClassification.from_pretrained(tuned).eval()
    tokenizer = AutoTokenizer.from_pretrained(tuned)
    assert model.config.problem_type == "multi_label_classification"
    classifier = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    for one in predicted:
        theirs = {found["label"]: found["score"] for found in classifier(one["text"])[0]}
        assert one["predicted"]["probabilities"] == pytest.approx(theirs, abs=1e-4)


def test_the_first_loss_is_that_of_transformers(bert: Path) -> None:
    task = task_of(bert)
    examples = task.read("train", records(1, 6)).examples
    model = task.new_model(0).eval()
    inputs = [item for example in examples for item in example.inputs]
    batch = {name: torch.from_numpy(value) for name, value in task.collate(inputs).items()}
    labels = torch.from_numpy(task.collate_labels(inputs, {}))
    theirs = model(**batch, labels=labels).loss
    loss = task.loss(model, task.logits(model, batch), labels)
    assert loss.item() / labels.numel() == pytest.approx(theirs.item())
    outputs = [[row] for row in task.outputs(model, batch).detach().numpy()]
    assert task.score(examples, outputs).loss == pytest.approx(theirs.item(), abs=1e-6)


def score(bert: Path, probabilities: np.ndarray, **settings: Any) -> Evaluation:
    """Score probabilities of the labels of 40 records."""
    task = task_of(bert, **settings)
    examples = task.read("train", records(4, 40)).examples
    return task.score(examples, [[row] for row in np.log(probabilities / (1 - probabilities))])


def test_scores_are_those_of_scikit_learn(bert: Path) -> None:
    probabilities = np.random.default_rng(0).uniform(0.01, 0.99, (40, 3))
    found = score(bert, probabilities, threshold=0.6).scores
    gold = MultiLabelBinarizer(classes=sorted(SIGNS.values())).fit_transform(
        [one["labels"] for one in records(4, 40)]).astype(bool)
    given = probabilities >= 0.6
    documents = [side.reshape(20, 2, 3).any(axis=1) for side in (gold, given)]
    for kind in ("micro", "macro"):
        assert found[f"record_{kind}_f1"] == pytest.approx(
            f1_score(gold, given, average=kind), abs=1e-6)
        assert found[f"{kind}_f1"] == pytest.approx(f1_score(*documents, average=kind), abs=1e-6)


def test_the_threshold_is_the_best_on_the_development_set(bert: Path) -> None:
    probabilities = np.random.default_rng(0).uniform(0.01, 0.99, (40, 3))
    fixed = {threshold: score(bert, probabilities, threshold=threshold).scores["micro_f1"]
             for threshold in (0.05, 0.25, 0.5, 0.75, 0.95)}
    chosen = score(bert, probabilities, threshold=0.0)
    assert chosen.scores["micro_f1"] >= max(fixed.values())
    assert chosen.settings == {"threshold": chosen.details["threshold"]}


def test_a_chosen_threshold_is_that_of_the_test_set_and_of_predictions(
        bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.tasks.classification._THRESHOLDS", [0.35])
    lines: list[dict[str, Any]] = []
    test = records(3, 10)
    bmtools.tasks.finetune("multilabel", bert, records(1, 30), records(2, 10), tmp_path / "tuned",
                           test=test, report=lines.append, threshold=0.0,
                           **{**SETTINGS, "epochs": 1, "seeds": 2})
    seeds = [line for line in lines if "best_epoch" in line]
    assert [line[name]["threshold"] for line in seeds for name in ("dev", "test")] == [0.35] * 4
    assert read_manifest(tmp_path / "tuned")["settings"]["threshold"] == 0.35
    for one in bmtools.tasks.predict(test, tmp_path / "tuned"):
        found = one["predicted"]
        assert found["labels"] == [label for label, value in found["probabilities"].items()
                                   if value >= 0.35]


def test_sets_are_described(bert: Path) -> None:
    task = task_of(bert)
    task.read("train", records(1, 20))
    split = task.read("dev", [
        Record(id="x", text="il " * 40, labels=["cuore", "nuovo"], meta={"document": "d"}),
        Record(id="y", text="il", labels=[], meta={"document": "d"})])
    assert split.counts == {"records": 2, "truncated": 1, "documents": 1, "unlabelled": 1,
                            "labels": {"cuore": 1, "nuovo": 1}, "unseen_labels": {"nuovo": 1}}
    assert split.notes == [
        "dev: 1 of 2 records have the label nuovo, which train lacks; they count as missed",
        "dev: 1 of 2 records are longer than 16 tokens and were truncated"]
