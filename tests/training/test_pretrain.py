"""Pretraining as a user runs it: learning, resuming, sharing the work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from toy_models import SENTENCES
from transformers import BertForPreTraining

import bmtools.training
from bmtools.io.json_files import read_manifest
from bmtools.models.checkpoint import load_checkpoint
from bmtools.models.precision import PrecisionChoice
from bmtools.recipes.toml import read_run_config

pytestmark = pytest.mark.usefixtures("one_thread")
SIZES = ("--max-length", "16", "--batch-size", "8", "--learning-rate", "2e-3")


def arguments(corpus: Path, vocabulary: Path, output: Path, *more: str) -> list[str]:
    return ["pretrain", str(corpus), "--architecture", "bert-1x64", "--tokenizer", str(vocabulary),
            "-o", str(output), *SIZES, "--set", "logging_steps=1", *more]


def losses(lines: list[dict[str, Any]]) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_it_learns_the_toy_language(run, corpus: Path, vocabulary: Path, tmp_path: Path,
                                    layout: str) -> None:
    """Packed sequences hold twice as many sentences, so they need half the steps."""
    steps = {"padded": 150, "packed": 75}[layout]
    outcome = run(*arguments(corpus, vocabulary, tmp_path / "m", "--layout", layout),
                  "--steps", steps, *(["--max-length", 32] if layout == "packed" else []))
    assert outcome.code == 0, outcome.err
    found = losses(outcome.records)
    assert found[1] > 4.0
    # The subject does not determine verb and object, so chance among five remains.
    assert found[steps] < 2.5
    checkpoint = load_checkpoint(tmp_path / "m")
    text = f"Il cuore {checkpoint.tokenizer.mask_token} il sangue."
    given = checkpoint.tokenizer(text, return_tensors="pt")
    position = given["input_ids"][0].tolist().index(checkpoint.tokenizer.mask_token_id)
    with torch.inference_mode():
        best = checkpoint.model(**given).logits[0, position].topk(5).indices
    assert set(checkpoint.tokenizer.convert_ids_to_tokens(best.tolist())) == {
        "pompa", "filtra", "regola", "trasporta", "accumula"}


def test_it_can_be_called_from_python(corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    reports: list[dict[str, Any]] = []
    given: dict[str, Any] = {"max_length": 16, "batch_size": 8, "logging_steps": 2}
    found = bmtools.training.pretrain(
        corpus, tmp_path / "m", architecture="bert-1x64", tokenizer=vocabulary, steps=4,
        on_report=reports.append, evaluate=corpus, **given)
    assert reports.pop(0)["note"].startswith("precision auto: no (float32), because ")
    assert [line.get("loss", 0) > 0 for line in reports] == [True, True, False]
    assert found["checkpoint"] == str(tmp_path / "m") and found["steps"] == 4
    assert found["evaluate"] == reports[-1] and found["last"] == reports[-2]
    again = bmtools.training.pretrain({"text": [corpus]}, tmp_path / "m", architecture="bert-1x64",
                                      tokenizer=vocabulary, steps=4, resume=True, **given)
    assert again == found
    small = bmtools.training.distill(str(corpus), tmp_path / "s", teacher=tmp_path / "m",
                                     architecture="bert-1x64", steps=2, temperature=1.5, **given)
    assert {"mlm", "kl", "cosine"} <= small["last"].keys()


@pytest.mark.parametrize(("settings", "message"), [
    ({}, "expected one of model and architecture"),
    ({"model": "m", "max_lenght": 16}, "found unknown setting 'max_lenght', did you mean"),
    ({"model": "m", "max_length": 4}, "max_length: found 4, expected 8 or more"),
])
def test_wrong_settings_are_named_before_anything_loads(settings: dict[str, Any],
                                                        message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bmtools.training.pretrain("corpus.jsonl", "out", **settings)


def test_a_run_keeps_the_precision_that_auto_chose(
        run, corpus: Path, vocabulary: Path, tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    """A run started on a machine that is fast in bf16 resumes where float32 would be chosen."""
    start = arguments(corpus, vocabulary, tmp_path / "m", "--steps", "4", "--save-steps", "2")
    monkeypatch.setattr("bmtools.training.distributed.choose_precision",
                        lambda *_: PrecisionChoice("bf16", "as it is fast"))
    stopped = run(*start, "--budget", "0.001s")
    assert "bmtools: --precision auto: bf16, as it is fast\n" in stopped.err
    monkeypatch.undo()
    refused = run(*start, "--resume", "--precision", "no")
    assert refused.code == 1
    assert "has precision bf16, found no; resume with the same settings" in refused.err
    outcome = run(*start, "--resume")
    assert outcome.code == 0
    assert "bmtools: --precision auto: bf16, because the run was started with it\n" in outcome.err
    assert read_manifest(tmp_path / "m")["settings"]["precision"] == "bf16"
    assert read_run_config(str(tmp_path / "m/phases.toml")).run["precision"] == "bf16"
    plain = run(*arguments(corpus, vocabulary, tmp_path / "n", "--steps", "4"),
                "--precision", "bf16")
    assert losses(stopped.records + outcome.records) == losses(plain.records)
    assert "--precision" not in plain.err


def test_weights_stay_in_float32_and_evaluations_have_the_precision_of_the_run(
        corpus: Path, vocabulary: Path, tmp_path: Path) -> None:
    found = {precision: bmtools.training.pretrain(
        corpus, tmp_path / precision, architecture="bert-1x64", tokenizer=vocabulary, steps=1,
        learning_rate=1e-30, weight_decay=0.0, max_length=16, evaluate=corpus,
        precision=precision) for precision in ("no", "bf16")}
    assert found["bf16"]["last"]["loss"] != found["no"]["last"]["loss"]
    half, exact = (found[precision]["evaluate"]["evaluate"]["loss"] for precision in ("bf16", "no"))
    assert half != exact and half == pytest.approx(exact, abs=2e-3)
    weights = load_file(tmp_path / "bf16/model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_resuming_on_other_text_is_rejected(run, corpus: Path, vocabulary: Path,
                                            tmp_path: Path) -> None:
    given = arguments(corpus, vocabulary, tmp_path / "m", "--steps", "9")
    assert run(*given, "--budget", "0.001s").code == 75
    corpus.write_text(corpus.read_text().replace("cuore", "fegato"))
    outcome = run(*given, "--resume")
    assert outcome.code == 1
    assert "made from a different text" in outcome.err


def read_heads(path: Path) -> dict[str, torch.Tensor]:
    return {name: value for name, value in load_file(path / "model.safetensors").items()
            if name.startswith(("bert.pooler.", "cls.seq_relationship."))}


def test_the_trained_head_of_sentence_pairs_is_kept(run, corpus: Path, vocabulary: Path,
                                                    tmp_path: Path) -> None:
    """In a run with pairs and in a run with masked tokens, as in transformers' class."""
    corpus.write_text("".join(json.dumps({"id": str(n), "text": " ".join(SENTENCES[n:n + 5]),
                                          "lang": "it"}) + "\n" for n in range(40)))
    pairs = ("--objective", "masked+sop", "--max-length", "32", "--layout", "padded")
    taught, more, masked = (tmp_path / name for name in ("taught", "more", "masked"))
    outcome = run(*arguments(corpus, vocabulary, taught, "--steps", "8", *pairs))
    assert outcome.code == 0, outcome.err
    found, report = BertForPreTraining.from_pretrained(taught, output_loading_info=True)
    assert not any(report.values())
    heads = read_heads(taught)
    assert len(heads) == 4
    assert torch.equal(heads["bert.pooler.dense.weight"], found.bert.pooler.dense.weight)

    def go_on(start: Path, output: Path, *options: str) -> str:
        outcome = run("pretrain", corpus, "--model", start, "-o", output, *SIZES, "--steps", 2,
                      *options)
        assert outcome.code == 0, outcome.err
        return outcome.err

    # The steps are too small to change a weight, so the output shows the copied weights.
    assert "sentence-order" not in go_on(taught, more, *pairs, "--learning-rate", "1e-30",
                                        "--set", "weight_decay=0")
    go_on(taught, masked, "--max-length", "32")
    for path in (more, masked):
        assert all(torch.equal(heads[name], value) for name, value in read_heads(path).items())
        assert read_heads(path).keys() == heads.keys()
    assert "ForPreTraining" in (masked / "config.json").read_text()


def test_a_kept_checkpoint_states_what_it_was_trained_with(run, corpus: Path, vocabulary: Path,
                                                           tmp_path: Path) -> None:
    """The phases and steps up to it, in its record and its card; the plan has all."""
    plan = tmp_path / "phases.toml"
    plan.write_text("[common]\nmax_length = 16\nbatch_size = 8\n" + "".join(
        f'[[phases]]\nname = "{name}"\nobjective = "{name}"\nsteps = {steps}\n'
        for name, steps in (("causal", 2), ("masked", 3))))
    outcome = run("pretrain", corpus, "--phases", plan, "--architecture", "bert-1x64",
                  "--tokenizer", vocabulary, "-o", tmp_path / "m", "--keep-steps", "4")
    assert outcome.code == 0, outcome.err
    for part, steps, names in (("m.kept/phase-1-causal", 2, ["causal"]),
                               ("m.kept/step-00000004", 4, ["causal", "masked"]),
                               ("m", 5, ["causal", "masked"])):
        record = read_manifest(tmp_path / part)
        assert record["results"]["steps"] == steps
        assert [phase["name"] for phase in record["settings"]["phases"]] == names
        card = (tmp_path / part / "README.md").read_text()
        assert f"| setting | {' | '.join(names)} |" in card
        assert len(read_run_config(str(tmp_path / part / "phases.toml")).phases) == 2


Launched = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def launched() -> Launched:
    """Start Python on a module, as a shell would."""

    def start(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-m", *words], text=True,
                                env={**os.environ, "OMP_NUM_THREADS": "1"},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return start


@pytest.mark.slow
def test_launched_processes_have_the_losses_of_one_process(
        run, corpus: Path, vocabulary: Path, tmp_path: Path, launched: Launched) -> None:
    """Our own launcher also passes SIGTERM on; bad records are collected once."""
    with corpus.open("a") as stream:
        stream.write('{"id": 1}\n')
    more = ("--steps", "300", "--save-steps", "0", "--set", "schedule=constant",
            "--precision", "no",
            "--rejects", str(tmp_path / "rejects.jsonl"))
    expected = losses(run(*arguments(corpus, vocabulary, tmp_path / "one", *more)).records)
    (tmp_path / "rejects.jsonl").unlink()

    ours = arguments(corpus, vocabulary, tmp_path / "ours", *more, "--processes", "2")
    process = launched("bmtools", *ours)
    assert process.stdout is not None
    begun = [process.stdout.readline() for _ in range(5)]
    process.send_signal(signal.SIGTERM)
    rest, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    lines = [json.loads(line) for line in [*begun, *rest.splitlines()]]
    found = losses(lines)
    assert lines[-1]["stopped"] == max(found) < 300
    assert list(found.values()) == pytest.approx(
        [expected[step] for step in found], abs=2e-5)
    # A slow machine reports progress every ten seconds.
    messages = [line for line in err.splitlines() if line.startswith("bmtools: ")]
    assert messages == ["bmtools: stopping after this step and saving the training state; press "
                        "Ctrl-C again to exit now without saving",
                        "bmtools: stopped before the end; use --resume to continue",
                        f"bmtools: 1 bad record in {tmp_path / 'rejects.jsonl'}"]
    assert len((tmp_path / "rejects.jsonl").read_text().splitlines()) == 1

    theirs = arguments(corpus, vocabulary, tmp_path / "ours", *more, "--resume")
    process = launched("accelerate.commands.launch", "--cpu", "--num_processes", "2",
                       "--main_process_port", "0", "-m", "bmtools", *theirs)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    found = losses([json.loads(line) for line in out.splitlines()])
    assert min(found) == lines[-1]["stopped"] + 1 and max(found) == 300
    # Rounding grows over hundreds of steps, so only the first ones must agree closely.
    steps = sorted(found)[:20]
    assert [found[step] for step in steps] == pytest.approx(
        [expected[step] for step in steps], abs=1e-3)


def test_a_run_from_python_leaves_the_process_as_it_was(corpus: Path, vocabulary: Path,
                                                        tmp_path: Path) -> None:
    """In a separate process, before any import."""
    code = f"""
import os, warnings, torch, transformers
def state():
    return (torch.get_rng_state().tolist(), transformers.logging.get_verbosity(),
            transformers.logging.is_progress_bar_enabled(), list(warnings.filters),
            dict(os.environ))
before = state()
import bmtools.training
bmtools.training.pretrain({str(corpus)!r}, {str(tmp_path / "m")!r}, architecture="bert-1x64",
                          tokenizer={str(vocabulary)!r}, max_length=16, steps=2)
assert state() == before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
