"""The examples on the field's task sets: their baselines, and both whole but at toy size."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ONE_SET = """all = "--batch-size 8 --epochs 1"
[BIOSSES]
set = "BIOSSES"
task = "similarity"
finetune = "--max-length 64"
plain = "linear"
variants = {{ mlp = "--set dropout=0" }}
["{name}"]
set = "{questions}"
task = "{task}"
finetune = "--max-length 64"
"""


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name, task, questions, set_name", [
    ("blurb", "yesno", "BioASQ", "BioASQ"), ("biobit-tasks", "qa", "BioASQ-4b", "BioASQ 4b")])
def test_examples(data: Path, tmp_path: Path, run_script: Any, read: Any, name: str, task: str,
                  questions: str, set_name: str) -> None:
    for folder in ("blurb", "biobit-tasks"):
        shutil.copytree(EXAMPLES / folder, tmp_path / folder, ignore=shutil.ignore_patterns("out"))
    here = tmp_path / name
    phases = (here / "pretraining.toml").read_text()
    (here / "pretraining.toml").write_text(re.sub(r"tokens = [\d_]+", "tokens = 4000", phases))
    script = tmp_path / "blurb" / "two_starts.sh"
    script.write_text(script.read_text().replace("bert-4x256", "bert-1x64"))
    settings = ONE_SET.format(task=task, questions=questions, name=set_name)
    if name == "biobit-tasks":      # which has no pairs of sentences
        settings = re.sub(r"\[BIOSSES\][^[]*", "", settings)
    (here / "experiments.toml").write_text(settings)
    out = tmp_path / "out"
    run_script(here / "run.sh", OUT=str(out), DATA=str(data), SEEDS="0 1", RECORDS="40",
               PRETRAINING="--set precision=no")
    scores = {path.stem: read(path) for path in (out / "scores").glob("*.jsonl")}
    models = {line["model"] for line in scores[set_name] if "model" in line}
    assert {"pretrained", "random", "baseline"} <= models
    compared = [set(line["compared"]) for line in scores[set_name] if "compared" in line]
    assert {"pretrained", "random"} in compared
    if name == "blurb":
        assert len(read(out / "sets/PubMedQA/test.jsonl")) == 500
        assert len(read(out / "sets/BC5CDR/test.jsonl")) == 4797
        variants = {line.get("model") for line in read(out / "variants/BIOSSES.jsonl")}
        assert {"linear", "mlp"} <= variants
    suite = read(out / "suite.jsonl")
    assert {"pretrained", "random", "baseline"} <= {line.get("model") for line in suite}
