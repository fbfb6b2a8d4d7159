"""Train one configuration for some minutes, only from the text, and score it.

    python trial.py NAME --out OUT --minutes 30 --seed 0 --threads 2

NAME is a table in trials.toml with a vocabulary, initial weights, an architecture and a file of
phases. The phases determine the proportions of tokens. A probe of some seconds measures the speed
of each phase on this machine. Then the tokens of all phases are multiplied by one factor, so that
initialisation and training take the given minutes. The factor is saved with the run, so an
interrupted trial can be continued.

Training time includes the initial weights and the complete run of `bmtools pretrain`. Importing the
text, training the vocabulary and encoding are done once and do not count. A trial that is already
in the results is skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CORPORA = ("clinical", "leaflets", "general", "encyclopedia", "translated")
SMALL_VOCABULARY = 2_000
SPARE = 0.97
"""Share of the time that is planned, because other programs may slow down the run."""


class Inputs:
    """Inputs of trials, each made once: vocabularies, shards, initial weights.

    Args:
        out: folder of all results; `text` and `curated.jsonl` exist.
        threads: number of threads of each program.
    """

    def __init__(self, out: Path, threads: int) -> None:
        self.out = out
        self._environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}

    def bmtools(self, *arguments: object, lines: Path | None = None) -> None:
        """Run a bmtools command; write its stdout to a file, if one is given."""
        self._run(["bmtools", *map(str, arguments)], lines)

    def script(self, name: str, *arguments: object) -> None:
        """Run a script in this folder."""
        self._run([sys.executable, str(HERE / name), *map(str, arguments)], None)

    def _run(self, command: Sequence[str], lines: Path | None) -> None:
        with (lines or Path(os.devnull)).open("a") as stream:
            subprocess.run(command, stdout=stream, env=self._environment, check=True)

    def texts(self) -> list[Path]:
        """Return the files of the five corpora."""
        return [self.out / "text" / f"{corpus}.jsonl" for corpus in CORPORA]

    def vocabulary(self, name: str) -> Path:
        """Make a vocabulary: `pieces-8000` is WordPiece, `words-12000` has whole words."""
        folder = self.out / "vocabularies" / name
        kind, size = name.split("-")
        if not folder.exists() and kind == "pieces":
            self.bmtools("build-vocab", *self.texts(), "--uncased", "--size", size, "--allow-fewer",
                         "-o", folder)
        elif not folder.exists():
            pieces = self.vocabulary(f"pieces-{SMALL_VOCABULARY}")
            self.script("vocabulary.py", *self.texts(), "--pieces", pieces, "--words", size,
                        "--content", self.content(name), "-o", folder)
        return folder

    def content(self, vocabulary: str) -> Path:
        """Return the file of content words for a word vocabulary."""
        return self.out / "vocabularies" / f"{vocabulary}.content"

    def shards(self, vocabulary: str) -> dict[str, Path]:
        """Tokenize the corpora."""
        folders = {}
        for corpus, text in zip(CORPORA, self.texts(), strict=True):
            folders[corpus] = self.out / "shards" / vocabulary / corpus
            if not folders[corpus].exists():
                self.bmtools("tokenize", text, "--tokenizer", self.vocabulary(vocabulary),
                             "-o", folders[corpus])
        return folders

    def start(self, trial: Mapping[str, Any], seed: int, folder: Path) -> float:
        """Make initial weights from counts; return the time in seconds."""
        clock = folder.with_suffix(".seconds")
        if not folder.exists():
            started = time.monotonic()
            self.script("start.py", *self.shards(trial["vocabulary"]).values(),
                        "--tokenizer", self.vocabulary(trial["vocabulary"]),
                        "--architecture", trial["architecture"], "--seed", seed,
                        "-o", folder, *trial["start"])
            clock.write_text(str(time.monotonic() - started))
        return float(clock.read_text())


def read_trial(name: str) -> dict[str, Any]:
    """Find a trial and the tokens of its phases."""
    trials = tomllib.loads((HERE / "trials.toml").read_text(encoding="utf-8"))
    if name not in trials:
        raise SystemExit(f"trial.py: found {name!r}, expected one of {', '.join(trials)}")
    trial = trials[name]
    phases = tomllib.loads((HERE / "phases" / trial["phases"]).read_text(encoding="utf-8"))
    trial["tokens"] = {phase["name"]: phase["tokens"] for phase in phases["phases"]}
    return trial


def phase_costs(metrics: Path) -> dict[str, tuple[int, float]]:
    """Add up tokens and seconds of each phase from the metrics of pretrain."""
    phases: dict[str, tuple[int, float]] = {}
    before = 0
    for text in metrics.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if line.get("tokens_per_second"):
            tokens = line["tokens_seen"] - before
            known = phases.get(line["phase"], (0, 0.0))
            phases[line["phase"]] = (known[0] + tokens,
                                     known[1] + tokens / line["tokens_per_second"])
            before = line["tokens_seen"]
    return phases


def fit_tokens(shares: Mapping[str, int], probe: Mapping[str, tuple[int, float]],
            seconds: float) -> dict[str, int]:
    """Multiply the tokens of all phases by one factor, so that they take the given time.

    Args:
        shares: tokens of each phase, in proportion.
        probe: tokens and seconds of each phase in the probe.
        seconds: time for all phases together.
    """
    planned = sum(tokens * probe[name][1] / probe[name][0] for name, tokens in shares.items())
    return {name: max(1, round(tokens * seconds / planned)) for name, tokens in shares.items()}


def lengths(tokens: Mapping[str, int]) -> list[str]:
    """Return the tokens of phases as options of pretrain."""
    return [part for name, count in tokens.items() for part in ("--set", f"{name}.tokens={count}")]


class Trial:
    """A configuration with one seed.

    Args:
        name: name of the trial.
        inputs: vocabularies, shards and initial weights.
        seed: seed for all random numbers.
    """

    def __init__(self, name: str, inputs: Inputs, seed: int) -> None:
        self.config = read_trial(name)
        self.inputs = inputs
        self.seed = seed
        self.folder = inputs.out / "runs" / f"{name}-{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def init_options(self) -> tuple[list[object], float]:
        """Return options of pretrain for the initial weights, and the seconds to make them."""
        if "start" not in self.config:
            return ["--architecture", self.config["architecture"], "--tokenizer",
                    self.inputs.vocabulary(self.config["vocabulary"])], 0.0
        folder = self.folder / "start"
        seconds = self.inputs.start(self.config, self.seed, folder)
        return ["--model", folder], seconds

    def pretrain(self, output: str, tokens: Mapping[str, int], *more: object) -> Path:
        """Train, and return the file of metrics."""
        corpora = [part for name, path in self.inputs.shards(self.config["vocabulary"]).items()
                   for part in ("--corpus", f"{name}={path}")]
        if self.config.get("content"):
            corpora += ["--terms", self.inputs.content(self.config["vocabulary"])]
        metrics = self.folder / f"{output}.jsonl"
        self.inputs.bmtools(
            "pretrain", *corpora, *self.init_options()[0], "--phases",
            HERE / "phases" / self.config["phases"], "--seed", self.seed, *lengths(tokens),
            *(part for text in self.config.get("set", ()) for part in ("--set", text)),
            "-o", self.folder / output, *more, lines=metrics)
        return metrics

    def plan(self, seconds: float, probe_tokens: int) -> dict[str, int]:
        """Measure the speed once, and return the tokens of each phase that fit the time."""
        path = self.folder / "plan.json"
        if path.exists():
            return json.loads(path.read_text())["tokens"]
        init_seconds = self.init_options()[1]
        total = sum(self.config["tokens"].values())
        shrunk = {name: max(1, round(tokens * probe_tokens / total))
                  for name, tokens in self.config["tokens"].items()}
        (self.folder / "probe.jsonl").unlink(missing_ok=True)
        started = time.monotonic()
        metrics = self.pretrain("probe", shrunk, "--set", "logging_steps=5", "--save-steps", 0,
                                "--overwrite")
        wall = time.monotonic() - started
        probe = phase_costs(metrics)
        overhead = max(0.0, wall - sum(taken for _, taken in probe.values()))
        tokens = fit_tokens(self.config["tokens"], probe,
                            max(1.0, SPARE * seconds - init_seconds - overhead))
        shutil.rmtree(self.folder / "probe")
        path.write_text(json.dumps({"tokens": tokens, "probe": probe, "init_seconds": init_seconds,
                                    "overhead_seconds": overhead}))
        return tokens

    def train(self, tokens: Mapping[str, int]) -> float:
        """Train the model; return the seconds of all sessions."""
        clock = self.folder / "sessions.jsonl"
        started = time.monotonic()
        try:
            if not (self.folder / "model").exists():
                self.pretrain("model", tokens, "--set", "logging_steps=100", "--save-steps", 1000,
                              "--resume")
        finally:
            with clock.open("a") as stream:
                stream.write(f"{time.monotonic() - started}\n")
        return sum(map(float, clock.read_text().split()))

    def score(self) -> dict[str, Any]:
        """Score the model."""
        path = self.folder / "mrr.jsonl"
        self.inputs.bmtools("score-mrr", self.inputs.out / "curated.jsonl", "--model",
                              self.folder / "model", "--details", self.folder / "details.jsonl",
                              "-o", path)
        return json.loads(path.read_text())


def main() -> None:
    """Run the trial from the command line."""
    parser = argparse.ArgumentParser(description="Train and score one configuration.")
    parser.add_argument("name")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--tokens", type=int, default=0,
                        help="tokens instead of minutes, to compare trials on any machine")
    parser.add_argument("--probe-tokens", type=int, default=300_000)
    given = parser.parse_args()
    results = given.out / "trials.jsonl"
    key = {"model": given.name, "seed": given.seed, "threads": given.threads,
           **({"token_budget": given.tokens} if given.tokens else {"minutes": given.minutes})}
    if results.exists() and any(key.items() <= json.loads(line).items()
                                for line in results.read_text().splitlines()):
        return
    trial = Trial(given.name, Inputs(given.out, given.threads), given.seed)
    if given.tokens:
        total = sum(trial.config["tokens"].values())
        tokens = {name: max(1, round(count * given.tokens / total))
                  for name, count in trial.config["tokens"].items()}
        init_seconds = trial.init_options()[1]
    else:
        tokens = trial.plan(60 * given.minutes, given.probe_tokens)
        init_seconds = trial.init_options()[1]
    seconds = init_seconds + trial.train(tokens)
    score = trial.score()
    manifest = json.loads((trial.folder / "model" / "bmtools.json").read_text())
    line = {**key, "mrr": score["mrr"], "hits_at_1": score["hits_at_1"],
            "hits_at_5": score["hits_at_5"],
            "mrr_one_token": round(score["mrr"] * score["maskings"]
                                   / max(1, score["maskings"] - score["multi_token"]), 6),
            "multi_token": score["multi_token"], "tokens": manifest["tokens_seen"],
            "phase_tokens": tokens, "seconds": round(seconds, 1),
            "init_seconds": round(init_seconds, 1),
            "configuration": {name: value for name, value in trial.config.items()
                              if name != "tokens"}}
    with results.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
