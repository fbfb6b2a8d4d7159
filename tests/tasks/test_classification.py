"""Classification of texts and of pairs, on toys and on real sets."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from toy_models import learn_wordpiece, save_random
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import bmtools.tasks
from bmtools.errors import BmtoolsError, CheckpointError, DataError, RecordError
from bmtools.io.json_files import read_manifest
from bmtools.records import Record
from bmtools.tasks.classification import ClassificationConfig, ClassificationTask
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.task import Evaluation

pytestmark = pytest.mark.usefixtures("one_thread")

WORDS = ["il", "la", "paziente", "con", "dolore", "e", "febbre", "due", "caffe\u0301"]
SIGNS = {"asma": "respiro", "artrosi": "ginocchio", "infarto": "cuore"}
SETTINGS: dict[str, Any] = {"seeds": 1, "epochs": 8, "batch_size": 8, "learning_rate": 3e-3,
                            "max_length": 32}


def records(seed: int, count: int, pairs: bool = False) -> list[Record]:
    """Texts with a word that decides the label; of pairs, the second text has it."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        sign = rng.choice(list(SIGNS))
        words = [rng.choice(WORDS) for _ in range(rng.randint(3, 9))]
        with_sign = " ".join([*words[:2], sign, *words[2:]])
        keys = {"text": "il paziente", "text_pair": with_sign} if pairs else {"text": with_sign}
        made.append(Record(id=str(number), label=SIGNS[sign], place=f"a.jsonl:{number}", **keys))
    return made


@pytest.mark.parametrize("pairs", [False, True])
def test_a_random_model_learns_and_transformers_agrees(checkpoint: Path, tmp_path: Path,
                                                       pairs: bool) -> None:
    test = records(3, 20, pairs)
    result = bmtools.tasks.finetune(
        "classification", checkpoint, records(1, 90, pairs), records(2, 20, pairs),
        tmp_path / "tuned", test=test, **SETTINGS)
    assert result["test_accuracy"] == {
        "mean": 1.0, "median": 1.0, "deviation": None}
    assert result["test_macro_f1"] == result["dev_micro_f1"] == {
        "mean": 1.0, "median": 1.0, "deviation": None}
    manifest = read_manifest(tmp_path / "tuned")
    assert manifest["settings"]["task"] == "classification"
    assert manifest["settings"]["train"] == "<memory>"

    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tuned")
    stripped = [record.without("label") for record in test]
    predicted = list(bmtools.tasks.predict(stripped, tmp_path / "tuned", batch_size=7))
    assert [r["id"] for r in predicted] == [r["id"] for r in test]
    for gold, record in zip(test, predicted, strict=True):
        texts = [record["text"], *([record["text_pair"]] if pairs else [])]
        with torch.inference_mode():
            logits = model(**tokenizer(*texts, return_tensors="pt")).logits[0]
        theirs = logits.softmax(-1).numpy()
        found = record["predicted"]
        assert found["label"] == model.config.id2label[int(theirs.argmax())] == gold["label"]
        assert list(found["probabilities"].values()) == pytest.approx(theirs, abs=1e-4)
        assert found["score"] == max(found["probabilities"].values())


def test_the_first_loss_is_that_of_transformers(bert: Path) -> None:
    task = ClassificationTask(ClassificationConfig(32),
                              load_encoder(bert, ClassificationTask.model_class))
    examples = task.read("train", records(1, 6, pairs=True)).examples
    model = task.new_model(0).eval()
    inputs = [item for example in examples for item in example.inputs]
    batch = {name: torch.from_numpy(value) for name, value in task.collate(inputs).items()}
    labels = torch.from_numpy(task.collate_labels(inputs, {}))
    theirs = model(**batch, labels=labels).loss
    loss = task.loss(model, task.logits(model, batch), labels)
    assert loss.item() / 6 == pytest.approx(theirs.item(), abs=1e-6)
    outputs = [[row] for row in task.outputs(model, batch).detach().numpy()]
    assert task.score(examples, outputs).loss == pytest.approx(theirs.item(), abs=1e-6)


def test_f1_leaves_out_the_negative_class(bert: Path) -> None:
    """With two classes that is the F1 of the positive one, as GAD and EU-ADR are scored."""
    task = ClassificationTask(ClassificationConfig(32, negative="0"),
                              load_encoder(bert, ClassificationTask.model_class))
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 50)
    examples = task.read("train", [Record(id=str(n), text="il", label=str(one))
                                   for n, one in enumerate(gold)]).examples
    outputs = np.log(rng.dirichlet([1, 1], 50))
    found = task.score(examples, [[row] for row in outputs])
    assert found.scores["micro_f1"] == found.scores["macro_f1"] == pytest.approx(
        f1_score(gold, outputs.argmax(axis=1)), abs=1e-6)
    assert found.scores["accuracy"] == np.mean(gold == outputs.argmax(axis=1))
    assert list(found.details["by_label"]) == ["1"]
    with pytest.raises(DataError, match="negative: found 'none', expected one of 0, 1"):
        ClassificationTask(ClassificationConfig(32, negative="none"), task.checkpoint).read(
            "train", [Record(id=str(n), text="il", label=str(n % 2)) for n in range(4)])


@pytest.mark.parametrize(("metric", "best"), [("accuracy", 1), ("macro_f1", 2)])
def test_a_metric_chooses_the_epoch(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                    metric: str, best: int) -> None:
    scores = iter([{"accuracy": 0.9, "macro_f1": 0.3, "micro_f1": 0.9},
                   {"accuracy": 0.8, "macro_f1": 0.5, "micro_f1": 0.8}])
    monkeypatch.setattr(ClassificationTask, "score", lambda *_: Evaluation(next(scores), {}, 1.0))
    lines: list[dict[str, Any]] = []
    bmtools.tasks.finetune("classification", bert, records(1, 9), records(2, 5), tmp_path / "tuned",
                           report=lines.append, **{**SETTINGS, "epochs": 2},
                           metric_for_best_model=metric)
    assert next(line for line in lines if "best_epoch" in line)["best_epoch"] == best


def test_inference_needs_pairs(bert: Path, tmp_path: Path) -> None:
    alone = Record(id="x", text="il", label="cuore", place="a.jsonl:7")
    rejected: list[RecordError] = []
    lines: list[dict[str, Any]] = []
    bmtools.tasks.finetune("nli", bert, [alone, *records(1, 20, pairs=True)],
                           records(2, 5, pairs=True), tmp_path / "tuned", reject=rejected.append,
                           report=lines.append, **{**SETTINGS, "epochs": 1})
    expected = "a.jsonl:7: key 'text_pair' is missing; expected the second text of a pair"
    assert [str(error) for error in rejected] == [expected]
    assert lines[0]["records"] == lines[0]["pairs"] == 20
    assert read_manifest(tmp_path / "tuned")["settings"]["task"] == "nli"
    [found] = bmtools.tasks.predict(records(3, 1, pairs=True), tmp_path / "tuned")
    assert found["predicted"]["label"] in SIGNS.values()
    with pytest.raises(RecordError, match=expected):
        next(bmtools.tasks.predict([alone], tmp_path / "tuned"))
    with pytest.raises(CheckpointError, match="found a model for nli, expected one for classific"):
        bmtools.tasks.predict([], tmp_path / "tuned", task="classification")


def test_settings_are_checked(bert: Path, tmp_path: Path) -> None:
    def tune(**settings: Any) -> None:
        bmtools.tasks.finetune("classification", bert, [], [], tmp_path / "tuned", **settings)

    with pytest.raises(TypeError, match="found max_lenght, expected some of"):
        tune(max_lenght=3)
    with pytest.raises(ValueError, match="max_length: found 3, expected 8 or more"):
        tune(max_length=3)
    with pytest.raises(ValueError, match="metric_for_best_model: found f1, expected accuracy or"):
        tune(metric_for_best_model="f1")
    with pytest.raises(BmtoolsError, match="task: found 'poetry', expected ner or pico or "):
        bmtools.tasks.finetune("poetry", bert, [], [], tmp_path / "tuned")
    with pytest.raises(CheckpointError, match="was never fine-tuned"):
        bmtools.tasks.predict([], bert)


def test_the_table_of_tasks_needs_no_torch() -> None:
    code = ("import sys, bmtools.tasks\n"
            "from bmtools.tasks.registry import TASKS, load_task\n"
            "classes = [load_task(name) for name in TASKS]\n"
            "assert all(c.config_class.__doc__ for c in classes)\n"
            "assert not {'torch', 'transformers', 'tokenizers'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)


YES_NO: dict[str, Any] = {"seeds": 1, "epochs": 2, "batch_size": 4, "max_length": 32}


def questions() -> list[Record]:
    return [Record(id=str(number), question=f"does {drug} help", text=f"{drug} {verb} the pain",
                   label=label, place=f"a.jsonl:{number}")
            for number, (drug, verb, label) in enumerate([
                ("aspirin", "relieved", "yes"), ("water", "left", "no"),
                ("tea", "perhaps eased", "maybe"), ("sugar", "left", "no")] * 2)]


@pytest.fixture
def question_model(tmp_path: Path) -> Path:
    texts = [f"{record['question']} {record['text']}" for record in questions()]
    return save_random(tmp_path / "bert", learn_wordpiece(texts, 300))


def test_yesno_is_classification_of_question_and_text(question_model: Path, tmp_path: Path) -> None:
    pairs = [{"id": record["id"], "text": record["question"], "text_pair": record["text"],
              "label": record["label"]} for record in questions()]
    for task, given in (("yesno", questions()), ("classification", pairs)):
        bmtools.tasks.finetune(task, question_model, given, given, tmp_path / task, **YES_NO)
    weights = [(tmp_path / task / "model.safetensors").read_bytes()
               for task in ("yesno", "classification")]
    assert weights[0] == weights[1]
    asked = [record.without("label") for record in questions()]
    found = [[record["predicted"] for record in bmtools.tasks.predict(given, tmp_path / task)]
             for task, given in (("yesno", asked), ("classification", pairs))]
    assert found[0] == found[1]
    assert set(found[0][0]["probabilities"]) == {"yes", "no", "maybe"}
