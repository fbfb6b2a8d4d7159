from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import bmtools.tasks
import bmtools.training
from bmtools.models.merge import TASK_SETTINGS, THRESHOLDS
from bmtools.records import Record
from bmtools.tasks.registry import TASKS

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="session")
def taggers(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three models fine-tuned on one task with different seeds."""
    folder = tmp_path_factory.mktemp("seeds")
    text = "Il cuore pompa il sangue."
    records = [Record(id="a", text=text, entities=[{"start": 3, "end": 8, "type": "X"}])]
    for seed in range(3):
        bmtools.tasks.finetune("ner", tiny_checkpoint, records, records, folder / str(seed),
                               seeds=1, epochs=1, seed=seed, max_length=32)
    return [folder / str(seed) for seed in range(3)]


def test_weights_are_means_and_other_files_are_unchanged(run: Any, taggers: list[Path],
                                                         tmp_path: Path) -> None:
    done = run("merge", *taggers, "-o", tmp_path / "merged")
    assert done.code == 0, done.err
    line = json.loads(done.out)
    assert line["models"] == 3
    merged, *each = (load_file(path / "model.safetensors")
                     for path in (tmp_path / "merged", *taggers))
    assert merged.keys() == each[0].keys()
    for name, mean in merged.items():
        np.testing.assert_allclose(mean, np.mean([one[name] for one in each], axis=0), atol=1e-7)
    assert line["weights"] == sum(weight.size for weight in merged.values())
    card = (tmp_path / "merged" / "README.md").read_text()
    assert "mean of" in card
    found = bmtools.tasks.predict([{"id": "a", "text": "Il cuore."}], tmp_path / "merged")
    assert "predicted" in next(found)


def edited(model: Path, folder: Path, name: str, change: Callable[[Any], None]) -> Path:
    """Copy a model and change one of its JSON files, or its weights."""
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    if name.endswith(".json"):
        content = json.loads((folder / name).read_text())
        change(content)
        (folder / name).write_text(json.dumps(content))
    else:
        weights = load_file(folder / name)
        change(weights)
        save_file(weights, folder / name)
    return folder


def test_models_that_differ_are_rejected_by_name(run: Any, taggers: list[Path],
                                                 tmp_path: Path) -> None:
    cases: dict[str, tuple[str, Callable[[Any], None], str]] = {
        "labels": ("config.json", lambda c: c["id2label"].update({"0": "B-Y"}),
                   "found id2label"),
        "task": ("bmtools.json", lambda c: c["settings"].update(task="classification"),
                 "found a model fine-tuned with task 'classification', expected 'ner'"),
        "pieces": ("bmtools.json", lambda c: c["settings"].update(label_pieces="all"),
                   "found a model fine-tuned with label_pieces 'all', expected 'first'"),
        "scheme": ("bmtools.json", lambda c: c["settings"].update(scheme="bioul"),
                   "found a model fine-tuned with scheme 'bioul', expected 'bio'"),
        "names": ("model.safetensors", lambda w: w.pop("classifier.bias"), "classifier.bias"),
        "shape": ("model.safetensors",
                  lambda w: w.update({"classifier.bias": np.zeros(5, np.float32)}),
                  "found classifier.bias of shape (5,), expected (3,)"),
        "values": ("model.safetensors", lambda w: w["classifier.bias"].fill(np.nan),
                   "weights of classifier.bias are not finite")}
    for case, (name, change, told) in cases.items():
        other = edited(taggers[1], tmp_path / case, name, change)
        done = run("merge", taggers[0], other, "-o", tmp_path / "out")
        assert done.code == 1, case
        assert done.err.count("\n") == 1, done.err
        assert f"{other}: " in done.err, case
        assert told in done.err, (case, done.err)
        assert not (tmp_path / "out").exists()
    alone = run("merge", taggers[0], "-o", tmp_path / "out")
    assert alone.code == 2
    assert f"found 1 checkpoint, {taggers[0]}, expected 2 or more to average." in alone.err


def test_every_task_setting_is_compared_or_used_only_in_training() -> None:
    only_training = {"loss", "class_weights", "oversampling", "metric_for_best_model",
                     "head_dropout"}
    known = {field.name for _, config, *_ in TASKS.values() for field in fields(config)}
    assert known - only_training == {*TASK_SETTINGS, *THRESHOLDS} - {"task"}


def test_thresholds_are_means(run: Any, taggers: list[Path], tmp_path: Path) -> None:
    models = [edited(taggers[0], tmp_path / str(value), "bmtools.json",
                     lambda c, value=value: c["settings"].update(threshold=value))
              for value in (0.25, 0.5)]
    assert run("merge", *models, "-o", tmp_path / "merged").code == 0
    settings = json.loads((tmp_path / "merged" / "bmtools.json").read_text())["settings"]
    assert settings["threshold"] == 0.375


def test_the_last_checkpoints_of_a_run_are_averaged(run: Any, tiny_checkpoint: Path,
                                                    tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"id": "a", "text": "Il cuore pompa il sangue."}\n' * 8)
    bmtools.training.pretrain(texts, tmp_path / "run", model=tiny_checkpoint, steps=4,
                              keep_steps=1, max_length=24, batch_size=8, learning_rate=1e-3)
    kept = [tmp_path / "run.kept" / f"step-0000000{step}" for step in (2, 3, 4)]
    assert run("merge", tmp_path / "run", "--kept", 3, "-o", tmp_path / "last").code == 0
    assert run("merge", *kept, "-o", tmp_path / "named").code == 0
    last, named, final = (load_file(tmp_path / name / "model.safetensors")
                          for name in ("last", "named", "run"))
    assert all(np.array_equal(last[name], named[name]) for name in named)
    assert not all(np.array_equal(last[name], final[name]) for name in final)
    one = run("merge", tmp_path / "run", "--kept", 1, "-o", tmp_path / "none")
    assert (one.code, "; raise --kept, or give more runs" in one.err) == (2, True)
    refused = run("merge", tmp_path / "run", "--kept", 9, "-o", tmp_path / "none")
    assert refused.code == 1
    assert "found 4 checkpoints of steps, expected 9 or more; keep them" in refused.err
