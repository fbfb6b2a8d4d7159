"""Similarity of pairs, on toys and on BIOSSES."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

import bmtools.tasks
from bmtools.errors import CheckpointError, DataError, RecordError
from bmtools.records import Record
from bmtools.statistics.samples import pearson, spearman
from bmtools.study.cards.card import write_cards
from bmtools.tasks.classification import SimilarityTask
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.metrics.samples import measure
from bmtools.tasks.settings import SimilarityConfig

pytestmark = pytest.mark.usefixtures("one_thread")

SETTINGS: dict[str, Any] = {"seeds": 1, "epochs": 4, "batch_size": 8, "learning_rate": 2e-3,
                            "max_length": 32}
SCORES = {"asma": 100.0, "artrosi": 140.0, "infarto": 150.0}


def records(seed: int, count: int) -> list[Record]:
    """Pairs whose second text decides the score, which is far from 0."""
    rng = random.Random(seed)
    return [Record(id=str(number), text="il paziente", text_pair=f"la febbre e {sign}",
                   score=SCORES[sign], place=f"a.jsonl:{number}")
            for number, sign in enumerate(rng.choices(list(SCORES), k=count))]


def task_of(bert: Path) -> SimilarityTask:
    return SimilarityTask(SimilarityConfig(max_length=16),
                          load_encoder(bert, SimilarityTask.model_class))


def test_predictions_are_in_the_scale_of_the_scores_and_transformers_agrees(
        checkpoint: Path, tmp_path: Path) -> None:
    result = bmtools.tasks.finetune("similarity", checkpoint, records(1, 60), records(2, 12),
                                    tmp_path / "tuned", **SETTINGS)
    assert result["dev_pearson"]["mean"] > 0.95
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned").eval()
    assert (model.config.num_labels, model.config.problem_type) == (1, "regression")
    assert model.config.id2label == {0: "score"}
    regressor = pipeline("text-classification", model=model,
                         tokenizer=AutoTokenizer.from_pretrained(tmp_path / "tuned"))
    test = records(3, 8)
    for gold, one in zip(test, bmtools.tasks.predict(test, tmp_path / "tuned"), strict=True):
        found = one["predicted"]["score"]
        assert 80 < found < 170
        theirs = regressor({"text": gold["text"], "text_pair": gold["text_pair"]})
        assert theirs["score"] == pytest.approx(found, abs=1e-2)
    further = task_of(tmp_path / "tuned")
    further.read("train", records(4, 9))
    for name, weight in further.finish(further.new_model(0)).state_dict().items():
        torch.testing.assert_close(weight, model.state_dict()[name])
    write_cards(tmp_path / "tuned")
    card = (tmp_path / "tuned" / "README.md").read_text()
    assert "| output | score |" in card and "| labels |" not in card


def test_the_first_loss_is_that_of_transformers(bert: Path) -> None:
    task = task_of(bert)
    examples = task.read("train", records(1, 9)).examples
    model = task.new_model(0).eval()
    inputs = [item for example in examples for item in example.inputs]
    batch = {name: torch.from_numpy(value) for name, value in task.collate(inputs).items()}
    labels = torch.from_numpy(task.collate_labels(inputs, {}))
    assert labels.mean().item() == pytest.approx(0, abs=1e-6)
    assert labels.std(correction=0).item() == pytest.approx(1)
    theirs = model(**batch, labels=labels).loss
    loss = task.loss(model, task.logits(model, batch), labels)
    assert loss.item() / 9 == pytest.approx(theirs.item())
    outputs = [[row] for row in task.outputs(model, batch).detach().numpy()]
    assert task.score(examples, outputs).loss == pytest.approx(theirs.item(), abs=1e-6)


def test_close_scores_stay_apart(bert: Path) -> None:
    """As of a model that has learned little; rounding would change their correlation."""
    task = task_of(bert)
    [example] = task.encode(records(1, 1))
    found = [task.predict(example, [np.array([score])])["score"]
             for score in (2.11412, 2.11413)]
    assert found == [2.11412, 2.11413]


@pytest.mark.parametrize(("given", "error", "found"), [
    (Record(id="1", text="il", score=1.0, place="a.jsonl:7"), RecordError,
     r"a\.jsonl:7: key 'text_pair' is missing; expected the second text of a pair"),
    (Record(id="1", text="il", text_pair="la", place="a.jsonl:7"), RecordError,
     r"a\.jsonl:7: key 'score' is missing; expected the similarity of the texts, a number"),
    (Record(id="1", text="il", text_pair="la", score=1.0), DataError,
     "train: found 1 different scores in 1 records, expected two or more")])
def test_records_that_teach_nothing_are_refused(bert: Path, given: Record, error: type[Exception],
                                                found: str) -> None:
    with pytest.raises(error, match=found):
        task_of(bert).read("train", [given])


def test_models_with_several_outputs_are_refused(bert: Path, tmp_path: Path) -> None:
    from tasks.test_classification import records as labelled

    bmtools.tasks.finetune("classification", bert, labelled(1, 9), labelled(2, 5),
                           tmp_path / "tuned", **{**SETTINGS, "epochs": 1})
    (tmp_path / "tuned" / "bmtools.json").unlink()
    with pytest.raises(CheckpointError, match="found 3 labels, expected a model for similarity"):
        bmtools.tasks.predict(records(1, 2), tmp_path / "tuned", task="similarity")


def correlation(gold: Any, found: Any) -> Any:
    return measure("similarity", *([{"score": one} for one in side] for side in (gold, found)))[0]


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


@pytest.mark.data
def test_coefficients_equal_scipy_on_real_scores(data: Path) -> None:
    with (data / "en/sts/BIOSSES/biosses.tsv").open(encoding="utf-8", newline="") as stream:
        rows = [*csv.DictReader(stream, delimiter="\t")]
    gold = np.array([float(row["score"]) for row in rows])
    assert len(gold) == 100
    for annotator in "ABCDE":
        assert_equals_scipy(gold, np.array([float(row[annotator]) for row in rows]))


@pytest.mark.parametrize(("gold", "found"), [([], []), ([1], [2]), ([1, 2], [3, 3]),
                                             ([0.1] * 7, [*range(7)])])
def test_constant_sides_have_no_coefficient(gold: list[float], found: list[float]) -> None:
    assert correlation(gold, found) == {"pearson": 0, "spearman": 0}


def test_weights_repeat_items() -> None:
    rng = np.random.default_rng(1)
    gold, found = rng.integers(0, 6, 30), rng.integers(0, 6, 30)
    weights = rng.integers(0, 4, (5, 30))
    for coefficient, theirs in ((pearson, stats.pearsonr), (spearman, stats.spearmanr)):
        expected = [theirs(np.repeat(gold, row), np.repeat(found, row)).statistic
                    for row in weights]
        assert coefficient(gold, found, weights).tolist() == pytest.approx(expected)
