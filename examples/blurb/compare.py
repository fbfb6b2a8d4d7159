"""Two starts, pretrained and random, fine-tuned on every set, and compared with a baseline.

Usage: OUT=folder python compare.py EXPERIMENTS.toml [NAME ...]

OUT has the starts OUT/pretrained and OUT/random, and OUT/sets/SET/{train,dev,test}.jsonl. JOBS runs
of one thread each go at a time, SEEDS are the seeds of each start. Predictions that exist are kept,
so a run that was killed can be continued. OUT/scores/NAME.jsonl is what `score-tasks` prints of a
set, OUT/variants/NAME.jsonl of its variants, which are fine-tuned from the pretrained start alone.
"""

import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUT = Path(os.environ["OUT"])
SEEDS = os.environ.get("SEEDS", "0 1 2").split()
JOBS = int(os.environ.get("JOBS", os.cpu_count() or 1))

Experiment = dict[str, Any]


def bmtools(*arguments: str | Path) -> None:
    """Run a command on one thread; what it says is shown where it fails."""
    done = subprocess.run(["bmtools", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    if done.returncode:
        raise SystemExit(f"bmtools {shlex.join(map(str, arguments))}:\n{done.stderr[-2000:]}")


def fit(experiment: Experiment, options: str, start: str, seed: str, found: Path) -> None:
    """Fine-tune a start with a seed, and predict the test set; the model is not kept."""
    if found.exists():
        return
    data = OUT / "sets" / experiment["set"]
    found.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        bmtools("finetune", experiment["task"], *shlex.split(options), "--seed-list", seed,
                "--model", OUT / start, "-o", f"{folder}/model",
                "--train", data / "train.jsonl", "--dev", data / "dev.jsonl")
        bmtools("predict", data / "test.jsonl", "--model", f"{folder}/model", "-o", found)
    print(f"{found.parent.name}: {start}, seed {seed}", file=sys.stderr, flush=True)


def predictions(name: str, start: str) -> dict[str, Path]:
    """List the file of each seed."""
    return {seed: OUT / "predictions" / name / f"{start}-{seed}.jsonl" for seed in SEEDS}


def runs(settings: dict[str, Any], names: list[str]) -> Iterator[partial[None]]:
    """Make all runs: every set with the first seed, then with the next, variants last."""
    for seed, name in product(SEEDS, names):
        options = f"{settings['all']} {settings[name]['finetune']}"
        for start in ("pretrained", "random"):
            yield partial(fit, settings[name], options, start, seed, predictions(name, start)[seed])
    for seed, name in product(SEEDS, names):
        for variant, more in settings[name].get("variants", {}).items():
            options = f"{settings['all']} {settings[name]['finetune']} {more}"
            yield partial(fit, settings[name], options, "pretrained", seed,
                          predictions(f"{name}-{variant}", "pretrained")[seed])


def score(name: str, experiment: Experiment) -> None:
    """Compare the starts with a baseline, and the variants with each other."""
    data, options = OUT / "sets" / experiment["set"], shlex.split(experiment.get("score", ""))
    types = options[options.index("--types") + 1:][:1] if "--types" in options else []
    baseline = OUT / "predictions" / name / "baseline.jsonl"
    with baseline.open("w", encoding="utf-8") as lines:
        subprocess.run([sys.executable, HERE / "baseline.py", data / "train.jsonl",
                        data / "test.jsonl", *types], stdout=lines, check=True)
    compare(OUT / "scores" / f"{name}.jsonl", data, options, {
        "pretrained": predictions(name, "pretrained"), "random": predictions(name, "random"),
        "baseline": {"": baseline}})
    if "variants" in experiment:
        compare(OUT / "variants" / f"{name}.jsonl", data, options, {
            experiment["plain"]: predictions(name, "pretrained"),
            **{variant: predictions(f"{name}-{variant}", "pretrained")
               for variant in experiment["variants"]}})


def compare(scores: Path, data: Path, options: list[str],
            models: dict[str, dict[str, Path]]) -> None:
    """Write the scores of some models with several seeds each."""
    scores.parent.mkdir(exist_ok=True)
    files = [f"{model}={file}" for model, seeds in models.items() for file in seeds.values()]
    bmtools("score-tasks", data / "test.jsonl", *files, *options, "-o", scores, "--overwrite")


def main(settings: dict[str, Any], names: list[str]) -> None:
    """Run and score the experiments of these names."""
    with ThreadPoolExecutor(JOBS) as pool:
        for done in [pool.submit(run) for run in runs(settings, names)]:
            done.result()
    for name in names:
        score(name, settings[name])


if __name__ == "__main__":
    with Path(sys.argv[1]).open("rb") as file:
        experiments = tomllib.load(file)
    main(experiments, sys.argv[2:] or [name for name in experiments if name != "all"])
