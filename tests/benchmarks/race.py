"""Race between sides of pretraining: processes that take turns of a few steps.

Turns spread the noise of a busy machine over all sides. Each side is a separate process, so its
peak memory can be measured. `side.py` is the program of a side.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MEASURED = "measured: "
"""Prefix of the line in which a side reports its turn."""
_PROGRAM = Path(__file__).with_name("side.py")
_WARM_STEPS = 2
_PATIENCE_SECONDS = 10


@dataclass(frozen=True)
class Side:
    """One side of a race: the model, text and settings of its training.

    Args:
        program: bmtools, trainer or, with a teacher, loop.
        architecture: such as bert-4x256.
        max_length: maximum length of a sequence, including special tokens.
        step_tokens: approximate number of useful tokens per step; determines the batch size.
        layout: padded or packed for bmtools. For Trainer: grouped (joined documents, then cut) or
            lines (one document per sequence, padded to max_length).
        dropout: dropout probability.
        precision: auto, no or bf16.
        compiled: compile the model.
        device: cpu or cuda.
        text: directory of shards; empty for made-up ids in documents of real lengths.
        tokenizer: directory of the tokenizer; empty for a stand-in.
        teacher: architecture of a teacher, for training with masked-LM loss, KL and cosine.
        positions: positions at which predictions are compared, masked or all.
    """

    program: str
    architecture: str
    max_length: int
    step_tokens: int
    layout: str
    dropout: float = 0.0
    precision: str = "no"
    compiled: bool = False
    device: str = "cpu"
    text: str = ""
    tokenizer: str = ""
    teacher: str = ""
    positions: Any = "masked"


@dataclass(frozen=True)
class Turn:
    """Measurements of some steps of a side.

    Args:
        steps: number of steps.
        tokens: number of useful tokens: text without padding and special tokens.
        seconds: wall time, including data and optimizer.
        cpu_seconds: processor time of all its threads, including system time.
        peak_bytes: peak memory since the side started: resident memory of its process, including
            interpreter and libraries, or memory on the GPU.
    """

    steps: int
    tokens: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int

    @property
    def rate(self) -> float:
        """Useful tokens per second."""
        return self.tokens / self.seconds


class SideError(Exception):
    """A side ended early; the message is its last line."""


class Racer:
    """The process of a side.

    Args:
        side: the side to train.
        threads: number of threads for arithmetic.
    """

    def __init__(self, side: Side, threads: int) -> None:
        self.side = side
        self.turns: list[Turn] = []
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed by `end`
        no_gpu = {"CUDA_VISIBLE_DEVICES": ""} if side.device == "cpu" else {}
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), json.dumps(asdict(side))], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env={**os.environ, **no_gpu, "OMP_NUM_THREADS": str(threads),
                 "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"})

    def ask(self, steps: int) -> None:
        """Request some steps."""
        assert self._process.stdin is not None
        print(steps, file=self._process.stdin, flush=True)

    def answer(self) -> Turn:
        """Wait until the steps are done.

        Raises:
            SideError: the process ended instead.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(MEASURED):
                return Turn(**json.loads(line.removeprefix(MEASURED)))
        self._log.seek(0)
        words = self._log.read().strip().splitlines() or [f"exit {self._process.wait()}"]
        raise SideError(f"{self.side.program}, {self.side.layout}: {words[-1][:300]}")

    def end(self) -> None:
        """Let the process exit, or kill it."""
        try:
            self._process.communicate("0\n", timeout=_PATIENCE_SECONDS)
        except (subprocess.TimeoutExpired, OSError):
            self._process.kill()
            self._process.communicate()
        self._log.close()


class Race:
    """Race of several sides that take turns.

    Processes load at the same time and then warm up one by one, because threads that wait for
    each other on too few cores would block everything. On a GPU they warm up together. A turn has
    as many steps as fit into its time, but at least one.

    Args:
        sides: sides by name.
        turn_seconds: approximate duration of a turn.
        threads: number of threads for arithmetic in each process.
        optional: names of sides that may fail; the summary reports their errors.
    """

    def __init__(self, sides: Mapping[str, Side], turn_seconds: float, threads: int,
                 optional: tuple[str, ...] = ()) -> None:
        self._failures: dict[str, str] = {}
        self._optional = optional
        self._racers = {name: Racer(side, threads) for name, side in sides.items()}
        together = any(side.device == "cuda" for side in sides.values())
        self._gather(list(sides))
        for _ in range(2):
            self._warm_up(together)
        self._steps = {}
        for name, racer in self._racers.items():
            last = racer.turns[-1]
            self._steps[name] = max(1, round(turn_seconds * last.steps / last.seconds))
            racer.turns.clear()

    def __enter__(self) -> Race:
        return self

    def __exit__(self, *_: object) -> None:
        for racer in self._racers.values():
            racer.end()

    def turn(self, *names: str) -> None:
        """Let sides take a turn, one after the other; skip sides that failed."""
        for name in names:
            if name in self._racers:
                self._racers[name].ask(self._steps[name])
                self._gather([name])

    def summary(self, *peers: str) -> dict[str, Any]:
        """Return speed and memory of each side, and its speed relative to the peers."""
        rivals = [peer for peer in peers if peer in self._racers]
        return {"sides": {name: self._measured(name) for name in self._racers},
                "times_faster": {name: {peer: self._ratio(name, peer) for peer in rivals}
                                 for name in self._racers if name not in peers},
                "failures": self._failures}

    def _measured(self, name: str) -> dict[str, float]:
        turns = self._racers[name].turns
        return {"tokens_per_second": round(statistics.median(turn.rate for turn in turns)),
                "step_tokens": round(sum(turn.tokens for turn in turns)
                                     / sum(turn.steps for turn in turns)),
                "peak_megabytes": round(turns[-1].peak_bytes / 1e6)}

    def _ratio(self, name: str, peer: str) -> dict[str, float]:
        """Compare turn by turn, and by processor time, which depends less on other processes."""
        pairs = list(zip(self._racers[name].turns, self._racers[peer].turns, strict=True))
        found = [one.rate / other.rate for one, other in pairs]
        spent = [other.cpu_seconds * one.tokens / (one.cpu_seconds * other.tokens)
                 for one, other in pairs]
        return {"median": round(statistics.median(found), 2), "lowest": round(min(found), 2),
                "highest": round(max(found), 2), "processor": round(statistics.median(spent), 2)}

    def _warm_up(self, together: bool) -> None:
        for name, racer in list(self._racers.items()):
            racer.ask(_WARM_STEPS)
            if not together:
                self._gather([name])
        if together:
            self._gather(list(self._racers))

    def _gather(self, names: list[str]) -> None:
        """Wait for the answers of sides; drop an optional side if it fails."""
        for name in names:
            try:
                self._racers[name].turns.append(self._racers[name].answer())
            except SideError as error:
                if name not in self._optional:
                    self.__exit__()
                    raise
                self._failures[name] = str(error)
                self._racers.pop(name).end()


def note(benchmark: Any, side: Side, found: Mapping[str, Any], **more: Any) -> None:
    """Add a summary to a benchmark's results, and print it."""
    benchmark.extra_info.update(found, architecture=side.architecture, max_length=side.max_length,
                                precision=side.precision, device=side.device,
                                real_text=bool(side.text), **more)
    print(f"\n{benchmark.name}: {json.dumps(benchmark.extra_info, indent=1)}")
