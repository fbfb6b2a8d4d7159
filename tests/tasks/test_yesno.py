"""Yes/no questions are pairs of question and text; all else is classification's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toy_models import learn_wordpiece, save_random

import bmtools.tasks
from bmtools.corpus.formats.sets.pubmedqa import pubmedqa_records
from bmtools.errors import RecordError
from bmtools.records import Record
from bmtools.tasks.classification import YesNoTask
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.settings import YesNoConfig

pytestmark = pytest.mark.usefixtures("one_thread")

SETTINGS: dict[str, Any] = {"seeds": 1, "epochs": 2, "batch_size": 4, "max_length": 32}


def questions() -> list[Record]:
    return [Record(id=str(number), question=f"does {drug} help", text=f"{drug} {verb} the pain",
                   label=label, place=f"a.jsonl:{number}")
            for number, (drug, verb, label) in enumerate([
                ("aspirin", "relieved", "yes"), ("water", "left", "no"),
                ("tea", "perhaps eased", "maybe"), ("sugar", "left", "no")] * 2)]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    texts = [f"{record['question']} {record['text']}" for record in questions()]
    return save_random(tmp_path / "bert", learn_wordpiece(texts, 300))


def test_it_is_classification_of_question_and_text(bert: Path, tmp_path: Path) -> None:
    pairs = [{"id": record["id"], "text": record["question"], "text_pair": record["text"],
              "label": record["label"]} for record in questions()]
    for task, given in (("yesno", questions()), ("classification", pairs)):
        bmtools.tasks.finetune(task, bert, given, given, tmp_path / task, **SETTINGS)
    weights = [(tmp_path / task / "model.safetensors").read_bytes()
               for task in ("yesno", "classification")]
    assert weights[0] == weights[1]
    asked = [record.without("label") for record in questions()]
    found = [[record["predicted"] for record in bmtools.tasks.predict(given, tmp_path / task)]
             for task, given in (("yesno", asked), ("classification", pairs))]
    assert found[0] == found[1]
    assert set(found[0][0]["probabilities"]) == {"yes", "no", "maybe"}


def test_records_without_a_question_are_refused_or_collected(bert: Path) -> None:
    task = YesNoTask(YesNoConfig(32), load_encoder(bert, YesNoTask.model_class))
    bad = Record(id="x", text="tea", label="yes", place="a.jsonl:9")
    with pytest.raises(RecordError, match=r"a\.jsonl:9: key 'question' is missing or empty"):
        task.read("train", [*questions(), bad])
    errors: list[RecordError] = []
    assert task.read("train", [*questions(), bad], errors.append).counts["pairs"] == 8
    assert [error.place for error in errors] == ["a.jsonl:9"]
    with pytest.raises(RecordError, match=r"a\.jsonl:9: key 'question'"):
        task.encode([bad])


@pytest.mark.data
def test_pubmedqa(data: Path, tmp_path: Path) -> None:
    """Its published 500 test questions, three answers."""
    directory = data / "en/qa/pubmedqa"
    gold = json.loads((directory / "test_ground_truth.json").read_text(encoding="utf-8"))
    records = list(pubmedqa_records([str(directory / "ori_pqal.json")]))
    test = [record for record in records if record["id"] in gold]
    assert len(test) == 500
    words = learn_wordpiece([record["text"] for record in test[:50]], 300)
    task = YesNoTask(YesNoConfig(64), load_encoder(save_random(tmp_path / "bert", words),
                                                   YesNoTask.model_class))
    counts = task.read("train", test[:60]).counts
    assert counts["pairs"] == 60 and set(counts["labels"]) == {"yes", "no", "maybe"}
