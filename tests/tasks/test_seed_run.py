"""Settings of a run: what is trained, how strongly, and when it is scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import bmtools
from bmtools.io.manifest import Manifest
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import save_checkpoint
from bmtools.recipes.settings import FreezeConfig
from bmtools.records import Record
from bmtools.tasks.run_settings import FinetunePlan, LoraConfig
from bmtools.tasks.settings import NerConfig
from bmtools.vocab.tokenizer import fingerprint

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = {"a": "due asma e la febbre", "b": "il cuore con artrosi"}
TRAIN = [Record(id=str(number), text=TEXTS[label], label=label)
         for number, label in enumerate("baaa" * 6)]
SETTINGS: dict[str, Any] = {"seeds": 1, "epochs": 2, "batch_size": 8, "learning_rate": 3e-3,
                            "max_length": 32}
ENCODER = "bert.encoder.layer."


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory, pair_tokenizers: dict[str, Any]) -> Path:
    """BERT of two layers with random weights."""
    tokenizer = pair_tokenizers["bert"]
    torch.manual_seed(0)
    directory = tmp_path_factory.mktemp("models") / "bert"
    save_checkpoint(directory, build_model(build_config("bert-2x64", tokenizer)), tokenizer,
                    Manifest("test", {}, fingerprint(tokenizer)))
    return directory


@pytest.fixture
def tuned(bert: Path, tmp_path: Path):
    """Fine-tune, and return how far each weight of the encoder moved, by name, and the lines."""
    def call(output: str = "tuned", **settings: Any):
        lines: list[dict[str, Any]] = []
        bmtools.tasks.finetune("classification", bert, TRAIN, TRAIN[:8], tmp_path / output,
                               report=lines.append, **{**SETTINGS, **settings})
        before = load_file(bert / "model.safetensors")
        after = load_file(tmp_path / output / "model.safetensors")
        return {name: float((after[name] - weight).norm())
                for name, weight in before.items() if name in after}, lines
    return call


def test_frozen_weights_stay_and_the_others_move(tuned) -> None:
    moved, _ = tuned(frozen_layers=1)
    assert {name for name, distance in moved.items() if distance == 0} == {
        name for name in moved if name.startswith((f"{ENCODER}0.", "bert.embeddings."))}


def test_lower_layers_learn_more_slowly(tuned) -> None:
    plain, _ = tuned("plain")
    decayed, _ = tuned("decayed", layer_decay=0.1)
    low, high = (f"{ENCODER}{layer}.output.dense.weight" for layer in (0, 1))
    assert decayed[low] / decayed[high] < plain[low] / plain[high] / 5


@pytest.mark.parametrize("setting", [{"mixout": 0.9}, {"l2_sp": 100.0}])
def test_regularization_pulls_towards_the_checkpoint(tuned, setting: dict[str, float]) -> None:
    plain, _ = tuned("plain")
    held, _ = tuned("held", **setting)
    matrix = f"{ENCODER}1.output.dense.weight"
    assert 0 < held[matrix] != plain[matrix]
    if "l2_sp" in setting:
        assert held[matrix] < plain[matrix] / 2


def test_adapters_change_what_they_stand_beside_by_their_rank(tuned, bert: Path,
                                                              tmp_path: Path) -> None:
    moved, lines = tuned(lora_rank=2)
    assert all(distance == 0 for name, distance in moved.items()
               if "embeddings" in name or name.endswith("bias") or "LayerNorm" in name)
    name = f"{ENCODER}1.output.dense.weight"
    change = load_file(tmp_path / "tuned" / "model.safetensors")[name] \
        - load_file(bert / "model.safetensors")[name]
    values = torch.linalg.svdvals(change)
    assert values[1] > 1e-6 > values[2]
    found = list(bmtools.tasks.predict(TRAIN[:8], tmp_path / "tuned"))
    right = sum(record["predicted"]["label"] == record["label"] for record in found) / 8
    assert right == lines[-1]["dev_accuracy"]["mean"]


def test_all_weights_and_adapters_cannot_both_be_meant() -> None:
    with pytest.raises(ValueError, match="lora_rank: found 2, expected 0 beside"):
        FinetunePlan("ner", NerConfig(), Path("a"), Path("b"), lora=LoraConfig(2),
                     freezing=FreezeConfig(1))


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


def test_seeds_are_listed_and_a_grid_keeps_what_is_best(tuned, tmp_path: Path) -> None:
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
