"""Tiny tokenizers and checkpoints for the commands that build directories."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TEXTS = ("Il paziente ha diabete mellito e asma.",
         "La mobilità è ridotta dall'artrosi del ginocchio.",
         "Il cuore pompa il sangue nelle arterie.",
         "L'asma riduce il respiro del paziente.")
# Settings and results that may differ between two runs of a command.
_PATHS = ("model", "tokenizer", "base", "teacher", "student", "train", "dev", "test")
_TIMES = ("tokens_per_second", "seconds_left")


@pytest.fixture(scope="session")
def corpus_records() -> list[dict[str, Any]]:
    """Make eight records of Italian."""
    return [{"id": str(number), "text": TEXTS[number % 4], "lang": "it"} for number in range(8)]


@pytest.fixture
def corpus(write_lines: Callable[..., Path], corpus_records: list[dict[str, Any]]) -> Path:
    """Write the records to a file."""
    return write_lines("corpus.jsonl", *corpus_records)


@pytest.fixture
def bad_corpus(write_lines: Callable[..., Path]) -> Path:
    """Write a file whose third line has no text."""
    return write_lines("bad.jsonl", {"id": "a", "text": TEXTS[0]}, {"id": "b", "text": TEXTS[1]},
                       {"id": "c"}, {"id": "d", "text": TEXTS[2]})


@pytest.fixture
def piped(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command with a file's content on stdin: `piped(path, "pretrain", ...)`."""

    def call(source: Path, *arguments: object) -> Any:
        with monkeypatch.context() as patch, source.open("rb") as stream:
            patch.setattr(sys, "stdin", io.TextIOWrapper(stream))
            return run(*arguments)

    return call


@pytest.fixture(scope="session")
def make_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Save a tokenizer, which tests must not change: `make_tokenizer("some words", ...)`."""

    def make(*texts: str) -> Path:
        from toy_tokenizers import train_tokenizer

        from bmtools.vocab.settings import VocabularyConfig
        from bmtools.vocab.tokenizer import save_tokenizer

        directory = tmp_path_factory.mktemp("tokenizer") / "tokenizer"
        directory.mkdir()
        save_tokenizer(train_tokenizer(texts * 2, VocabularyConfig(size=150, allow_fewer=True)),
                       directory)
        return directory

    return make


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Save random weights, which tests must not change: `make_checkpoint(tokenizer)`."""

    def make(tokenizer: Path, architecture: str = "bert-1x64", seed: int = 0,
             max_length: int = 32) -> Path:
        import torch

        from bmtools.io.provenance.manifest import Manifest
        from bmtools.models.architectures import build_config, build_model
        from bmtools.models.checkpoint import save_checkpoint
        from bmtools.vocab.loading import load_tokenizer
        from bmtools.vocab.tokenizer import fingerprint

        words = load_tokenizer(tokenizer)
        config = build_config(architecture, words)
        config.max_position_embeddings = max_length
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = build_model(config)
        directory = tmp_path_factory.mktemp("checkpoint") / "checkpoint"
        save_checkpoint(directory, model, words, Manifest("test", {}, fingerprint(words)))
        return directory

    return make


@pytest.fixture(scope="session")
def tiny_tokenizer(make_tokenizer: Callable[..., Path]) -> Path:
    """Save a tokenizer trained on the corpus."""
    return make_tokenizer(*TEXTS)


@pytest.fixture(scope="session")
def tiny_checkpoint(make_checkpoint: Callable[..., Path], tiny_tokenizer: Path) -> Path:
    """Save random weights for the vocabulary of the corpus, 32 positions."""
    return make_checkpoint(tiny_tokenizer)


@pytest.fixture(scope="session")
def make_tagger(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Fine-tune a checkpoint for an epoch to find an entity."""

    def make(checkpoint: Path) -> Path:
        from bmtools.tasks import finetune

        folder = tmp_path_factory.mktemp("tagger")
        (folder / "train.jsonl").write_text(json.dumps({
            "id": "0", "text": "Il paziente ha asma.",
            "entities": [{"start": 15, "end": 19, "type": "DIS"}]}) + "\n")
        finetune("ner", checkpoint, folder / "train.jsonl", folder / "train.jsonl",
                 folder / "tagger", seeds=1, epochs=1)
        return folder / "tagger"

    return make


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Call a function that is interrupted right after its first state is saved."""
    from bmtools.training import checkpoints

    copy_state = checkpoints.copy_state

    def stopped(*arguments: Any) -> None:
        copy_state(*arguments)()
        raise KeyboardInterrupt

    def call(function: Callable[..., Any], *arguments: object) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(checkpoints, "copy_state", stopped)
            return function(*arguments)

    return call


@pytest.fixture
def manifest() -> Callable[[Path], dict[str, Any]]:
    """Read `bmtools.json`."""
    return _manifest


@pytest.fixture(scope="session")
def contents() -> Callable[[Path], dict[str, Any]]:
    """Read a directory without values that may differ between runs: times and file names."""

    def read(directory: Path) -> dict[str, Any]:
        files: dict[str, Any] = {path.name: path.read_bytes() for path in directory.iterdir()
                                 if path.is_file()}
        files["bmtools.json"] = _timeless(_manifest(directory))
        files.pop("README.md", None)  # it repeats the manifest, including file names
        if "metrics.jsonl" in files:
            lines = map(json.loads, files["metrics.jsonl"].splitlines())
            files["metrics.jsonl"] = [_without_speed(line) for line in lines]
        return files

    return read


def _manifest(directory: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((directory / "bmtools.json").read_text("utf-8"))
    return content


def _timeless(content: dict[str, Any]) -> dict[str, Any]:
    settings = {k: v for k, v in content["settings"].items() if k not in _PATHS}
    results = dict(content["results"])
    if "last" in results:
        results["last"] = _without_speed(results["last"])
    return {**content, "settings": settings, "results": results,
            "inputs": sorted(content["inputs"].values()),
            **dict.fromkeys(("wall_seconds", "started", "sha256", "files", "upstream",
                            "energy"))}


def _without_speed(line: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in line.items() if k not in _TIMES}
