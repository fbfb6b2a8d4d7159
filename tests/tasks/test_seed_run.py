"""Settings of a run: trained weights, weights of labels, and evaluations."""

from __future__ import annotations

import json
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from toy_models import save_random

import bmtools
from bmtools.corpus.split import SplitConfig, write_split
from bmtools.io.json_files import read_manifest
from bmtools.io.jsonl import RecordReader
from bmtools.models.precision import PrecisionChoice
from bmtools.records import Record
from bmtools.tasks.seed_run import SeedRun
from bmtools.training.distributed import make_accelerator
from bmtools.training.loop import Trainer
from bmtools.training.metrics import DivergedError

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = {"a": "due asma e la febbre", "b": "il cuore con artrosi"}
TRAIN = [Record(id=str(number), text=TEXTS[label], label=label)
         for number, label in enumerate("baaa" * 6)]
SETTINGS: dict[str, Any] = {"seeds": 1, "epochs": 2, "batch_size": 8, "learning_rate": 3e-3,
                            "max_length": 32}
ENCODER = "bert.encoder.layer."


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory, pair_tokenizers: dict[str, Any]) -> Path:
    """A random BERT model with two layers."""
    return save_random(tmp_path_factory.mktemp("models") / "bert", pair_tokenizers["bert"],
                       "bert-2x64")


@pytest.fixture
def tuned(bert: Path, tmp_path: Path):
    """Fine-tune; return the distance that each encoder weight moved, by name, and the lines."""
    def call(output: str = "tuned", **settings: Any):
        lines: list[dict[str, Any]] = []
        bmtools.tasks.finetune("classification", bert, TRAIN, TRAIN[:8], tmp_path / output,
                               report=lines.append, **{**SETTINGS, **settings})
        before = load_file(bert / "model.safetensors")
        after = load_file(tmp_path / output / "model.safetensors")
        return {name: float((after[name] - weight).norm())
                for name, weight in before.items() if name in after}, lines
    return call


def test_only_weights_that_are_not_frozen_change(tuned) -> None:
    moved, _ = tuned(frozen_layers=1)
    assert {name for name, distance in moved.items() if distance == 0} == {
        name for name in moved if name.startswith((f"{ENCODER}0.", "bert.embeddings."))}


def test_the_development_set_is_scored_every_n_steps(tuned, tmp_path: Path) -> None:
    _, lines = tuned(eval_steps=2, patience=10)
    scored = [line for line in lines if "dev_loss" in line]
    assert [(line["epoch"], line["step"]) for line in scored] == [(0.67, 2), (1.33, 4), (2.0, 6)]
    [seed] = map(json.loads, (tmp_path / "tuned" / "seeds.jsonl").read_text().splitlines())
    assert seed["best_step"] in (2, 4, 6)
    assert seed["epochs"] == 2.0


@pytest.mark.parametrize("setting", [
    {"loss": "dice", "oversampling": 1.0}, {"class_weights": "balanced"}, {"oversampling": 1.0}])
def test_rare_labels_count_for_more(tuned, setting: dict[str, Any]) -> None:
    plain, _ = tuned("plain")
    assert tuned("changed", **setting)[0] != plain
    _, lines = tuned("longer", **setting, epochs=16, patience=16)
    assert lines[-1]["dev_accuracy"]["mean"] == 1.0


def test_seeds_can_be_listed_and_grid_keeps_the_best_settings(tuned, tmp_path: Path) -> None:
    _, lines = tuned(seed_list="5,3", grid="learning_rate=1e-9,3e-3", epochs=16, patience=16)
    tried = [line for line in lines if "grid" in line and "dev" not in line]
    assert [line["grid"]["learning_rate"] for line in tried] == [1e-9, 3e-3, 3e-3]
    assert lines[-1]["grid"] == {"learning_rate": 3e-3}
    assert lines[-1]["dev_accuracy"] == tried[1]["dev_accuracy"]
    assert lines[-1]["dev_accuracy"]["mean"] > tried[0]["dev_accuracy"]["mean"]
    seeds = list(map(json.loads, (tmp_path / "tuned" / "seeds.jsonl").read_text().splitlines()))
    assert [line["seed"] for line in seeds] == [5, 3]
    settings = json.loads((tmp_path / "tuned" / "bmtools.json").read_text())["settings"]
    assert settings["learning_rate"] == 3e-3
    assert (tmp_path / "tuned" / "grid.toml").read_text() == "learning_rate = 0.003\n"


def test_constant_run_begins_like_a_shorter_one(tuned) -> None:
    settings = {"schedule": "constant", "warmup_ratio": 0.0, "patience": 9}
    short, long = ([line for line in tuned(str(epochs), epochs=epochs, **settings)[1]
                    if "dev_loss" in line] for epochs in (2, 4))
    assert [{**line, "of": 4} for line in short] == long[:2] and len(long) == 4


@pytest.mark.parametrize(("shorter", "best"), [((0.1, 0.6), {"epochs": 2}), ((0.1, 0.4), None)])
def test_runs_decay_by_the_best_epoch(tuned, monkeypatch: pytest.MonkeyPatch, shorter: tuple[float,
                                      ...], best: object) -> None:
    scores = iter((0.2, 0.5, 0.4, 0.3, 0.2, *shorter))
    evaluate = SeedRun._evaluate

    def scored(self: SeedRun, *args: Any) -> Any:
        found = evaluate(self, *args)
        found.scores["accuracy"] = next(scores)
        return found

    monkeypatch.setattr(SeedRun, "_evaluate", scored)
    _, lines = tuned(epochs=9, patience=3, decay_to_best=True)
    assert [line["of"] for line in lines if "dev_loss" in line] == [9] * 5 + [2] * 2
    assert lines[-1].get("grid") == best
    assert lines[-1]["dev_accuracy"]["mean"] == max(0.5, *shorter)


# Divergence


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch):
    """Make some seeds diverge in their second step."""
    step = Trainer.step

    def call(*seeds: int) -> None:
        def failing(trainer: Trainer, number: int, *args: Any, **settings: Any):
            if trainer.settings.seed in seeds and number:
                raise DivergedError(f"step {number + 1}: the loss is nan")
            return step(trainer, number, *args, **settings)
        monkeypatch.setattr(Trainer, "step", failing)
    return call


def test_diverged_seed_does_not_affect_other_seeds(tuned, diverging, tmp_path: Path) -> None:
    _, without = tuned("without", seed_list="0,2")
    diverging(1)
    _, lines = tuned("with", seeds=3)
    assert {"note": "seed 1 diverged: step 2: the loss is nan"} in lines
    assert {"seed": 1, "diverged": "step 2: the loss is nan"} in lines
    of_others = [line for line in lines if line.get("seed") in (0, 2)]
    assert of_others == [line for line in without if "seed" in line]
    assert (lines[-1]["seeds"], lines[-1]["diverged"]) == (2, 1)
    for name in ("model.safetensors", "seeds.jsonl"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()


def test_diverged_combinations_are_not_selected(tuned) -> None:
    _, lines = tuned(grid="learning_rate=1e38,1e-3", warmup_ratio=0.0)
    combinations = {line["grid"]["learning_rate"]: line for line in lines
                    if "grid" in line and "checkpoint" not in line and "best_epoch" not in line}
    assert combinations[1e38]["diverged"] == 1 and "dev_accuracy" not in combinations[1e38]
    assert lines[-1]["grid"] == {"learning_rate": 1e-3} and "diverged" not in lines[-1]


def test_weights_lost_in_the_last_step_are_not_kept(tuned, tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="the loss on dev is nan; lower learning_rate"):
        tuned(batch_size=24, epochs=1, learning_rate=1e38, warmup_ratio=0.0)
    assert not (tmp_path / "tuned").exists()


@pytest.fixture
def folds(tmp_path: Path) -> Path:
    """Three folds of the toy set."""
    path = tmp_path / "all.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in TRAIN))
    write_split(RecordReader([str(path)]), tmp_path / "folds",
                SplitConfig(folds=3, stratify="label", together="documents"))
    return tmp_path / "folds"


def test_diverged_folds_do_not_affect_other_folds(bert: Path, tmp_path: Path, folds: Path,
                                                  diverging) -> None:
    lines: list[dict[str, Any]] = []

    def finetune(**settings: Any) -> dict[str, Any]:
        lines.clear()
        return bmtools.tasks.finetune("classification", bert, folds, None, tmp_path / "out",
                                      overwrite=True, report=lines.append,
                                      **{**SETTINGS, "epochs": 1, "batch_size": 4, **settings})

    plain = finetune(seeds=2)
    assert (plain["folds"], plain["seeds"], "diverged" in plain) == (3, 2, False)
    assert "interval" not in plain["test_accuracy"]
    assert len([line for line in lines if "best_seed" in line]) == 3
    diverging(1)
    some = finetune(seeds=2)
    assert (some["folds"], some["seeds"], some["diverged"]) == (3, 1, 3)
    assert [line["test_accuracy"]["mean"] for line in lines if "best_seed" in line] == [
        line["test"]["accuracy"] for line in lines if line.get("seed") == 0 and "test" in line]
    diverging(0, 1)
    with pytest.raises(DivergedError):
        finetune(seeds=2)
    assert (tmp_path / "out/fold-0/model.safetensors").is_file(), "the older output stays"


def test_one_fold_selects_grid_settings_for_the_others(bert: Path, tmp_path: Path,
                                                       folds: Path) -> None:
    lines: list[dict[str, Any]] = []
    bmtools.tasks.finetune("classification", bert, folds, None, tmp_path / "out", dev_fold=1,
                            grid="learning_rate=1e-30,3e-3 loss=dice",
                           report=lines.append, **{**SETTINGS, "epochs": 1, "batch_size": 4})
    tried = [line for line in lines if "grid" in line]
    assert {line["fold"] for line in tried} == {1}
    best = max((line for line in tried if "dev_accuracy" in line),
               key=lambda line: line["dev_accuracy"]["mean"])["grid"]
    assert [line["fold"] for line in lines if "test" in line] == [0, 2]
    for fold in (0, 2):
        settings = read_manifest(tmp_path / f"out/fold-{fold}")["settings"]
        assert {name: settings[name] for name in best} == best
    assert tomllib.loads((tmp_path / "out/grid.toml").read_text()) == best


def test_each_seed_begins_with_the_initial_loss_scale(tuned,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    scales: list[float] = []

    def scaled(settings: Any) -> Any:
        accelerator = make_accelerator(settings)
        accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=1)
        return accelerator

    def run(self: SeedRun, *arguments: Any) -> Any:
        scales.append(self._trainer.accelerator.scaler.get_scale())
        found = plain_run(self, *arguments)
        scales.append(self._trainer.accelerator.scaler.get_scale())
        return found

    plain_run = SeedRun.run
    monkeypatch.setattr(import_module("bmtools.tasks.finetune"), "make_accelerator", scaled)
    monkeypatch.setattr(SeedRun, "run", run)
    tuned(seeds=2)
    assert scales[0] == scales[2] == 2.0 and scales[1] > 2.0


def test_all_runs_train_in_the_precision_that_suits_the_machine(
        bert: Path, tuned, tmp_path: Path, folds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The precision is reported once, also with folds and grids; predictions stay in float32."""
    monkeypatch.setattr("bmtools.training.distributed.choose_precision",
                        lambda *_: PrecisionChoice("bf16", "as it is fast"))
    note = "precision auto: bf16, as it is fast"
    _, half = tuned("half", seeds=2, grid="learning_rate=1e-30,3e-3")
    assert [line["note"] for line in half if "precision" in line.get("note", "")] == [note]
    assert read_manifest(tmp_path / "half")["settings"]["precision"] == "bf16"
    _, exact = tuned("exact", seeds=2, grid="learning_rate=1e-30,3e-3", precision="no")
    assert not any("precision" in line.get("note", "") for line in exact)
    unchanged, other = (next(line for line in lines if "dev_loss" in line)
                        for lines in (half, exact))
    assert unchanged["loss"] != other["loss"] and unchanged["dev_loss"] == other["dev_loss"]
    lines: list[dict[str, Any]] = []
    bmtools.tasks.finetune("classification", bert, folds, None, tmp_path / "out",
                           report=lines.append, **{**SETTINGS, "epochs": 1})
    assert [line["note"] for line in lines if "precision" in line.get("note", "")] \
        == [f"fold 0: {note}"]
    assert read_manifest(tmp_path / "out/fold-1")["settings"]["precision"] == "bf16"


def test_combinations_of_a_grid_use_their_own_loss(tuned) -> None:
    _, alone = tuned("alone")
    _, after = tuned("after", grid="loss=dice,cross-entropy")

    def losses(lines: list[dict[str, Any]]) -> list[float]:
        return [line["loss"] for line in lines if "epoch" in line]

    assert losses(after)[2:] == losses(alone) != losses(after)[:2]


# Embeddings of the tokens in the sets


EMBEDDINGS = {"bert": "bert.embeddings.word_embeddings.weight",
              "roberta": "roberta.embeddings.word_embeddings.weight",
              "modernbert": "model.embeddings.tok_embeddings.weight"}


@pytest.mark.parametrize("family", EMBEDDINGS)
def test_run_equals_a_run_with_the_full_vocabulary( pair_tokenizers: dict[str, Any],
                                                   tmp_path: Path, family: str,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = pair_tokenizers[family]
    save_random(tmp_path / "model", tokenizer, f"{family}-1x64")
    found = []
    for output in ("partial", "whole"):
        lines: list[dict[str, Any]] = []
        bmtools.tasks.finetune(
            "classification", tmp_path / "model", TRAIN[:16], TRAIN[:4], tmp_path / output,
            report=lines.append, seeds=1, epochs=2, batch_size=4, learning_rate=1e-3,
            weight_decay=5.0, max_length=32)
        found.append([line["loss"] for line in lines if "loss" in line])
        monkeypatch.setattr(import_module("bmtools.tasks.finetune"), "read_tokens", lambda *_: None)
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    before, partial, whole = (load_file(tmp_path / name / "model.safetensors")
                              for name in ("model", "partial", "whole"))
    assert partial.keys() == whole.keys()
    for name, weight in whole.items():
        torch.testing.assert_close(partial[name], weight, rtol=1e-3, atol=1e-4)
    name = EMBEDDINGS[family]
    ratios = partial[name].norm(dim=1) / before[name].norm(dim=1)
    assert (ratios < 0.99).sum() > len(ratios) / 2  # weight decay shrinks the other rows
