"""Light modules stay light."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("modules", "heavy"), [
    ("bmtools.recipes.masking", "numpy, torch, tokenizers, transformers"),
    ("bmtools.data.masking.strategies, bmtools.data.masking.corruption, bmtools.vocab.segmenters",
     "torch, tokenizers, transformers")])
def test_nothing_heavy_is_imported(modules: str, heavy: str) -> None:
    code = f"import sys, {modules}; print([m for m in '{heavy}'.split(', ') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
