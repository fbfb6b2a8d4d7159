from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_tokenizers import train_tokenizer

import bmtools.tasks
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import save_checkpoint
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint

pytestmark = pytest.mark.usefixtures("one_thread")

TEXT = "il paziente ha diabete mellito e asma"
RECORDS = [{"id": str(n), "text": TEXT, "entities": [
    {"start": 15, "end": 30, "type": "DIS"}, {"start": 33, "end": 37, "type": "DIS"}]}
           for n in range(4)]
QUICK = ("--seeds", "1", "--epochs", "2", "--learning-rate", "3e-3", "--max-length", "32")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "random"
    tokenizer = train_tokenizer([TEXT] * 3, VocabularyConfig(size=100, allow_fewer=True))
    torch.manual_seed(0)
    model = build_model(build_config("bert-1x64", tokenizer))
    save_checkpoint(directory, model, tokenizer, Manifest("test", {}, fingerprint(tokenizer)))
    return directory


@pytest.fixture
def arguments(checkpoint: Path, write_lines: Callable[..., Path], tmp_path: Path) -> list[Any]:
    train, dev = write_lines("train.jsonl", *RECORDS), write_lines("dev.jsonl", RECORDS[0])
    return ["finetune", "ner", "--model", checkpoint, "--train", train, "--dev", dev,
            "-o", tmp_path / "tuned", *QUICK]


def test_the_manifest_describes_the_run(run: Callable[..., Any], arguments: list[Any],
                                        tmp_path: Path) -> None:
    run(*arguments, "--merge-types", "Disease")
    manifest = json.loads((tmp_path / "tuned/bmtools.json").read_text())
    assert manifest["command"] == "finetune"
    assert manifest["settings"]["merge_types"] == "Disease"
    assert manifest["settings"]["task"] == "ner"
    assert len(manifest["inputs"]) == 2 and set(manifest["parents"]) == {"model"}
    config = json.loads((tmp_path / "tuned/config.json").read_text())
    assert config["id2label"] == {"0": "O", "1": "B-Disease", "2": "I-Disease"}
    assert config["architectures"] == ["BertForTokenClassification"]
    assert (tmp_path / "tuned/seeds.jsonl").is_file()


def test_entities_that_tags_cannot_express_are_reported(run: Callable[..., Any],
                                                        arguments: list[Any],
                                                        write_lines: Callable[..., Path]) -> None:
    odd = {"id": "1", "text": TEXT, "entities": [
        {"start": 15, "end": 30, "type": "DIS"}, {"start": 15, "end": 22, "type": "DIS"},
        {"start": 33, "end": 35, "type": "OTHER"}]}
    arguments[arguments.index("--dev") + 1] = write_lines("odd.jsonl", odd)
    outcome = run(*arguments)
    assert outcome.code == 0
    assert ("--dev: of 3 entities, 1 that begin or end inside a word; 1 overlapping a longer "
            "entity and not tagged; tags can represent 1") in outcome.err
    assert "--dev: 1 of 3 entities are OTHER, which is not in --train" in outcome.err


LABELLED = [{"id": str(n), "text": TEXT, "text_pair": word, "label": word}
            for n, word in enumerate(["asma", "diabete"] * 4)]


@pytest.fixture
def classification(checkpoint: Path, write_lines: Callable[..., Path],
                   tmp_path: Path) -> list[Any]:
    train, dev = write_lines("train.jsonl", *LABELLED), write_lines("dev.jsonl", *LABELLED[:3])
    return ["finetune", "classification", "--model", checkpoint, "--train", train, "--dev", dev,
            "-o", tmp_path / "tuned", *QUICK]


def test_pairs_are_classified(run: Callable[..., Any], classification: list[Any],
                              tmp_path: Path) -> None:
    outcome = run(*classification, "--test", classification[7])
    assert outcome.code == 0, outcome.err
    train, *_, seed, summary = outcome.records
    assert train == {"split": "train", "records": 8, "pairs": 8, "truncated": 0,
                     "labels": {"asma": 4, "diabete": 4}, "unseen_labels": {}}
    assert set(seed["test"]["by_label"]) >= {"asma"}
    assert {name for name in summary if name.startswith("test_")} == {
        "test_accuracy", "test_macro_f1", "test_micro_f1"}
    config = json.loads((tmp_path / "tuned/config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["id2label"] == {"0": "asma", "1": "diabete"}

    outcome = run("predict", "--model", tmp_path / "tuned", classification[7])
    assert outcome.code == 0, outcome.err
    beside = [record.pop("predicted") for record in outcome.records]
    assert [list(one) for one in beside] == [["label", "score", "probabilities"]] * len(beside)
    outcome = run("predict", "--model", tmp_path / "tuned", classification[7], "--into", "label")
    for record, given in zip(outcome.records, LABELLED[:3], strict=True):
        assert list(record) == ["id", "text", "text_pair", "label", "score", "probabilities"]
        assert record["text_pair"] == given["text_pair"]
        assert record["score"] == record["probabilities"][record["label"]]
    assert [{key: record[key] for key in beside[0]} for record in outcome.records] == beside


def test_python_and_the_command_line_make_the_same_model(
        run: Callable[..., Any], classification: list[Any], tmp_path: Path,
        checkpoint: Path) -> None:
    outcome = run(*classification)
    result = bmtools.tasks.finetune(
        "classification", checkpoint, classification[5], classification[7], tmp_path / "python",
        seeds=1, epochs=2, learning_rate=3e-3, max_length=32)
    made, printed = (json.loads((tmp_path / name / "bmtools.json").read_text())
                     for name in ("python", "tuned"))
    for content in (made, printed):
        del content["wall_seconds"], content["started"], content["energy"]
    assert made == printed
    assert (tmp_path / "python/model.safetensors").read_bytes() == \
        (tmp_path / "tuned/model.safetensors").read_bytes()
    same = {"checkpoint": "", "wall_seconds": 0}
    assert {**result, **same} == {**outcome.records[-1], **same}


QUESTIONS = [{"id": str(n), "text": TEXT, "question": "che malattia ha",
              "answers": [{"text": "diabete mellito", "start": 15}] if n % 2 else []}
             for n in range(6)]


def test_questions_are_answered_from_the_shell(run: Callable[..., Any], checkpoint: Path,
                                               write_lines: Callable[..., Path],
                                               tmp_path: Path) -> None:
    lines = write_lines("squad.jsonl", *QUESTIONS)
    outcome = run("finetune", "qa", "--model", checkpoint, "--train", lines, "--dev", lines,
                  "-o", tmp_path / "squad", *QUICK, "--no-answer", "--set", "whole_words=false",
                  "--set", "null_score_diff_threshold=1.5")
    assert outcome.code == 0, outcome.err
    settings = json.loads((tmp_path / "squad/bmtools.json").read_text())["settings"]
    assert (settings["no_answer"], settings["whole_words"]) == (True, False)
    assert settings["null_score_diff_threshold"] == 1.5
    outcome = run("predict", lines, "--model", tmp_path / "squad", "--into", "answers")
    assert outcome.code == 0, outcome.err
    assert all(TEXT.startswith(answer["text"], answer["start"])
               for record in outcome.records for answer in record["answers"])
    outcome = run("finetune", "qa", "--model", tmp_path / "squad", "--train", lines,
                  "--dev", lines, "-o", tmp_path / "bioasq", *QUICK)
    assert f"the output layer of {tmp_path / 'squad'} is trained further" in outcome.err
    assert "3 of 6 records have no answer" in outcome.err and "use --no-answer" in outcome.err


# Folds


@pytest.fixture
def labelled(write_lines: Callable[..., Path]) -> Path:
    return write_lines("all.jsonl", *(
        {"id": str(n), "text": f"{TEXT} {n}", "label": "ab"[n % 3 > 0]} for n in range(12)))


FOLDED = ("finetune", "classification", "--negative", "a", *QUICK)


@pytest.fixture
def folds(run: Callable[..., Any], labelled: Path, tmp_path: Path) -> Path:
    """Four folds."""
    assert run("split", labelled, "--folds", "4", "--stratify", "label",
               "-o", tmp_path / "folds").code == 0
    return tmp_path / "folds"


def test_a_model_is_trained_for_each_fold(run: Callable[..., Any], checkpoint: Path, folds: Path,
                                          tmp_path: Path) -> None:
    made = run(*FOLDED, "--model", checkpoint, "--train", folds, "-o", tmp_path / "made")
    assert made.code == 0, made.err
    summary = made.records[-1]
    lines = [line for line in made.records if "best_seed" in line]
    assert [line["fold"] for line in lines] == [0, 1, 2, 3] and summary["folds"] == 4
    scores = [line["test_accuracy"]["mean"] for line in lines]
    assert summary["test_accuracy"] == {
        "mean": pytest.approx(statistics.fmean(scores), abs=1e-6),
        "median": pytest.approx(statistics.median(scores), abs=1e-6),
        "deviation": pytest.approx(statistics.stdev(scores), abs=1e-6)}
    tests = [line["records"] for line in made.records if line.get("split") == "test"]
    assert tests == [3, 3, 3, 3] and "(mean and deviation of 4 folds)" in made.err
    manifest = json.loads((tmp_path / "made/bmtools.json").read_text())
    assert manifest["results"]["test_accuracy"] == summary["test_accuracy"]
    assert len(manifest["inputs"]) == 12
    seen = [json.loads((tmp_path / f"made/fold-{number}/bmtools.json").read_text())["tokens_seen"]
            for number in range(4)]
    assert manifest["tokens_seen"] == sum(seen)
    assert f" {sum(seen):,} tokens trained on" in run("lineage", tmp_path / "made").out
    saved = (tmp_path / "made/folds.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in saved] == lines
    assert (tmp_path / "made/fold-2/model.safetensors").is_file()
    assert run("merge", *(tmp_path / f"made/fold-{n}" for n in range(3)),
               "-o", tmp_path / "merged").code == 0
    suite = run("score-suite", f"GAD={tmp_path / 'made'}", "--suite", "biolm")
    assert suite.code == 0, suite.err
    assert suite.records[0]["scores"]["GAD"] == pytest.approx(
        100 * summary["test_micro_f1"]["median"], abs=1e-3)


@pytest.mark.slow
def test_a_fold_stops_the_others(run: Callable[..., Any], checkpoint: Path, folds: Path,
                                 tmp_path: Path) -> None:
    """Bio-LM's way: each fold but one learns from all outside of its test part, as long as that
    one was best."""
    outcome = run(*FOLDED, "--epochs", "3", "--seeds", "2", "--model", checkpoint, "--train",
                  folds, "--set", "dev_fold=2", "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    lines = outcome.records
    sizes = {(line["fold"], line["split"]): line["records"] for line in lines if "split" in line}
    assert sizes == {(2, "train"): 9, (2, "dev"): 3, **{
        (fold, part): size for fold in (0, 1, 3) for part, size in (("train", 9), ("test", 3))}}
    seeds = {(line["fold"], line["seed"]): line for line in lines if "best_epoch" in line}
    for fold in (0, 1, 3):
        for seed in (0, 1):
            own = seeds[fold, seed]
            assert own["epochs"] == own["best_epoch"] == seeds[2, seed]["best_epoch"]
            assert "test" in own and "dev" not in own
    assert [line["fold"] for line in lines if "best_seed" in line] == [0, 1, 3]
    assert (lines[-1]["folds"], lines[-1]["seeds"]) == (3, 2)
    assert not [key for key in lines[-1] if key.startswith("dev_")]
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == [
        "fold-0", "fold-1", "fold-3"]


def test_folds_without_dev_need_one_that_stops(run: Callable[..., Any], checkpoint: Path,
                                               labelled: Path, tmp_path: Path) -> None:
    for fold in range(3):
        (tmp_path / f"folds/fold-{fold}").mkdir(parents=True)
        for name in ("train", "test"):
            (tmp_path / f"folds/fold-{fold}/{name}.jsonl").write_bytes(labelled.read_bytes())
    arguments = (*FOLDED, "--model", checkpoint, "--train", tmp_path / "folds",
                 "-o", tmp_path / "out")
    outcome = run(*arguments)
    assert outcome.code == 1
    assert "fold-0: found no dev.jsonl to select the epoch; add it, or use --set dev_fold" \
        in outcome.err
    outcome = run(*arguments, "--set", "dev_fold=7")
    assert outcome.code == 1 and "dev_fold: found 7, expected one of 0, 1, 2" in outcome.err
    (tmp_path / "folds/fold-1/test.jsonl").unlink()
    outcome = run(*arguments, "--set", "dev_fold=0")
    assert outcome.code == 1 and "fold-1: found no test.jsonl, expected one in each fold" \
        in outcome.err
    assert not (tmp_path / "out").exists()
