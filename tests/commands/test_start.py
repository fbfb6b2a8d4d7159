"""Commands import only the libraries that they need, because imports take seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_HEAVY = ("accelerate", "datasets", "matplotlib", "scipy", "sklearn", "sympy", "torch._dynamo",
          "torch.distributed.tensor", "transformers")
_CODE = """
import sys
from bmtools.cli.main import main
try: main(sys.argv[2:])
except SystemExit as end: assert not end.code, end.code
print(*(name for name in sys.argv[1].split(",") if name in sys.modules), file=sys.stderr)
"""


def imported(unwanted: tuple[str, ...], *arguments: object) -> str:
    """Run a command and return the unwanted modules that it imported."""
    done = subprocess.run([sys.executable, "-c", _CODE, ",".join(unwanted), *map(str, arguments)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1]


@pytest.fixture
def masked(tmp_path: Path) -> Path:
    path = tmp_path / "masked.jsonl"
    path.write_text(json.dumps({"id": "0", "text": "Il [MASK] ha asma.", "target": "paziente"}))
    return path


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.jsonl"
    path.write_text(json.dumps({"id": "0", "text": "Il paziente ha asma."}))
    return path


@pytest.mark.slow
def test_scoring_needs_only_torch(tiny_checkpoint: Path, masked: Path, plain: Path) -> None:
    assert imported(_HEAVY, "score-mrr", masked, "--model", tiny_checkpoint) == ""
    assert imported(_HEAVY, "score-pppl", plain, "--model", tiny_checkpoint) == ""


@pytest.mark.slow
def test_prediction_needs_only_torch(make_tagger: Callable[[Path], Path], tiny_checkpoint: Path,
                                     plain: Path) -> None:
    assert imported(_HEAVY, "predict", plain, "--model", make_tagger(tiny_checkpoint)) == ""


def test_scores_of_predictions_need_no_torch(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    path.write_text(json.dumps({"id": "0", "text": "Asma.", "label": "a",
                                "predicted": {"label": "b"}}))
    assert imported(("torch", "scipy", *_HEAVY), "score-tasks", path, path) == ""


def test_vocabularies_need_no_torch(tiny_checkpoint: Path, plain: Path) -> None:
    assert imported(("torch", *_HEAVY), "compare-vocab", plain, "--vocab", tiny_checkpoint) == ""
