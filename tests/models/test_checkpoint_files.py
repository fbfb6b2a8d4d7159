"""Files of checkpoints: errors name missing or damaged files and a fix, without torch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from bmtools import installation
from bmtools.errors import BmtoolsError, CheckpointError
from bmtools.models.checkpoint_files import (
    check_checkpoint,
    check_directory,
    check_masked_lm,
    describe_directory,
)
from bmtools.models.model_files import weight_bytes

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "b.weight": torch.ones(4)}


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the files of a checkpoint, and change to the directory that contains it."""
    monkeypatch.chdir(tmp_path)
    directory = Path("model")
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(
        {"model_type": "bert", "architectures": ["BertForMaskedLM"],
         "max_position_embeddings": 512}))
    (directory / "tokenizer.json").write_text("{}")
    save_file(WEIGHTS, directory / "model.safetensors", {"format": "pt"})
    return directory


@pytest.mark.parametrize(("name", "message"), [
    *((name, f"Directory '{name}' does not exist; to get a model from the Hugging Face Hub, run: "
             f"hf download {name} --local-dir {last} (without network: run that on a machine "
             f"with network, copy the directory here and give {last})")
      for name, last in (("bert-base-uncased", "bert-base-uncased"), ("dbmdz/bert", "bert"))),
    ("base", "Directory 'base' does not exist"),
    ("model/inner", "Directory 'model/inner' does not exist"),
    ("/far/away/model", "Directory '/far/away/model' does not exist"),
    ("model/config.json", "'model/config.json' is a file, expected its directory: model"),
    ("notes.jsonl", "'notes.jsonl' is a file of records, expected the directory of a checkpoint or "
                    "tokenizer; give records without an option"),
    ("notes.txt", "'notes.txt' is a file, expected the directory of a checkpoint or tokenizer")])
def test_an_error_about_a_missing_directory_names_a_fix(whole: Path, name: str,
                                                        message: str) -> None:
    Path("notes.jsonl").touch()
    Path("notes.txt").touch()
    with pytest.raises(CheckpointError) as caught:
        check_directory(Path(name))
    assert str(caught.value) == message


@pytest.mark.parametrize(("missing", "message"), [
    ("config.json", "model: no config.json, expected a checkpoint directory; it contains only "
                    "a tokenizer; to train a model, run: bmtools pretrain FILE --architecture "
                    "bert-small --tokenizer model -o DIR"),
    ("model.safetensors", "model: no model.safetensors, expected safetensors weights"),
    ("tokenizer.json", "model: no tokenizer could be loaded, expected tokenizer.json or "
                       "vocab.txt")])
def test_a_missing_file_is_named(whole: Path, missing: str, message: str) -> None:
    (whole / missing).unlink()
    with pytest.raises(CheckpointError) as caught:
        check_checkpoint(whole)
    assert str(caught.value) == message


def test_errors_describe_the_content_of_wrong_directories(whole: Path) -> None:
    Path("shards").mkdir()
    Path("shards/shard-00000.safetensors").touch()
    Path("texts").mkdir()
    Path("texts/a.jsonl").touch()
    Path("none").mkdir()
    Path("words").mkdir()
    Path("words/vocab.txt").touch()
    with pytest.raises(CheckpointError, match=r"expected a checkpoint directory; it contains "
                                              r"shards of text, which are input of "
                                              r"pretrain and distill$"):
        check_checkpoint(Path("shards"))
    assert describe_directory(whole) == "; it contains a checkpoint, for options such as --model"
    assert describe_directory(Path("words")) == \
        "; it contains a tokenizer, for options such as --tokenizer"
    assert describe_directory(Path("shards")) == \
        "; it contains shards of text, which are input of pretrain and distill"
    assert describe_directory(Path("texts")) == "; to read its files, give texts/*.jsonl"
    assert describe_directory(Path("none")) == " in it"


@pytest.mark.parametrize(("name", "message"), [
    ("pytorch_model.bin", "but pytorch_model.bin, which can run code when it is loaded; to convert "
                          "it safely, run: bmtools convert model -o model-converted"),
    ("pytorch_model-00001-of-00002.bin", "but pytorch_model-00001-of-00002.bin, which can run "
                                         "code when it is loaded; to convert it safely, run: "
                                         "bmtools convert model -o model-converted")])
def test_other_weights_are_named(whole: Path, name: str, message: str) -> None:
    (whole / "model.safetensors").rename(whole / name)
    with pytest.raises(CheckpointError, match=re.escape(message)):
        check_checkpoint(whole)



@pytest.mark.parametrize(("change", "message"), [
    *((lambda whole, end=end: whole[:end],
       r"is damaged or not a safetensors file \(.*; download or copy it again")
      for end in (-8, 20, 0)),
    (lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
     "found a pointer of Git LFS, expected weights; run git lfs pull in model")])
def test_damaged_weights_are_an_error(whole: Path, change: Callable[[bytes], bytes],
                                      message: str) -> None:
    path = whole / "model.safetensors"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CheckpointError, match=f"^{path}: {message}"):
        check_checkpoint(whole)


def test_a_missing_shard_of_weights_is_named(whole: Path) -> None:
    (whole / "model.safetensors").rename(whole / "model-1.safetensors")
    index = whole / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a.weight": "model-1.safetensors"}}))
    assert weight_bytes(whole) == 4 * 10
    index.write_text(json.dumps({"weight_map": {"a.weight": "model-1.safetensors",
                                                "b.weight": "model-2.safetensors"}}))
    with pytest.raises(CheckpointError, match=re.escape(
            "model: no model-2.safetensors, which model.safetensors.index.json lists; download it "
            "again")):
        check_checkpoint(whole)


@pytest.mark.parametrize(("settings", "config", "message"), [
    ({"task": "ner", "model": "bio"}, {}, "fine-tuned (ner), expected a masked language model, "
                                          "such as bio, which it was made from"),
    ({}, {"architectures": ["RobertaForSequenceClassification"]},
     "fine-tuned (RobertaForSequenceClassification), expected a masked language model")])
def test_a_fine_tuned_model_is_rejected(
        whole: Path, settings: dict[str, Any], config: dict[str, Any], message: str) -> None:
    (whole / "bmtools.json").write_text(json.dumps({"settings": settings}))
    (whole / "config.json").write_text(json.dumps({"model_type": "bert", **config}))
    check_checkpoint(whole)
    with pytest.raises(CheckpointError) as caught:
        check_masked_lm(whole)
    assert str(caught.value) == f"model: found a model that was {message}"


@pytest.mark.parametrize(("config", "message"), [
    ({"model_type": "neobert", "auto_map": {"AutoModelForMaskedLM": "model.NeoBERTLMHead"}},
     "found model_type 'neobert', whose code comes with the model and is never run; expected"),
    ({"model_type": "gpt2"}, "found model_type 'gpt2'; expected a masked language model: albert"),
    ({"model_type": "electra", "architectures": ["ElectraForPreTraining"]},
     "found ELECTRA's discriminator, which does not predict tokens; expected its generator")])
def test_unsupported_families_are_named(whole: Path, config: dict[str, Any],
                                        message: str) -> None:
    (whole / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError) as caught:
        check_masked_lm(whole)
    assert str(caught.value).startswith(f"model: {message}")
    for family in ("eurobert", "distilbert"):  # supported here, whatever else the files contain
        (whole / "config.json").write_text(json.dumps({**config, "model_type": family,
                                                       "architectures": ["AnyForMaskedLM"]}))
        check_masked_lm(whole)


@pytest.mark.parametrize(("name", "version"), [("torch", "2.8.1+cpu"), ("transformers", "4.57.6")])
def test_libraries_that_are_too_old_are_named(whole: Path, monkeypatch: pytest.MonkeyPatch,
                                              name: str, version: str) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version",
                        lambda asked: version if asked == name else real(asked))
    installation.require_versions.cache_clear()
    least = installation.LEAST_VERSIONS[name]
    with pytest.raises(BmtoolsError) as caught:
        check_checkpoint(whole)
    assert str(caught.value) == (f"{name} {version} is too old, expected {least} or newer: pip "
                                 f"install --upgrade '{name}>={least}'")
