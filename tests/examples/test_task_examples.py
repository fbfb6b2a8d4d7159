"""The examples on the field's task sets: their baselines, and both whole but at toy size."""

from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ONE_SET = """all = "--batch-size 8 --epochs 1"
[BIOSSES]
set = "BIOSSES"
task = "similarity"
finetune = "--max-length 64"
plain = "linear"
variants = {{ mlp = "--set dropout=0" }}
["{name}"]
set = "{questions}"
task = "{task}"
finetune = "--max-length 64"
"""


@pytest.fixture
def baselines(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES / "blurb"))
    return importlib.import_module("baseline")


def entity(text: str, mention: str, id_: str = "a") -> dict[str, Any]:
    start = text.index(mention)
    return {"id": id_, "start": start, "end": start + len(mention), "type": "Disease",
            "text": mention}


def sentence(text: str, *mentions: str) -> dict[str, Any]:
    return {"text": text, "entities": [entity(text, mention, mention) for mention in mentions]}


def test_dictionary_takes_the_longest_mention_marked_half_the_time(baselines: ModuleType) -> None:
    train = [sentence("Breast cancer was seen.", "Breast cancer"), sentence("A cold case."),
             sentence("A cold day and a cancer.", "cancer"), sentence("A cold.", "cold")]
    predict = baselines.baseline(train, [])
    found = predict({"text": "No breast cancer, a CANCER and a cold."})["entities"]
    assert [(one["text"], one["type"]) for one in found] == [
        ("breast cancer", "Disease"), ("CANCER", "Disease")]


def test_known_pairs_have_their_commonest_relation(baselines: ModuleType) -> None:
    def pair(*types: str) -> list[dict[str, Any]]:
        return [{**sentence("x binds y", "x", "y"),
                 "relations": [{"head": "x", "tail": "y", "type": type_}] if type_ else []}
                for type_ in types]

    predict = baselines.baseline([*pair("inhibits", "inhibits", ""), {
        **sentence("x and z", "x", "z"), "relations": []}], [])
    assert predict(pair("")[0])["relations"] == [{"head": "x", "tail": "y", "type": "inhibits"}]
    assert predict(sentence("x near z", "x", "z"))["relations"] == []


def test_known_answers_labels_and_common_words(baselines: ModuleType) -> None:
    question = {"question": "Which?", "text": "It is NF1.",
                "answers": [{"text": "nf1", "start": 6}]}
    predict = baselines.baseline([question], [])
    assert predict({**question, "text": "Now NF1"})["answers"] == [{"text": "NF1", "start": 4}]
    assert predict({**question, "question": "Who?"})["answers"] == []
    labels = baselines.baseline([{"labels": []}, {"labels": []}, {"labels": ["a"]}], [])
    assert labels({"labels": []}) == {"labels": ["a"]}
    similarity = baselines.baseline([{"score": 1}], [])
    assert similarity({"text": "a b", "text_pair": "B, c"})["score"] == pytest.approx(1.0)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name, task, questions, set_name", [
    ("blurb", "yesno", "BioASQ", "BioASQ"), ("biobit-tasks", "qa", "BioASQ-4b", "BioASQ 4b")])
def test_examples(data: Path, tmp_path: Path, run_script: Any, read: Any, name: str, task: str,
                  questions: str, set_name: str) -> None:
    for folder in ("blurb", "biobit-tasks"):
        shutil.copytree(EXAMPLES / folder, tmp_path / folder, ignore=shutil.ignore_patterns("out"))
    here = tmp_path / name
    phases = (here / "pretraining.toml").read_text()
    (here / "pretraining.toml").write_text(re.sub(r"tokens = [\d_]+", "tokens = 4000", phases))
    script = tmp_path / "blurb" / "two_starts.sh"
    script.write_text(script.read_text().replace("bert-4x256", "bert-1x64"))
    settings = ONE_SET.format(task=task, questions=questions, name=set_name)
    if name == "biobit-tasks":      # which has no pairs of sentences
        settings = re.sub(r"\[BIOSSES\][^[]*", "", settings)
    (here / "experiments.toml").write_text(settings)
    out = tmp_path / "out"
    run_script(here / "run.sh", OUT=str(out), DATA=str(data), SEEDS="0 1", RECORDS="40",
               PRETRAINING="--set mixed_precision=no")
    scores = {path.stem: read(path) for path in (out / "scores").glob("*.jsonl")}
    models = {line["model"] for line in scores[set_name] if "model" in line}
    assert {"pretrained", "random", "baseline"} <= models
    compared = [set(line["compared"]) for line in scores[set_name] if "compared" in line]
    assert {"pretrained", "random"} in compared
    if name == "blurb":
        assert len(read(out / "sets/PubMedQA/test.jsonl")) == 500
        assert len(read(out / "sets/BC5CDR/test.jsonl")) == 4797
        variants = {line.get("model") for line in read(out / "variants/BIOSSES.jsonl")}
        assert {"linear", "mlp"} <= variants
    suite = read(out / "suite.jsonl")
    assert {"pretrained", "random", "baseline"} <= {line.get("model") for line in suite}
