"""Classification and similarity of texts and pairs, on toy data and on BIOSSES."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from toy_models import learn_wordpiece, save_random
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

import bmtools.tasks
from bmtools.errors import BmtoolsError, CheckpointError, DataError, RecordError
from bmtools.io.json_files import read_manifest
from bmtools.models.merge import merge
from bmtools.records import Record
from bmtools.study.cards.card import write_cards
from bmtools.tasks.classification import ClassificationTask, MultilabelTask, SimilarityTask
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.metrics.samples import measure
from bmtools.tasks.registry import TASKS, load_task
from bmtools.tasks.settings import ClassificationConfig, MultilabelConfig, SimilarityConfig
from bmtools.tasks.task import Evaluation

pytestmark = pytest.mark.usefixtures("one_thread")

WORDS = ["il", "la", "paziente", "con", "dolore", "e", "febbre", "due", "caffe\u0301"]
SIGNS = {"asma": "respiro", "artrosi": "ginocchio", "infarto": "cuore"}
SETTINGS: dict[str, Any] = {"seeds": 1, "epochs": 8, "batch_size": 8, "learning_rate": 3e-3,
                            "max_length": 32}
MANY_EPOCHS = {**SETTINGS, "epochs": 12, "patience": 12, "learning_rate": 1e-3}


def records(seed: int, count: int, pairs: bool = False) -> list[Record]:
    """Texts with a word that decides the label; with pairs, it is in the second text."""
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
        tmp_path / "tuned", test=test, **{**SETTINGS, "epochs": 16})
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


@pytest.mark.parametrize(("head", "pairs"), [("mlp", False), ("bilstm", True)])
def test_other_heads_learn_and_merge(bert: Path, tmp_path: Path, head: str, pairs: bool) -> None:
    """Probabilities stay the same in a batch with padding and after a merge."""
    test = records(3, 20, pairs)
    result = bmtools.tasks.finetune(
        "classification", bert, records(1, 90, pairs), records(2, 20, pairs),
        tmp_path / "tuned", test=test, head=head, head_size=32, head_layers=2, head_dropout=0.1,
        **MANY_EPOCHS)
    assert result["test_accuracy"]["mean"] == 1.0
    merge([tmp_path / "tuned"] * 2, tmp_path / "merged")
    found = [[record["predicted"] for record in bmtools.tasks.predict(
        [record.without("label") for record in test], tmp_path / name, batch_size=size)]
        for name, size in (("tuned", 1), ("merged", 9))]
    assert [one["label"] for one in found[1]] == [record["label"] for record in test]
    for one, other in zip(*found, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-3)
    write_cards(tmp_path / "tuned")
    assert "from transformers import pipeline" not in (tmp_path / "tuned/README.md").read_text()


def test_titles_are_read_as_in_pretraining(bert: Path, tmp_path: Path) -> None:
    train, dev = ([record.replace(title=record["text"], text="il")
                   for record in records(seed, count)] for seed, count in ((1, 90), (2, 20)))
    result = bmtools.tasks.finetune("classification", bert, train, dev, tmp_path / "tuned",
                                    **{**SETTINGS, "epochs": 20, "patience": 20})
    assert result["dev_accuracy"]["mean"] == 1
    found = bmtools.tasks.predict(dev, tmp_path / "tuned")
    assert [one["predicted"]["label"] for one in found] == [one["label"] for one in dev]


@pytest.mark.parametrize("name", ["classification", "multilabel", "similarity"])
def test_first_loss_equals_transformers(bert: Path, name: str) -> None:
    task: Any = similarity(bert) if name == "similarity" else multilabel(bert) \
        if name == "multilabel" else ClassificationTask(
            ClassificationConfig(32), load_encoder(bert, ClassificationTask.model_class))
    given = {"similarity": rated(1, 9), "multilabel": signed(1, 6),
             "classification": records(1, 6, pairs=True)}[name]
    examples = task.read("train", given).examples
    model = task.new_model(0).eval()
    inputs = [item for example in examples for item in example.inputs]
    batch = {name: torch.from_numpy(value) for name, value in task.collate(inputs).items()}
    labels = torch.from_numpy(task.collate_labels(inputs, {}))
    if name == "similarity":
        assert labels.mean().item() == pytest.approx(0, abs=1e-6)
        assert labels.std(correction=0).item() == pytest.approx(1)
    theirs = model(**batch, labels=labels).loss
    loss = task.loss(model, task.logits(model, batch), labels)
    assert loss.item() / labels.numel() == pytest.approx(theirs.item())
    outputs = [[row] for row in task.outputs(model, batch).detach().numpy()]
    assert task.score(examples, outputs).loss == pytest.approx(theirs.item(), abs=1e-6)


@pytest.mark.parametrize(("metric", "best"), [("accuracy", 1), ("macro_f1", 2)])
def test_metric_for_best_model_selects_the_epoch(bert: Path, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch, metric: str,
                                                 best: int) -> None:
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
    with pytest.raises(BmtoolsError, match="task: found 'poetry', expected ner or pico or "):
        bmtools.tasks.finetune("poetry", bert, [], [], tmp_path / "tuned")
    with pytest.raises(CheckpointError, match="was never fine-tuned"):
        bmtools.tasks.predict([], bert)


def test_the_table_of_tasks_needs_no_torch() -> None:
    code = ("import sys, bmtools.tasks\n"
            "from bmtools.tasks.registry import TASKS, check_into\n"
            "for name, (_, settings, key, _) in TASKS.items():\n"
            "    assert settings.__doc__\n"
            "    check_into(key, name)\n"
            "assert not {'torch', 'transformers', 'tokenizers'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True)
    assert all(load_task(name).key == key for name, (_, _, key, _) in TASKS.items())


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


# Any number of labels


def signed(seed: int, count: int) -> list[Record]:
    """Pairs of sentences form documents; up to three signs in a sentence decide its labels."""
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
    bmtools.tasks.finetune("multilabel", bert, signed(1, 160), signed(2, 30),
                           bert.parent / "tuned", **MANY_EPOCHS)
    return bert.parent / "tuned"


def multilabel(bert: Path, **settings: Any) -> MultilabelTask:
    return MultilabelTask(MultilabelConfig(max_length=16, **settings),
                          load_encoder(bert, MultilabelTask.model_class))


def test_label_sets_are_learned_and_transformers_agrees(tuned: Path) -> None:
    test = signed(3, 20)
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


def scored(bert: Path, probabilities: np.ndarray, **settings: Any) -> Evaluation:
    """Score label probabilities for 40 records."""
    task = multilabel(bert, **settings)
    examples = task.read("train", signed(4, 40)).examples
    return task.score(examples, [[row] for row in np.log(probabilities / (1 - probabilities))])


def test_the_threshold_is_the_best_on_the_development_set(bert: Path) -> None:
    probabilities = np.random.default_rng(0).uniform(0.01, 0.99, (40, 3))
    fixed = {threshold: scored(bert, probabilities, threshold=threshold).scores["micro_f1"]
             for threshold in (0.05, 0.25, 0.5, 0.75, 0.95)}
    chosen = scored(bert, probabilities, threshold=0.0)
    assert chosen.scores["micro_f1"] >= max(fixed.values())
    assert chosen.settings == {"threshold": chosen.details["threshold"]}


def test_chosen_threshold_is_used_on_the_test_set_and_in_predictions(
         bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.tasks.classification._THRESHOLDS", [0.35])
    lines: list[dict[str, Any]] = []
    test = signed(3, 10)
    bmtools.tasks.finetune("multilabel", bert, signed(1, 30), signed(2, 10), tmp_path / "tuned",
                           test=test, report=lines.append, threshold=0.0,
                           **{**MANY_EPOCHS, "epochs": 1, "seeds": 2})
    seeds = [line for line in lines if "best_epoch" in line]
    assert [line[name]["threshold"] for line in seeds for name in ("dev", "test")] == [0.35] * 4
    assert read_manifest(tmp_path / "tuned")["settings"]["threshold"] == 0.35
    for one in bmtools.tasks.predict(test, tmp_path / "tuned"):
        found = one["predicted"]
        assert found["labels"] == [label for label, value in found["probabilities"].items()
                                   if value >= 0.35]


def test_label_sets_are_counted_and_noted(bert: Path) -> None:
    task = multilabel(bert)
    task.read("train", signed(1, 20))
    split = task.read("dev", [
        Record(id="x", text="il " * 40, labels=["cuore", "nuovo"], meta={"document": "d"}),
        Record(id="y", text="il", labels=[], meta={"document": "d"})])
    assert split.counts == {"records": 2, "truncated": 1, "documents": 1, "unlabelled": 1,
                            "labels": {"cuore": 1, "nuovo": 1}, "unseen_labels": {"nuovo": 1}}
    assert split.notes == [
        "1 of 2 records have the label nuovo, which is not in train; they count as missed",
        "1 of 2 records are longer than 16 tokens and were truncated"]


# Similarity


SCORES = {"asma": 100.0, "artrosi": 140.0, "infarto": 150.0}


def rated(seed: int, count: int) -> list[Record]:
    """Pairs whose second text decides the score, which is far from 0."""
    rng = random.Random(seed)
    return [Record(id=str(number), text="il paziente", text_pair=f"la febbre e {sign}",
                   score=SCORES[sign], place=f"a.jsonl:{number}")
            for number, sign in enumerate(rng.choices(list(SCORES), k=count))]


def similarity(bert: Path) -> SimilarityTask:
    return SimilarityTask(SimilarityConfig(max_length=16),
                          load_encoder(bert, SimilarityTask.model_class))


def test_predictions_have_the_scale_of_the_scores_and_equal_transformers( checkpoint: Path,
                                                                         tmp_path: Path) -> None:
    result = bmtools.tasks.finetune(
        "similarity", checkpoint, rated(1, 60), rated(2, 12), tmp_path / "tuned",
        **{**SETTINGS, "epochs": 4, "learning_rate": 2e-3})
    assert result["dev_pearson"]["mean"] > 0.95
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned").eval()
    assert (model.config.num_labels, model.config.problem_type) == (1, "regression")
    assert model.config.id2label == {0: "score"}
    regressor = pipeline("text-classification", model=model,
                         tokenizer=AutoTokenizer.from_pretrained(tmp_path / "tuned"))
    test = rated(3, 8)
    for gold, one in zip(test, bmtools.tasks.predict(test, tmp_path / "tuned"), strict=True):
        found = one["predicted"]["score"]
        assert 80 < found < 170
        theirs = regressor({"text": gold["text"], "text_pair": gold["text_pair"]})
        assert theirs["score"] == pytest.approx(found, abs=1e-2)
    further = similarity(tmp_path / "tuned")
    further.read("train", rated(4, 9))
    for name, weight in further.finish(further.new_model(0)).state_dict().items():
        torch.testing.assert_close(weight, model.state_dict()[name])
    write_cards(tmp_path / "tuned")
    card = (tmp_path / "tuned" / "README.md").read_text()
    assert "| output | score |" in card and "| labels |" not in card


@pytest.mark.parametrize(("given", "error", "found"), [
    (Record(id="1", text="il", score=1.0, place="a.jsonl:7"), RecordError,
     r"a\.jsonl:7: key 'text_pair' is missing; expected the second text of a pair"),
    (Record(id="1", text="il", text_pair="la", place="a.jsonl:7"), RecordError,
     r"a\.jsonl:7: key 'score' is missing; expected the similarity of the texts"),
    (Record(id="1", text="il", text_pair="la", score=1.0), DataError,
     "train: found 1 different scores in 1 records, expected two or more")])
def test_unusable_records_are_errors(bert: Path, given: Record, error: type[Exception],
                                     found: str) -> None:
    with pytest.raises(error, match=found):
        similarity(bert).read("train", [given])


def correlation(gold: Any, found: Any) -> Any:
    scores, _ = measure("similarity", *([{"score": one} for one in side] for side in (gold, found)))
    assert scores.pop("support") == len(gold)
    return scores


def assert_equals_scipy(gold: np.ndarray, found: np.ndarray) -> None:
    assert correlation(gold.tolist(), found.tolist()) == {
        "pearson": pytest.approx(stats.pearsonr(gold, found).statistic, abs=1e-6),
        "spearman": pytest.approx(stats.spearmanr(gold, found).statistic, abs=1e-6)}

@pytest.mark.parametrize("shape", [lambda x: x, np.exp, np.round, lambda x: 1e6 + x,
                                   lambda x: np.minimum(x, 0), lambda x: -1e-9 * x])
def test_coefficients_equal_scipy(shape: np.ufunc) -> None:
    rng = np.random.default_rng(0)
    for size in (3, 20, 500):
        gold = rng.normal(size=size)
        assert_equals_scipy(gold, shape(gold + rng.normal(size=size)))


@pytest.mark.parametrize(("gold", "found"), [([], []), ([1], [2]), ([1, 2], [3, 3]),
                                             ([0.1] * 7, [*range(7)])])
def test_constant_sides_have_no_coefficient(gold: list[float], found: list[float]) -> None:
    assert correlation(gold, found) == {"pearson": 0, "spearman": 0}
