"""`bmtools distill` on the command line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bmtools.io.provenance.manifest import hash_directory
from bmtools.recipes.phases import run_settings
from bmtools.recipes.settings import (
    DistillationConfig,
)
from bmtools.recipes.toml import load_recipe

Run = Callable[..., Any]
FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
         "vocab.txt", "bmtools.json", "README.md", "metrics.jsonl", "phases.toml"}
QUICK = ("--steps", "4", "--set", "logging_steps=2", "--max-length", "16", "--batch-size", "4")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="session")
def student(make_checkpoint: Callable[..., Path], tiny_tokenizer: Path) -> Path:
    """Random weights with the corpus' vocabulary that differ from the teacher's weights."""
    return make_checkpoint(tiny_tokenizer, seed=1)


@pytest.fixture(scope="session")
def stranger(make_checkpoint: Callable[..., Path], make_tokenizer: Callable[..., Path]) -> Path:
    """A checkpoint with another vocabulary."""
    return make_checkpoint(make_tokenizer("Il fegato filtra il sangue"))


@pytest.fixture
def taught(tiny_checkpoint: Path, student: Path, tmp_path: Path) -> list[Any]:
    """Arguments that train a checkpoint."""
    return ["distill", "--teacher", tiny_checkpoint, "--student", student, *QUICK,
            "-o", tmp_path / "out"]


@pytest.fixture
def fresh(tiny_checkpoint: Path, tmp_path: Path) -> list[Any]:
    """Arguments that train new weights of another width."""
    return ["distill", "--teacher", tiny_checkpoint, "--architecture", "bert-1x128", *QUICK,
            "-o", tmp_path / "out"]


def test_stdout_has_each_loss_term_and_their_weighted_sum(run: Run, taught: list[Any],
                                                          corpus: Path) -> None:
    outcome = run(*taught, corpus, "--set", "mlm_weight=1", "--set", "kl_weight=3",
                  "--set", "cosine_weight=0.5")
    assert outcome.code == 0, outcome.err
    *reports, last = outcome.records
    assert [(line["step"], line["of"]) for line in reports] == [(2, 4), (4, 4)]
    for line in reports:
        assert line["loss"] == pytest.approx(
            line["mlm"] + 3 * line["kl"] + 0.5 * line["cosine"], abs=1e-4)
        assert line["kl"] > 0 and 0 < line["cosine"] < 2
    assert (last["checkpoint"], last["last"]) == (str(taught[-1]), reports[-1])
    written = (taught[-1] / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == reports


@pytest.mark.parametrize(("recipe", "terms"), [
    ("distilbert", {"mlm", "kl", "cosine"}),
    ("biolm-distill", {"mlm", "kl"}), ("biolm-distill-align", {"mlm", "kl", "cosine"})])
def test_options_override_the_losses_of_recipes(run: Run, taught: list[Any], corpus: Path,
                                                recipe: str, terms: set[str]) -> None:
    outcome = run(*taught, "--recipe", recipe, corpus, "--steps", "1",
                  "--set", "temperature=3", "--precision", "no")
    assert outcome.code == 0, outcome.err
    line = outcome.records[0]
    assert {*line} & {"mlm", "kl", "cosine"} == terms
    written = tomllib.loads((taught[-1] / "phases.toml").read_text())["run"]
    assert run_settings(written, DistillationConfig) == replace(
        run_settings(load_recipe(recipe).run, DistillationConfig), temperature=3)


def test_a_phases_file_sets_losses_and_its_faults_are_located(run: Run, taught: list[Any],
                                                              corpus: Path, tmp_path: Path) -> None:
    phases = tmp_path / "phases.toml"
    phases.write_text("[run]\nkl_weight = 1\nkl_positions = 'al'\n[[phases]]\nname = 'one'\n")
    outcome = run(*taught, "--phases", phases, corpus)
    assert (outcome.code, outcome.err.splitlines()[-1]) == (
        1, f"bmtools: {phases}: [run]: kl_positions: found 'al', expected masked or all; did you "
           "mean 'all'?")
    phases.write_text("[run]\ncosine_weight = 0\n[[phases]]\nname = 'one'\n")
    line = run(*taught, "--phases", phases, "--steps", "1", corpus).records[0]
    assert {"mlm", "kl", "cosine"} & {*line} == {"mlm", "kl"}


@pytest.mark.parametrize("kind", ["taught", "fresh"])
def test_transformers_loads_the_student_without_the_projection(run: Run,
                                                               request: pytest.FixtureRequest,
                                                               corpus: Path, kind: str) -> None:
    """The projection between widths is only used in training and not saved with the weights."""
    arguments = request.getfixturevalue(kind)
    outcome = run(*arguments, corpus)
    assert outcome.code == 0, outcome.err
    out = arguments[-1]
    assert {path.name for path in out.iterdir()} == FILES
    model, report = AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    words = AutoTokenizer.from_pretrained(out)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert model.config.hidden_size == {"taught": 64, "fresh": 128}[kind]
    logits = model(**words("Il [MASK] pompa", return_tensors="pt")).logits
    assert logits.shape[-1] == len(words) == model.config.vocab_size
    assert torch.isfinite(logits).all()


def test_a_student_with_another_vocabulary_is_rejected(run: Run, taught: list[Any], corpus: Path,
                                                       tiny_checkpoint: Path, stranger: Path,
                                                       manifest: Callable[..., Any]) -> None:
    outcome = run(*taught, "--student", stranger, corpus)
    assert (outcome.code, outcome.out) == (1, "")
    found, expected = (manifest(path)["vocabulary"][:12] for path in (stranger, tiny_checkpoint))
    assert outcome.err == (
        f"bmtools: {tiny_checkpoint}: found vocabulary {expected}, but the student has {found}; "
        "expected the same vocabulary\n")
    assert not taught[-1].exists()


def test_a_student_may_start_from_layers_of_its_teacher(run: Run, taught: list[Any], corpus: Path,
                                                        make_checkpoint: Callable[..., Path],
                                                        tiny_tokenizer: Path,
                                                        manifest: Callable[..., Any]) -> None:
    teacher = make_checkpoint(tiny_tokenizer, "bert-4x64")
    arguments = ["distill", "--teacher", teacher, *QUICK, "--learning-rate", "1e-9", corpus,
                 "--take-layers", "even", "-o", taught[-1]]
    outcome = run(*arguments)
    assert outcome.code == 0, outcome.err
    own, theirs = (AutoModelForMaskedLM.from_pretrained(path) for path in (taught[-1], teacher))
    assert own.config.num_hidden_layers == 2
    for number in (0, 1):
        torch.testing.assert_close(own.bert.encoder.layer[number].state_dict(),
                                   theirs.bert.encoder.layer[2 * number].state_dict())
    torch.testing.assert_close(own.cls.state_dict(), theirs.cls.state_dict())
    content = manifest(taught[-1])
    assert (content["settings"]["take_layers"], content["settings"]["student"]) == (
        "even", teacher.name)
    assert content["parents"] == dict.fromkeys(("teacher", "student"), hash_directory(teacher))
