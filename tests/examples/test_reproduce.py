"""The comparisons in examples/reproduce, complete but at toy size."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

REPRODUCE = Path(__file__).parents[2] / "examples" / "reproduce"
REVIEWS = "en/corpus/pubmed-drug-reviews.jsonl.gz"
WIKITEXT = ("en/corpus/general-wikitext2-test.txt", "en/corpus/general-wikitext2-valid.txt")
WORDS = "vocab/bert-base-uncased.txt"


@pytest.fixture
def small(data: Path, tmp_path: Path, copy_lines: Any) -> Path:
    """The beginning of the real data."""
    folder = tmp_path / "data"
    for name in (*WIKITEXT, REVIEWS, WORDS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(data / WORDS, folder / WORDS)
    for name in WIKITEXT:
        copy_lines(data / name, folder / name, 150)
    copy_lines(data / REVIEWS, folder / REVIEWS, 60)
    return folder


@pytest.fixture
def run(small: Path, run_script: Any) -> Any:
    """Run a comparison's script and return what it prints."""

    def call(name: str, out: Path, **environment: str) -> str:
        return run_script(REPRODUCE / name / "run.sh", DATA=str(small), OUT=str(out),
                          OMP_NUM_THREADS="1", **environment)

    return call


@pytest.mark.data
@pytest.mark.slow
def test_forgetting(run: Any, read: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sizes = {"SEEDS": "0", "NEW_TOKENS": "20000", "VOCABULARY": "600", "HELD_OUT": "10",
             "ARMS": "plain replay frozen",
             "BASE_SET": "--set causal.tokens=3000 --set masked.tokens=3000 --set batch_size=4 "
                         "--architecture bert-2x64"}
    table = run("forgetting", out, **sizes)
    lines = {line["model"]: line for line in read(out / "results.jsonl")}
    assert set(lines) == {"before", "plain", "replay", "frozen"}
    assert len({line["retained"]["mean"] for line in lines.values()}) == len(lines)
    assert all(f"| {name} " in table for name in lines)
    plain = lines["plain"]
    assert plain["forgotten"]["mean"] == pytest.approx(
        plain["retained"]["mean"] - lines["before"]["retained"]["mean"], abs=2e-4)
    held_out = {line["id"] for line in read(out / "new-held-out.jsonl")}
    trained = {line["id"] for line in read(out / "new-train.jsonl")}
    assert len(held_out) == 10 and len(trained) == 50 and not held_out & trained
    before = (out / "arms" / "plain-0" / "bmtools.json").stat().st_mtime_ns
    shutil.rmtree(out / "arms" / "frozen-0")
    run("forgetting", out, **sizes)
    assert (out / "arms" / "plain-0" / "bmtools.json").stat().st_mtime_ns == before
    assert {line["model"] for line in read(out / "results.jsonl")} == set(lines)


@pytest.mark.data
@pytest.mark.slow
def test_trainer_curve(run: Any, read: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    table = run("trainer-curve", out, TOKENS="9000", ARCHITECTURE="bert-1x64", EVERY="1",
                HELD_OUT="1")
    points = read(out / "curves.jsonl")
    results = {line["model"]: line for line in read(out / "results.jsonl")}
    assert set(results) == {"trainer", "bmtools", "default"}
    for name, line in results.items():
        own = [point for point in points if point["model"] == name]
        assert 9_000 <= line["tokens"] <= 9_000 + 32 * 128
        assert own[-1]["loss"] < own[0]["loss"]
        assert line["pppl"] > 1 and f"| {name} " in table
    # All runs start with the same weights, so the first losses are near chance and near each other.
    first = {point["model"]: point["loss"] for point in reversed(points)}
    assert first["bmtools"] == pytest.approx(first["trainer"], abs=0.05)


@pytest.mark.data
@pytest.mark.slow
def test_bioptimus_phases(run: Any, read: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    table = run("bioptimus-phases", out, ABSTRACTS="20", BASE_TOKENS="3000", SHARE="0.05",
                HELD_OUT="1")
    names = ["phase-1-tokens", "phase-2-words", "phase-3-more-words", "phase-4-masks-only"]
    assert [path.name for path in sorted((out / "model.kept").iterdir())] == names
    assert all(f"| model.kept/{name} " in table for name in names)
    settings = json.loads((out / "model" / "bmtools.json").read_text())["settings"]
    phases = settings["phases"]
    assert [phase["masking"] for phase in phases] == ["tokens", "words", "words", "words"]
    assert [phase["mask_rate"] for phase in phases] == [0.15, 0.15, 0.2, 0.2]
    assert phases[3]["mask_replace_prob"] == 1.0
    rates = [(phase["learning_rate"], phase["min_lr_ratio"]) for phase in phases]
    for (rate, share), (following, _) in pairwise(rates):
        assert rate * share == pytest.approx(following, rel=1e-3)
    weights = [(out / "model.kept" / name / "model.safetensors").read_bytes() for name in names]
    assert len(set(weights)) == 4
    assert weights[3] == (out / "model" / "model.safetensors").read_bytes()
