from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toy_models import learn_wordpiece, save_random

from bmtools.io.output import encode_lines
from bmtools.records import Record
from bmtools.tasks.finetune import finetune
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.metrics.score_tasks import task_scores
from bmtools.tasks.ner import PicoTask
from bmtools.tasks.predict import predict
from bmtools.tasks.settings import PicoConfig

pytestmark = pytest.mark.usefixtures("one_thread")
ELEMENTS = {"adults with asthma": "PAR", "low-dose aspirin": "INT", "mortality": "OUT"}


def record(number: int) -> Record:
    """Elements between other words, in an order that depends on the number."""
    text, entities = "", []
    for word in range(7):
        added = [*ELEMENTS, "in a trial", "showed", "the"][(number * 5 + word * (number + 3)) % 6]
        if added in ELEMENTS:
            entities.append({"start": len(text), "end": len(text) + len(added),
                             "type": ELEMENTS[added]})
        text += f"{added} "
    return Record(id=str(number), text=text.strip(), entities=entities)


RECORDS = [record(number) for number in range(36)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model of one layer with random weights."""
    tokenizer = learn_wordpiece((r["text"] for r in RECORDS), 100)
    return save_random(tmp_path_factory.mktemp("models") / "random", tokenizer)


@pytest.mark.parametrize("settings", [{}, {"crf": True, "overlapping": True}], ids=str)
def test_elements_are_learned_and_scored_by_words(encoder: Path, tmp_path: Path,
                                                  settings: dict[str, Any]) -> None:
    """The reported scores are those that score-tasks finds for the same predictions."""
    summary = finetune("pico", encoder, RECORDS, RECORDS[:10], tmp_path / "tuned", seeds=1,
                       epochs=3, batch_size=4, learning_rate=3e-3, max_length=24, **settings)
    reported = summary["dev_macro_f1"]["mean"]
    assert reported > 0.5
    found = tmp_path / "found.jsonl"
    found.write_bytes(encode_lines(predict(RECORDS[:10], tmp_path / "tuned")))
    gold = tmp_path / "gold.jsonl"
    gold.write_bytes(encode_lines(RECORDS[:10]))
    [line] = task_scores(str(gold), [str(found)], task="pico", resamples=10)
    assert line["macro_f1"] == pytest.approx(reported, abs=1e-6)


def test_words_count_one_by_one_and_types_alike(encoder: Path) -> None:
    """Worked by hand: five words, of which one has two types and one is touched inside."""
    task = PicoTask(PicoConfig(24), load_encoder(encoder, "AutoModelForTokenClassification"))
    [example] = task.read("train", [Record(id="1", text="adults with low-dose aspirin died.",
                                           entities=[
        {"start": 0, "end": 16, "type": "PAR"}, {"start": 12, "end": 28, "type": "INT"},
        {"start": 29, "end": 33, "type": "OUT"}])]).examples
    scores, details = task.score_entities([example], [[(0, 11, "PAR"), (12, 20, "INT"),
                                                       (0, 6, "INT")]])
    by_type = {kind: one["f1"] for kind, one in details["by_type"].items()}
    assert by_type == {"PAR": 0.8, "INT": 0.5, "OUT": 0}
    assert scores["macro_f1"] == pytest.approx(1.3 / 3, abs=1e-6)
