"""Fine-tuning in several processes and resuming after a kill."""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from toy_models import learn_wordpiece, save_random
from training.test_run_processes import Job

WORDS = ["il", "la", "paziente", "con", "dolore", "e", "febbre", "due"]
SIGNS = {"asma": "DIS", "artrosi": "DIS", "insulina": "DRUG"}


def records(seed: int, count: int) -> list[dict[str, Any]]:
    """Texts with signs between other words, annotated for every task."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        text, entities = "", []
        for _ in range(rng.randint(3, 20)):
            word = rng.choice(list(SIGNS)) if rng.random() < 0.3 else rng.choice(WORDS)
            start = len(text) + bool(text)
            text += " " * bool(text) + word
            if word in SIGNS:
                entities.append({"start": start, "end": len(text), "type": SIGNS[word]})
        types = [entity["type"] for entity in entities]
        answers = [{"text": text[entity["start"]:entity["end"]], "start": entity["start"]}
                   for entity in entities[:1]]
        made.append({"id": f"{seed}-{number}", "text": text, "text_pair": rng.choice(WORDS),
                     "entities": entities, "question": "che dolore", "answers": answers,
                     "label": max(types, key=types.count, default="none"),
                     "labels": sorted(set(types)), "score": float(len(types))})
    return made


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with a random two-layer model and three sets."""
    folder = tmp_path_factory.mktemp("fine-tuning")
    save_random(folder / "model", learn_wordpiece((r["text"] for r in records(9, 80)), 120),
                "bert-2x64")
    for seed, (name, count) in enumerate([("train", 33), ("dev", 11), ("test", 7)]):
        (folder / f"{name}.jsonl").write_text(
            "".join(f"{json.dumps(record)}\n" for record in records(seed, count)))
    return folder


Start = Callable[..., Job]


@pytest.fixture
def start(data: Path, tmp_path: Path) -> Start:
    """Start fine-tuning: `start("ner", "out", "--seeds", 2, processes=2)`."""

    def begin(task: str, output: str, *more: object, processes: int = 1, hook: str = "") -> Job:
        return Job(tmp_path, [
            "finetune", task, "--model", data / "model", "--train", data / "train.jsonl",
            "--dev", data / "dev.jsonl", "--test", data / "test.jsonl", "-o", tmp_path / output,
            "--batch-size", 8, "--learning-rate", 2e-3, "--max-length", 24, *more], processes, hook)

    return begin


def results(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove values that differ between runs."""
    return [{name: value for name, value in line.items()
             if name not in ("wall_seconds", "checkpoint")} for line in lines]


def numbers(value: Any) -> list[float]:
    """List the numbers of lines, in order."""
    if isinstance(value, dict | list):
        return [number for one in (value.values() if isinstance(value, dict) else value)
                for number in numbers(one)]
    return [value] if isinstance(value, float | int) else []


# The last of five batches has one input, so a second process gets no input.
@pytest.mark.parametrize(("task", "settings"), [
    ("ner", ("--micro-batch-size", 3, "--seeds", 2)), ("ner", ("--crf",)), ("qa", ("--stride", 4)),
    ("classification", ("--class-weights", "balanced")), ("multilabel", ()),
    ("similarity", ()), ("classification", ("--head", "bilstm", "--set", "head_dropout=0"))])
def test_several_processes_produce_the_results_of_one(start: Start, tmp_path: Path, task: str,
                                                      settings: tuple[object, ...]) -> None:
    given = (task, "of-1", "--seeds", 1, "--epochs", 2, "--set", "dropout=0", *settings)
    one = start(*given).succeed()
    two = start(given[0], "of-2", *given[2:], processes=2).succeed()
    assert numbers(results(two.records)) == pytest.approx(numbers(results(one.records)),
                                                              rel=1e-4, abs=1e-5)
    assert len(one.records) >= 6 and two._outs[1].read_text() == ""
    weights = [load_file(tmp_path / f"of-{count}" / "model.safetensors") for count in (1, 2)]
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, rtol=0, atol=2e-4)
    assert two.err.count("wrote ") == 1 and not list(tmp_path.glob(".*"))


# Killed and resumed

EACH_EVALUATION = """
import bmtools.tasks.unfinished as unfinished
unfinished.SHARE_OF_SAVING = float("inf")
"""
# All settings that keep state between steps and evaluations.
STATEFUL = ("--seeds", 3, "--epochs", 4, "--patience", 2, "--eval-steps", 3, "--set", "mixout=0.3",
            "--set", "l2_sp=0.01", "--set", "layer_decay=0.9", "--set", "dropout=0.1")
FINAL = ("model.safetensors", "seeds.jsonl")


def dies_at(number: int, moment: str = "after") -> str:
    """Return a hook that sends SIGKILL before or after the n-th write of the state."""
    return f"""{EACH_EVALUATION}
write, calls = unfinished.Unfinished._write, []
def die(self):
    calls.append(0)
    if len(calls) == {number} and "{moment}" == "before":
        os.kill(os.getpid(), 9)
    write(self)
    if len(calls) == {number}:
        os.kill(os.getpid(), 9)
unfinished.Unfinished._write = die
"""


def evaluations(job: Job) -> list[dict[str, Any]]:
    """List the lines of evaluations that a job reported."""
    return [line for line in job.records if "loss" in line]


def same_files(ours: Path, theirs: Path, names: Sequence[str] = FINAL) -> None:
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    assert not list(ours.parent.glob("*.run")) and not list(ours.parent.glob(".*"))


@pytest.mark.parametrize(("task", "moments", "settings"), [
    ("ner", ("after", "before", "after", "after"), STATEFUL),
    ("classification", ("after", "before"), ("--seeds", 2, "--epochs", 3, "--set",
     "optimizer=muon", "--precision", "bf16", "--micro-batch-size", 3)),
    ("qa", ("after",), ("--seeds", 1, "--epochs", 3, "--stride", 4, "--set", "weight_decay=5"))])
def test_killed_run_ends_like_an_uninterrupted_run(start: Start, tmp_path: Path, task: str,
                                                   moments: Sequence[str], settings: tuple[object,
                                                   ...]) -> None:
    whole = start(task, "whole", *settings).succeed()
    expected, found = evaluations(whole), []
    for number, moment in enumerate(moments):
        killed = start(task, "killed", *settings, *["--resume"] * bool(number),
                       hook=dies_at(2, moment))
        assert killed.wait() == [-signal.SIGKILL], killed.err
        assert not (tmp_path / "killed").exists()
        running = json.loads((tmp_path / "killed.run/state.json").read_text())["running"] or {}
        for noted in filter(None, (running, running.get("best"))):
            assert (tmp_path / "killed.run" / noted["weights"]).is_dir(), "or it cannot be loaded"
        found += evaluations(killed)
    resumed = start(task, "killed", *settings, "--resume").succeed()
    found += evaluations(resumed)
    assert "continuing an unfinished run" in resumed.err
    assert all(line in expected for line in found) and all(line in found for line in expected)
    assert len(found) <= len(expected) + 2 and found[2] == expected[2], "the second is kept"
    assert results(resumed.records)[-1] == results(whole.records)[-1]
    same_files(tmp_path / "killed", tmp_path / "whole")


def test_finished_combinations_and_folds_are_kept(start: Start, data: Path,
                                                  tmp_path: Path) -> None:
    lines = (data / "train.jsonl").read_text().splitlines(keepends=True)
    for fold in range(2):
        (tmp_path / f"folds/fold-{fold}").mkdir(parents=True)
        for number, name in enumerate(("train", "dev", "test")):
            (tmp_path / f"folds/fold-{fold}/{name}.jsonl").write_text(
                "".join(lines[number + fold::3]))
    given = ("finetune", "ner", "--model", data / "model", "--train", tmp_path / "folds",
             "--batch-size", 8, "--max-length", 24, "--seeds", 2, "--epochs", 2, "--grid",
             "learning_rate=1e-3,3e-3,1e-5", "-o")
    whole = Job(tmp_path, [*given, tmp_path / "whole"]).succeed()
    found, code, number = [], -signal.SIGKILL, 0
    while code == -signal.SIGKILL:  # 2 folds, 3 combinations, 2 seeds: 12 finished runs
        job = Job(tmp_path, [*given, tmp_path / "killed", *["--resume"] * bool(number)],
                  hook=dies_at(9))
        [code] = job.wait()
        number += 1
        found += evaluations(job)
    assert code == 0 and number == 3, job.err
    assert found == evaluations(whole)
    for fold in range(2):
        same_files(tmp_path / f"killed/fold-{fold}", tmp_path / f"whole/fold-{fold}")
    assert results(job.records)[-1] == results(whole.records)[-1]
    assert len([line for line in job.records if "best_epoch" in line]) == 12, "all are reported"


def test_only_the_same_run_is_resumed(start: Start, data: Path, tmp_path: Path) -> None:
    given = ("ner", "out", "--seeds", 2, "--epochs", 2)
    assert start(*given, hook=dies_at(2)).wait() == [-signal.SIGKILL]
    changed = tmp_path / "changed.jsonl"
    changed.write_text((data / "dev.jsonl").read_text().replace("DRUG", "DIS", 1))
    for more, message in [
            ((), f"{tmp_path / 'out.run'} contains an unfinished run; use --resume to continue"),
            (("--resume", "--set", "dropout=0.2"), "the unfinished run has dropout 0.1, found 0.2"),
            (("--resume", "--dev", changed), "the unfinished run has content of dev"),
            (("--resume", "--model", tmp_path / "other"), "has content of the model")]:
        if "--model" in more:
            shutil.copytree(data / "model", tmp_path / "other")
            config = (tmp_path / "other/config.json").read_text()
            (tmp_path / "other/config.json").write_text(config.replace('"gelu"', '"relu"'))
        job = start(*given, *more)
        assert job.wait() == [1] and message in job.err, job.err
    start(*given, "--resume", "--micro-batch-size", 4, processes=2).succeed()
    again = start(*given, "--resume").succeed()
    assert "is already finished" in again.err and again.out == ""
    assert not list(tmp_path.glob("*.run"))


def test_finished_work_is_kept_after_a_signal(start: Start, tmp_path: Path) -> None:
    given = ("ner", "out", "--seeds", 1, "--epochs", 500, "--patience", 500)
    job = start(*given, hook=EACH_EVALUATION).until(
        lambda: (tmp_path / "out.run/state.json").exists()).send(signal.SIGTERM)
    assert job.wait() == [128 + signal.SIGTERM]
    assert "the last evaluation, if" in job.err and "continue with --resume" in job.err
    assert start(*given, "--overwrite", "--epochs", 1).succeed().records[0]["split"] == "train"
    assert not list(tmp_path.glob("*.run"))
