"""A tokenizer, a model and a corpus, all tiny."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bmtools.models.architectures import build_config, build_model
from bmtools.vocab.settings import WordPieceSettings
from bmtools.vocab.tokenizer import save_tokenizer
from bmtools.vocab.wordpiece import learn

SUBJECTS = ("Il cuore", "Il polmone", "Il fegato", "Il rene", "La milza")
VERBS = ("pompa", "filtra", "regola", "trasporta", "accumula")
OBJECTS = ("il sangue", "la bile", "l'ossigeno", "il glucosio", "la linfa")
SENTENCES = [f"{' '.join(words)}." for words in itertools.product(SUBJECTS, VERBS, OBJECTS)]


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """WordPiece over the toy sentences."""
    return learn(SENTENCES, WordPieceSettings(size=120))


@pytest.fixture
def model(tokenizer: Any) -> Any:
    """Two layers of 64, random."""
    torch.manual_seed(0)
    return build_model(build_config("bert-2x64", tokenizer))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The toy sentences as records."""
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n"
                            for n, text in enumerate(SENTENCES)), encoding="utf-8")
    return path


@pytest.fixture
def vocabulary(tmp_path: Path, tokenizer: Any) -> Path:
    """The tokenizer as a directory."""
    save_tokenizer(tokenizer, tmp_path / "vocabulary")
    return tmp_path / "vocabulary"
