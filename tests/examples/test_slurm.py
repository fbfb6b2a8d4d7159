"""Slurm's examples: jobs that are stopped and requeued end like uninterrupted jobs.

A stand-in, `slurm_stand_in.py`, replaces Slurm.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from toy_models import save_random

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICKSTART = EXAMPLES / "quickstart"
STAND_IN = Path(__file__).parents[1] / "slurm_stand_in.py"
Submit = Callable[..., str]


@pytest.fixture
def submit(tmp_path: Path, warm_bmtools: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """Return a function that submits an example with replaced settings and returns the output of
    its jobs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("sbatch", "srun", "scontrol"):
        program = tmp_path / "bin" / name
        program.write_text(f"#!{sys.executable}\n{STAND_IN.read_text()}")
        program.chmod(0o755)

    def call(name: str, *arguments: str, replaced: dict[str, str], code: int = 0,
             **environment: str) -> str:
        text = (EXAMPLES / "slurm" / name).read_text()
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text)
        path = os.pathsep.join([str(tmp_path / "bin"), str(warm_bmtools), os.environ["PATH"]])
        done = subprocess.run(["sbatch", name, *arguments], capture_output=True, text=True,
                              check=False, env={**os.environ, "PATH": path, **environment})
        written = "".join(file.read_text() for file in sorted(tmp_path.glob("slurm-*.out")))
        assert done.returncode == code, done.stderr + written
        return written

    return call


@pytest.fixture
def corpus(run: Any, tmp_path: Path) -> Path:
    """The quickstart's abstracts."""
    run("import", "pubmed", QUICKSTART / "abstracts.xml", "-o", tmp_path / "english.jsonl")
    return tmp_path / "english.jsonl"


def test_stopped_parts_join_to_the_complete_translation(submit: Submit, corpus: Path, run: Any,
                                                        tmp_path: Path) -> None:
    memory = ("--engine", "memory", "--memory", str(QUICKSTART / "memory.tsv"))
    written = submit("translate.sh", corpus.name, "nllb", "italian", replaced={
        "--array=1-64": "--array=1-2", "PARTS=64": "PARTS=2",
        '--engine ctranslate2 --model "$MODEL"': " ".join(memory)},
        SIGNAL_WHEN="[ -e italian/part-$SLURM_ARRAY_TASK_ID.jsonl.run ]")
    assert re.findall(r"session (\d) exited with (\d+)", written) == [("0", "143"), ("1", "0")] * 2
    run("translate", corpus, *memory, "--source-lang", "en", "--target-lang", "it",
        "-o", "whole.jsonl")
    parts = [tmp_path / "italian" / f"part-{number}.jsonl" for number in (1, 2)]
    assert b"".join(part.read_bytes() for part in parts) == Path("whole.jsonl").read_bytes()
    assert all(part.stat().st_size for part in parts)


def test_missing_parts_are_named_and_not_joined(tmp_path: Path) -> None:
    """Run the example's line that joins the parts."""
    [line] = re.findall(r"^#   (.*italian\.jsonl)$", (EXAMPLES / "slurm/translate.sh").read_text(),
                        re.MULTILINE)

    def join() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True,
                              check=False)

    parts = [tmp_path / "italian" / f"part-{number}.jsonl" for number in range(1, 65)]
    parts[0].parent.mkdir()
    for part in parts:
        part.write_text(f"{part.name}\n")
    for number in (6, 40):
        parts[number].unlink()
    failed = join()
    assert failed.returncode != 0 and not (tmp_path / "italian.jsonl").exists()
    assert re.findall(r"part-(\d+)", failed.stderr) == ["7", "41"]
    for number in (6, 40):
        parts[number].write_text(f"{parts[number].name}\n")
    assert join().returncode == 0
    assert (tmp_path / "italian.jsonl").read_text().split() == [part.name for part in parts]


@pytest.mark.slow
def test_a_stopped_run_on_several_nodes_equals_an_uninterrupted_run(submit: Submit, corpus: Path,
                                                                    run: Any,
                                                                    tmp_path: Path) -> None:
    run("build-vocab", corpus, "--uncased", "--size", 500, "-o", "vocabulary")

    def pretrain(output: str, signal_when: str) -> str:
        return submit("pretrain.sh", corpus.name, "vocabulary", output, replaced={
            "--ntasks-per-node=4": "--ntasks-per-node=1", "bert-base": "bert-1x64",
            "--max-length 512 --batch-size 256": "--max-length 32 --batch-size 8",
            "--epochs 3": "--steps 120 --precision no --set logging_steps=1"},
            SIGNAL_WHEN=signal_when, ACCELERATE_USE_CPU="true", GLOO_SOCKET_IFNAME="lo",
            OMP_NUM_THREADS="1")

    written = pretrain("model", "grep -q '\"step\"' slurm-7001.out")
    [stopped] = re.findall(r'"stopped":(\d+)', written)
    assert 0 < int(stopped) < 120
    assert re.findall(r"session (\d) exited with (\d+)", written) == [("0", "75"), ("1", "0")]
    pretrain("other", "false")
    model, other = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "other"))
    assert model.keys() == other.keys()
    assert all(torch.equal(model[name], other[name]) for name in model)


@pytest.fixture
def study(corpus: Path, tmp_path: Path) -> Path:
    """A study whose last step needs the outputs of all parts."""
    (tmp_path / "study.toml").write_text("""[axes]
seed = [0, 1, 2]
[[steps]]
name = "sample"
each = ["seed"]
run = "bmtools sample english.jsonl --records 1 --seed {seed} -o {output}"
output = "{seed}.jsonl"
[[steps]]
name = "all"
gather = ["seed"]
run = "bmtools describe {sample} --json"
output = "all.jsonl"
""")
    return tmp_path / "study.toml"


def test_a_part_without_the_outputs_of_other_parts_fails_once(submit: Submit, study: Path,
                                                              tmp_path: Path) -> None:
    parts = {"--array=1-8": "--array=1-2"}
    written = submit("study.sh", study.name, "out", replaced=parts, code=1, SIGNAL_WHEN="false")
    assert re.findall(r"session (\d) exited with (\d+)", written) == [("0", "1"), ("0", "0")]
    assert "outputs of other parts are missing for 1 job, such as out/1.jsonl" in written
    submit("study.sh", study.name, "out", replaced=parts, SIGNAL_WHEN="false")
    assert (tmp_path / "out/all.jsonl").stat().st_size


def test_stopped_parts_of_a_study_complete_it(submit: Submit, study: Path,
                                              tmp_path: Path) -> None:
    written = submit("study.sh", "study.toml", "out", "sample", replaced={
        "--array=1-8": "--array=1-2"}, SIGNAL_WHEN="[ -e out/.study/0.jsonl.log ]")
    assert re.findall(r"exited with (\d+)", written)[-1] == "0"
    assert {path.name for path in (tmp_path / "out").glob("*.jsonl")} == {
        "0.jsonl", "1.jsonl", "2.jsonl"}
    submit("study.sh", "study.toml", "out", replaced={"--array=1-8": "--array=1-1"},
           SIGNAL_WHEN="true")
    assert (tmp_path / "out/all.jsonl").stat().st_size


@pytest.mark.slow
def test_the_suite_scores_the_model_of_each_task(submit: Submit, run: Any, tokenizer: Any,
                                                 tmp_path: Path) -> None:
    folder = tmp_path / "sets" / "NCBI-disease"
    folder.mkdir(parents=True)
    for part in ("train", "dev", "test"):
        run("import", "conll", QUICKSTART / f"entities-{part}.tsv", "-o", folder / f"{part}.jsonl")
    save_random(tmp_path / "model", tokenizer)
    written = submit("finetune.sh", "sets", "model", "tuned", replaced={
        "--array=0-5": "--array=2-2", "--seeds 3": "--seeds 1 --epochs 1 --precision no"})
    assert written.endswith("session 0 exited with 0\n")
    [line] = run("score-suite", "--suite", "blurb", "--published", "none", "--json",
                 *sorted((tmp_path / "tuned").iterdir())).records
    assert line["scores"].keys() == {"NCBI-disease"}
