"""Train one configuration for so many minutes from the text alone, score it, note the figure.

    python trial.py NAME --out OUT --minutes 30 --seed 0 --threads 2

NAME is a table of trials.toml: a vocabulary, a start, an architecture and a file of phases. The
phases say in which proportion tokens are spent. How many there are is measured: a probe of some
seconds gives the speed of each phase on this machine, and the tokens of all phases are multiplied
by one number so that start and training fill the minutes. The number is kept beside the run, so an
interrupted trial goes on where it was.

What counts as training time: making the start, and the whole of `bmtools pretrain`, from the call
to its end. Importing the text, the vocabulary and encoding are done once and counted apart.
A trial that is in the results already is passed over.
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
"""Share of the time that is planned for; other programs may slow a run down later."""


class Workshop:
    """Makes what a trial needs, once for all trials.

    Args:
        out: folder of all results; `text` and `curated.jsonl` are there already.
        threads: of each program.
    """

    def __init__(self, out: Path, threads: int) -> None:
        self.out = out
        self._environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}

    def bmtools(self, *arguments: object, lines: Path | None = None) -> None:
        """Run a bmtools command; what it prints goes to a file, or nowhere."""
        self._run(["bmtools", *map(str, arguments)], lines)

    def script(self, name: str, *arguments: object) -> None:
        """Run a script of this folder."""
        self._run([sys.executable, str(HERE / name), *map(str, arguments)], None)

    def _run(self, command: Sequence[str], lines: Path | None) -> None:
        with (lines or Path(os.devnull)).open("a") as stream:
            subprocess.run(command, stdout=stream, env=self._environment, check=True)

    def texts(self) -> list[Path]:
        """The five corpora."""
        return [self.out / "text" / f"{corpus}.jsonl" for corpus in CORPORA]

    def vocabulary(self, name: str) -> Path:
        """Learn a vocabulary: `pieces-8000` by merging, `words-12000` of whole words."""
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
        """Where the words of a vocabulary of words stand that carry meaning."""
        return self.out / "vocabularies" / f"{vocabulary}.content"

    def shards(self, vocabulary: str) -> dict[str, Path]:
        """Encode the corpora."""
        folders = {}
        for corpus, text in zip(CORPORA, self.texts(), strict=True):
            folders[corpus] = self.out / "shards" / vocabulary / corpus
            if not folders[corpus].exists():
                self.bmtools("tokenize", text, "--tokenizer", self.vocabulary(vocabulary),
                             "-o", folders[corpus])
        return folders

    def start(self, trial: Mapping[str, Any], seed: int, folder: Path) -> float:
        """Make what training starts from, where it is more than drawn numbers; return seconds."""
        taken = folder.with_suffix(".seconds")
        if not folder.exists():
            begun = time.monotonic()
            self.script("start.py", *self.shards(trial["vocabulary"]).values(),
                        "--tokenizer", self.vocabulary(trial["vocabulary"]),
                        "--architecture", trial["architecture"], "--seed", seed,
                        "-o", folder, *trial["start"])
            taken.write_text(str(time.monotonic() - begun))
        return float(taken.read_text())


def read_trial(name: str) -> dict[str, Any]:
    """Find a trial and the tokens of its phases."""
    trials = tomllib.loads((HERE / "trials.toml").read_text(encoding="utf-8"))
    if name not in trials:
        raise SystemExit(f"trial.py: found {name!r}, expected one of {', '.join(trials)}")
    trial = trials[name]
    phases = tomllib.loads((HERE / "phases" / trial["phases"]).read_text(encoding="utf-8"))
    trial["tokens"] = {phase["name"]: phase["tokens"] for phase in phases["phases"]}
    return trial


def spent(metrics: Path) -> dict[str, tuple[int, float]]:
    """Add up tokens and seconds of each phase from the lines that pretrain printed."""
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


def fitting(shares: Mapping[str, int], probe: Mapping[str, tuple[int, float]],
            seconds: float) -> dict[str, int]:
    """Multiply the tokens of phases by one number so that all take so many seconds.

    Args:
        shares: tokens of each phase, in proportion.
        probe: tokens and seconds of each phase in the probe.
        seconds: what there is.
    """
    at_ease = sum(tokens * probe[name][1] / probe[name][0] for name, tokens in shares.items())
    return {name: max(1, round(tokens * seconds / at_ease)) for name, tokens in shares.items()}


def lengths(tokens: Mapping[str, int]) -> list[str]:
    """Say tokens of phases as options of pretrain."""
    return [part for name, count in tokens.items() for part in ("--set", f"{name}.tokens={count}")]


class Trial:
    """A configuration under one seed.

    Args:
        name: of the trial.
        workshop: makes what it needs.
        seed: of everything in it.
    """

    def __init__(self, name: str, workshop: Workshop, seed: int) -> None:
        self.asked = read_trial(name)
        self.workshop = workshop
        self.seed = seed
        self.folder = workshop.out / "runs" / f"{name}-{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def beginning(self) -> tuple[list[object], float]:
        """Name the start as options of pretrain, with the seconds that it took."""
        if "start" not in self.asked:
            return ["--architecture", self.asked["architecture"], "--tokenizer",
                    self.workshop.vocabulary(self.asked["vocabulary"])], 0.0
        folder = self.folder / "start"
        seconds = self.workshop.start(self.asked, self.seed, folder)
        return ["--model", folder], seconds

    def pretrain(self, output: str, tokens: Mapping[str, int], *more: object) -> Path:
        """Train, and return the file of metrics."""
        corpora = [part for name, path in self.workshop.shards(self.asked["vocabulary"]).items()
                   for part in ("--corpus", f"{name}={path}")]
        if self.asked.get("content"):
            corpora += ["--terms", self.workshop.content(self.asked["vocabulary"])]
        metrics = self.folder / f"{output}.jsonl"
        self.workshop.bmtools(
            "pretrain", *corpora, *self.beginning()[0], "--phases",
            HERE / "phases" / self.asked["phases"], "--seed", self.seed, *lengths(tokens),
            *(part for text in self.asked.get("set", ()) for part in ("--set", text)),
            "-o", self.folder / output, *more, lines=metrics)
        return metrics

    def plan(self, seconds: float, probe_max_length: int) -> dict[str, int]:
        """Measure the speed here, once, and give the tokens of each phase that fill the time."""
        path = self.folder / "plan.json"
        if path.exists():
            return json.loads(path.read_text())["tokens"]
        began = self.beginning()[1]
        total = sum(self.asked["tokens"].values())
        shrunk = {name: max(1, round(tokens * probe_max_length / total))
                  for name, tokens in self.asked["tokens"].items()}
        (self.folder / "probe.jsonl").unlink(missing_ok=True)
        begun = time.monotonic()
        metrics = self.pretrain("probe", shrunk, "--logging-steps", 5, "--save-steps", 0,
                                "--overwrite")
        wall = time.monotonic() - begun
        probe = spent(metrics)
        around = max(0.0, wall - sum(taken for _, taken in probe.values()))
        tokens = fitting(self.asked["tokens"], probe, max(1.0, SPARE * seconds - began - around))
        shutil.rmtree(self.folder / "probe")
        path.write_text(json.dumps({"tokens": tokens, "probe": probe, "start_seconds": began,
                                    "around_seconds": around}))
        return tokens

    def train(self, tokens: Mapping[str, int]) -> float:
        """Train for good; return seconds of all sittings."""
        clock = self.folder / "sittings.jsonl"
        begun = time.monotonic()
        try:
            if not (self.folder / "model").exists():
                self.pretrain("model", tokens, "--logging-steps", 100, "--save-steps", 1000,
                              "--resume")
        finally:
            with clock.open("a") as stream:
                stream.write(f"{time.monotonic() - begun}\n")
        return sum(map(float, clock.read_text().split()))

    def score(self) -> dict[str, Any]:
        """Score the model."""
        path = self.folder / "mrr.jsonl"
        self.workshop.bmtools("score-mrr", self.workshop.out / "curated.jsonl", "--model",
                              self.folder / "model", "--details", self.folder / "details.jsonl",
                              "-o", path)
        return json.loads(path.read_text())


def main() -> None:
    """Run the trial that the command line names."""
    parser = argparse.ArgumentParser(description="Train and score one configuration.")
    parser.add_argument("name")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--tokens", type=int, default=0,
                        help="so many tokens instead of minutes, to compare trials on any machine")
    parser.add_argument("--probe-max-length", type=int, default=300_000)
    given = parser.parse_args()
    results = given.out / "trials.jsonl"
    key = {"model": given.name, "seed": given.seed, "threads": given.threads,
           **({"asked_tokens": given.tokens} if given.tokens else {"minutes": given.minutes})}
    if results.exists() and any(key.items() <= json.loads(line).items()
                                for line in results.read_text().splitlines()):
        return
    trial = Trial(given.name, Workshop(given.out, given.threads), given.seed)
    if given.tokens:
        total = sum(trial.asked["tokens"].values())
        tokens = {name: max(1, round(count * given.tokens / total))
                  for name, count in trial.asked["tokens"].items()}
        began = trial.beginning()[1]
    else:
        tokens = trial.plan(60 * given.minutes, given.probe_max_length)
        began = trial.beginning()[1]
    seconds = began + trial.train(tokens)
    score = trial.score()
    manifest = json.loads((trial.folder / "model" / "bmtools.json").read_text())
    line = {**key, "mrr": score["mrr"], "hits_at_1": score["hits_at_1"],
            "hits_at_5": score["hits_at_5"],
            "mrr_one_token": round(score["mrr"] * score["maskings"]
                                   / max(1, score["maskings"] - score["multi_token"]), 6),
            "multi_token": score["multi_token"], "tokens": manifest["tokens_seen"],
            "phase_tokens": tokens, "seconds": round(seconds, 1),
            "start_seconds": round(began, 1),
            "configuration": {name: value for name, value in trial.asked.items()
                              if name != "tokens"}}
    with results.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
