"""Pretraining as a user runs it: it learns, survives being killed, and shares its work."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from bmtools.io.streams import read_records
from bmtools.models.checkpoint import load_masked_lm
from bmtools.training.pretrain import pretrain
from bmtools.training.run import Plan
from bmtools.training.settings import LoopSettings, RowSettings, RunSettings

ROWS = ("--row-tokens", "16", "--batch-size", "8", "--learning-rate", "2e-3")


def arguments(corpus: Path, vocabulary: Path, output: Path, *more: str) -> list[str]:
    return ["pretrain", str(corpus), "--architecture", "bert-1x64", "--tokenizer", str(vocabulary),
            "-o", str(output), *ROWS, "--report-every", "1", *more]


def losses(lines: list[dict[str, Any]]) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in lines if "step" in line}


def test_it_learns_the_toy_language(run, corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    outcome = run(*arguments(corpus, vocabulary, tmp_path / "m", "--steps", "150"))
    assert outcome.code == 0, outcome.err
    found = losses(outcome.records)
    assert found[1] > 4.0
    # The subject tells nothing about verb and object: what remains is chance among five.
    assert found[150] < 2.5
    checkpoint = load_masked_lm(tmp_path / "m")
    text = f"Il cuore {checkpoint.tokenizer.mask_token} il sangue."
    given = checkpoint.tokenizer(text, return_tensors="pt")
    place = given["input_ids"][0].tolist().index(checkpoint.tokenizer.mask_token_id)
    with torch.inference_mode():
        best = checkpoint.model(**given).logits[0, place].topk(5).indices
    assert set(checkpoint.tokenizer.convert_ids_to_tokens(best.tolist())) == {
        "pompa", "filtra", "regola", "trasporta", "accumula"}


def test_killed_and_resumed_equals_never_stopped(
        corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    """SIGKILL at a random step, dropout on: the losses from there are those of the whole run."""
    more = ("--steps", "60", "--save-every", "5", "--dropout", "0.1")
    command = [sys.executable, "-m", "bmtools"]
    whole = subprocess.run([*command, *arguments(corpus, vocabulary, tmp_path / "whole", *more)],
                           capture_output=True, check=True)
    expected = losses([json.loads(line) for line in whole.stdout.splitlines()])

    stop = random.randrange(6, 50)
    killed = [*command, *arguments(corpus, vocabulary, tmp_path / "killed", *more)]
    with subprocess.Popen(killed, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["step"] >= stop:
                process.send_signal(signal.SIGKILL)
                break
    assert not (tmp_path / "killed").exists()
    again = subprocess.run([*killed, "--resume"], capture_output=True, check=True)
    found = losses([json.loads(line) for line in again.stdout.splitlines()])
    assert min(found) > 1, "it began anew"
    assert found == {step: expected[step] for step in found}
    assert max(found) == 60
    logged = [(tmp_path / name / "metrics.jsonl").read_text().splitlines()
              for name in ("whole", "killed")]
    assert [losses([json.loads(line) for line in lines]) for lines in logged] == [expected] * 2
    ours, theirs = (load_masked_lm(tmp_path / name).model.state_dict()
                    for name in ("whole", "killed"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not list(tmp_path.glob("*.run"))


@pytest.fixture
def unfinished(corpus: Path, vocabulary: Path, tmp_path: Path) -> list[str]:
    """The arguments of a run that was left after six of nine steps."""
    given = arguments(corpus, vocabulary, tmp_path / "m", "--steps", "9", "--save-every", "4")
    plan = Plan("pretrain", tmp_path / "m", RowSettings(row_tokens=16, batch_size=8),
                LoopSettings(learning_rate=2e-3), RunSettings(9, report_every=1, save_every=4),
                {"model": None, "architecture": "bert-1x64", "tokenizer": str(vocabulary)}, {})
    records = read_records(str(corpus))
    lines = pretrain(plan, records, lambda: records.hashes, None, "bert-1x64", vocabulary)
    assert [next(lines)["step"] for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    lines.close()
    assert (tmp_path / "m.run" / "step-00000004").is_dir()
    return given


def test_an_unfinished_run_is_not_thrown_away(run, unfinished: list[str]) -> None:
    outcome = run(*unfinished)
    assert outcome.code == 1
    assert "holds an unfinished run; --resume goes on with it" in outcome.err
    assert list(losses(run(*unfinished, "--resume").records)) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(("change", "message"), [
    (("--learning-rate", "1e-3"), "has learning_rate 0.002, found 0.001"),
    (("--seed", "5"), "has seed 0, found 5"),
])
def test_a_resumed_run_must_be_the_same_run(
        run, unfinished: list[str], change: tuple[str, str], message: str) -> None:
    outcome = run(*unfinished, "--resume", *change)
    assert outcome.code == 1
    assert message in outcome.err


def test_resuming_on_other_text_is_refused(run, unfinished: list[str], corpus: Path) -> None:
    corpus.write_text(corpus.read_text().replace("cuore", "fegato"))
    outcome = run(*unfinished, "--resume")
    assert outcome.code == 1
    assert "has inputs" in outcome.err


def test_a_finished_run_is_left_alone(run, unfinished: list[str]) -> None:
    assert run(*unfinished, "--resume").code == 0
    outcome = run(*unfinished, "--resume")
    assert (outcome.code, outcome.out) == (0, "")
    assert "finished already" in outcome.err


@pytest.mark.slow
def test_two_processes_give_the_losses_of_one(
        corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    more = ("--steps", "12")
    one = subprocess.run([sys.executable, "-m", "bmtools",
                          *arguments(corpus, vocabulary, tmp_path / "one", *more)],
                         capture_output=True, check=True)
    two = subprocess.run(
        [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2",
         "-m", "bmtools", *arguments(corpus, vocabulary, tmp_path / "two", *more)],
        capture_output=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert two.returncode == 0, two.stderr.decode()
    expected, found = (losses([json.loads(line) for line in done.stdout.splitlines()])
                       for done in (one, two))
    assert list(found) == list(expected)
    assert list(found.values()) == pytest.approx(list(expected.values()), abs=2e-5)


def test_processes_cannot_share_stdin(run, vocabulary: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    outcome = run("pretrain", "--architecture", "bert-1x64", "--tokenizer", vocabulary,
                  "-o", tmp_path / "m")
    assert outcome.code == 2
    assert "name the files instead" in outcome.err
