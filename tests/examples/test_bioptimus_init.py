"""The comparison of initial weights in examples/reproduce/bioptimus-init, at toy size."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "reproduce" / "bioptimus-init"
REVIEWS = "en/corpus/pubmed-drug-reviews.jsonl.gz"
WIKITEXT = ("en/corpus/general-wikitext2-test.txt", "en/corpus/general-wikitext2-valid.txt")
ARMS = ("average", "contextual-rescaled", "focus")


@pytest.mark.data
@pytest.mark.slow
def test_all_methods_are_compared(data: Path, tmp_path: Path, copy_lines: Any,
                                  run_script: Any, read: Any) -> None:
    small, out = tmp_path / "data", tmp_path / "out"
    for name, most in ((REVIEWS, 40), *((name, 150) for name in WIKITEXT)):
        (small / name).parent.mkdir(parents=True, exist_ok=True)
        copy_lines(data / name, small / name, most)
    sizes = {"DATA": str(small), "OUT": str(out), "SEEDS": "0", "ARMS": " ".join(ARMS),
             "ABSTRACTS": "30", "HELD_OUT": "3", "VOCABULARY": "600", "STEPS": "4", "EVERY": "2",
             "OMP_NUM_THREADS": "1",
             "BASE_SET": "--set causal.tokens=3000 --set masked.tokens=3000 --set batch_size=4 "
                         "--architecture bert-1x64"}
    table = run_script(FOLDER / "run.sh", **sizes)
    lines = {line["model"]: line for line in read(out / "results.jsonl")}
    assert set(lines) == {*ARMS}
    assert all(f"| {name} " in table for name in ARMS)
    for line in lines.values():
        assert list(line["steps"]) == ["0", "2", "4"]
        assert line["end"]["mean"] < line["initial"]["mean"]
    assert len({line["initial"]["mean"] for line in lines.values()}) == len(ARMS)
    held_out = {line["id"] for line in read(out / "held-out.jsonl")}
    trained = {line["id"] for line in read(out / "train.jsonl")}
    assert len(held_out) == 3 and len(trained) == 30 and not held_out & trained
    before = (out / "arms" / "average-0" / "bmtools.json").stat().st_mtime_ns
    shutil.rmtree(out / "arms" / "focus-0")
    run_script(FOLDER / "run.sh", **sizes)
    assert (out / "arms" / "average-0" / "bmtools.json").stat().st_mtime_ns == before
    assert {line["model"] for line in read(out / "results.jsonl")} == {*ARMS}
