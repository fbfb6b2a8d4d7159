"""Runs as processes: killed and resumed, stopped, shared by several, and by other numbers of them.

Each run is a separate process, forked from a process that has imported everything, so it takes half
a second.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import runpy
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bmtools.data.tokenize import tokenize
from bmtools.io.jsonl import RecordReader
from bmtools.vocab.tokenizer import save_tokenizer

HELPER = Path(__file__).with_name("forked_main.py")
CLOCKS = {"tokens_per_second", "seconds_left", "wall_seconds", "seconds"}
SIZES = ("--max-length", "24", "--batch-size", "8")
LAYOUTS = {"padded": ["--layout", "padded"],
           "packed": ["--layout", "packed", "--set", "pairs.objective=masked+sop"]}
# Three phases with different settings, and everything that keeps state between steps.
PHASES = """
[run]
replay_steps = 3
mixout = 0.4
l2_sp = 0.01
layer_decay = 0.9
dropout = 0.1
precision = "no"

[common]
max_length = 24
batch_size = 8
learning_rate = 2e-3
warmup_steps = 2

[[phases]]
name = "detour"
objective = "causal"
steps = 5

[[phases]]
name = "pairs"
objective = "masked+nsp"
steps = 6
mixture = { text = 1.0, more = 2.0 }

[[phases]]
name = "late"
steps = 7
mask_rate = 0.1
mask_rate_end = 0.3
frozen_layers = 1
schedule = "wsd"
"""
STEPS = 18


class Job:
    """A command in one process or several, with its output in files."""

    def __init__(self, folder: Path, arguments: Sequence[object], processes: int = 1,
                 hook: str = "", **environment: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["bmtools.training.pretrain", "bmtools.commands.pretrain",
                                        "transformers.models.bert.modeling_bert"])
        name = f"{time.monotonic_ns()}"
        self._outs = [folder / f"{name}-{rank}.out" for rank in range(processes)]
        self._errs = [folder / f"{name}-{rank}.err" for rank in range(processes)]
        self._members = []
        for rank in range(processes):
            given = {"ARGUMENTS": [str(argument) for argument in arguments], "HOOK": hook,
                     "OUT": str(self._outs[rank]), "ERR": str(self._errs[rank]),
                     "ENVIRONMENT": {**environment, **launcher_environment(rank, processes, name)}}
            member = context.Process(target=runpy.run_path, args=(str(HELPER), given))
            member.start()
            self._members.append(member)

    def wait(self, seconds: float = 240) -> list[int | None]:
        """Wait for all processes and return their exit codes."""
        for member in self._members:
            member.join(seconds)
            if member.is_alive():
                member.kill()
                raise TimeoutError("the run hangs")
        return [member.exitcode for member in self._members]

    def succeed(self, seconds: float = 240) -> Job:
        """Wait for all processes, which must succeed."""
        assert self.wait(seconds) == [0] * len(self._members), self.err
        return self

    def after(self, step: int, number: int) -> Job:
        """Send a signal when a step is reported."""
        return self.until(lambda: any(line.get("step", 0) >= step for line in self.records)
                          ).send(number)

    @property
    def pid(self) -> int:
        """Number of the first process."""
        return self._members[0].pid or 0

    def until(self, condition: Callable[[], object]) -> Job:
        """Wait until a condition comes true while the first process runs."""
        while not condition():
            assert self._members[0].is_alive(), self.err
            time.sleep(0.002)
        return self

    def send(self, number: int) -> Job:
        """Send a signal."""
        for member in self._members:
            os.kill(member.pid or 0, number)
        return self

    @property
    def out(self) -> str:
        """Output of the first process on stdout."""
        return self._outs[0].read_text() if self._outs[0].exists() else ""

    @property
    def records(self) -> list[dict[str, Any]]:
        """Complete lines of the first process."""
        return [json.loads(line) for line in self.out[:self.out.rfind("\n") + 1].splitlines()]

    @property
    def err(self) -> str:
        """Messages of the first process on stderr."""
        return self._errs[0].read_text()


_ports: dict[str, int] = {}


def launcher_environment(rank: int, processes: int, name: str) -> dict[str, str]:
    """Return the environment variables that a launcher sets."""
    if processes == 1:
        return {}
    if name not in _ports:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            _ports[name] = free.getsockname()[1]
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes),
            "LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_ports[name]), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def data(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a vocabulary, two corpora of several sentences, an old corpus and phases."""
    folder = tmp_path_factory.mktemp("runs")
    save_tokenizer(tokenizer, folder / "vocabulary")
    rng = random.Random(5)
    subjects, verbs = ("Il cuore", "Il polmone", "Il fegato", "La milza"), ("pompa", "filtra")
    for name, documents in (("text", 60), ("more", 40), ("old", 30)):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as stream:
            for number in range(documents):
                sentences = [f"{rng.choice(subjects)} {rng.choice(verbs)} il sangue."
                             for _ in range(rng.randrange(1, 9))]
                stream.write(json.dumps({"id": str(number), "text": " ".join(sentences),
                                         "lang": "it"}) + "\n")
    (folder / "phases.toml").write_text(PHASES, encoding="utf-8")
    return folder


Start = Callable[..., Job]


@pytest.fixture
def start(data: Path, tmp_path: Path) -> Start:
    """Start a run: `start("out", "--steps", 4, processes=2)`."""

    def begin(name: str, *more: object, processes: int = 1, hook: str = "",
              **environment: str) -> Job:
        return Job(tmp_path, [*common(data), "-o", tmp_path / name, *more], processes, hook,
                   **environment)

    return begin


def common(data: Path) -> list[object]:
    return ["pretrain", data / "text.jsonl", "--architecture", "bert-1x64", "--tokenizer",
            data / "vocabulary", "--set", "logging_steps=2"]


def phased(data: Path) -> list[object]:
    return ["--phases", data / "phases.toml", "--corpus", f"more={data / 'more.jsonl'}",
            "--replay", data / "old.jsonl"]


@pytest.fixture(scope="module")
def never_stopped(data: Path) -> Callable[[str], Path]:
    """Return the output of an uninterrupted run with phases, by layout."""

    def run(layout: str) -> Path:
        output = data / f"never-stopped-{layout}"
        if not output.exists():
            Job(data, [*common(data), "-o", output, *phased(data), *LAYOUTS[layout]]).succeed()
        return output

    return run


def metrics(output: Path) -> list[dict[str, Any]]:
    """Read the metrics of a run without its clocks."""
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in CLOCKS} for line in lines]


def losses(lines: Sequence[dict[str, Any]]) -> list[float]:
    return [line["loss"] for line in lines if "of" in line and "loss" in line]


def first_step(job: Job) -> int:
    """Return the first step that a session reported."""
    return next(line["step"] for line in job.records if "of" in line)


def same_run(ours: Path, theirs: Path) -> None:
    """Assert that two runs are equal: losses, weights, checkpoints of phases."""
    assert metrics(ours) == metrics(theirs)
    for part in ("", ".kept/phase-1-detour", ".kept/phase-2-pairs", ".kept/phase-3-late"):
        one, other = (Path(f"{path}{part}") / "model.safetensors" for path in (ours, theirs))
        assert one.read_bytes() == other.read_bytes(), part


def dies_at(step: int, moment: str = "after") -> str:
    """Return a hook that sends SIGKILL before, during or after saving the state of a step."""
    kill = "os.kill(os.getpid(), 9)"
    if moment == "amid":
        return f"""
import bmtools.training.checkpoints as state
flush = state.flush_to_disk
def die(directory):
    if ".step-{step:08d}." in directory.name:
        {kill}
    flush(directory)
state.flush_to_disk = die
"""
    saves = "save(checkpointer, positions)"
    order = [kill, saves] if moment == "before" else [f"{saves}; checkpointer.settle()", kill]
    return f"""
import bmtools.training.checkpoints as checkpoints
save = checkpoints.Checkpointer.save
def die(checkpointer, positions):
    if checkpointer.progress.step == {step}:
        {order[0]}
        {order[1]}
    {saves}
checkpoints.Checkpointer.save = die
"""


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_killed_in_each_phase_and_at_their_borders_equals_an_uninterrupted_run(
        start: Start, data: Path, tmp_path: Path, never_stopped: Callable[[str], Path],
        layout: str) -> None:
    """With replay, mixout, L2-SP, a mixture and dropout."""
    given = [*phased(data), *LAYOUTS[layout], "--save-steps", 1]
    rng = random.Random()
    deaths = {"padded": [(rng.randrange(2, 5), "after"), (5, "amid"), (5, "after"), (7, "before"),
                         (11, "after"), (rng.randrange(13, 17), "amid")],
              "packed": [(rng.randrange(2, 5), "amid"), (5, "after"), (11, "before"),
                         (rng.randrange(13, 17), "after")]}[layout]
    for number, (step, moment) in enumerate(deaths):
        resumes = ["--resume"] if number else []
        killed = start("killed", *given, *resumes, hook=dies_at(step, moment))
        assert killed.wait() == [-signal.SIGKILL], (deaths, killed.err)
        assert not (tmp_path / "killed").exists()
    resumed = start("killed", *given, "--resume").succeed()
    assert first_step(resumed) > 12, deaths
    same_run(tmp_path / "killed", never_stopped(layout))
    assert not list(tmp_path.glob("*.run")) and not list(tmp_path.glob(".*"))


def test_each_phase_is_kept_and_froze_its_weights(
        never_stopped: Callable[[str], Path]) -> None:
    kept = Path(f"{never_stopped('padded')}.kept")
    assert sorted(path.name for path in kept.iterdir()) == [
        "phase-1-detour", "phase-2-pairs", "phase-3-late"]
    before, after = (load_file(kept / name / "model.safetensors")
                     for name in ("phase-2-pairs", "phase-3-late"))
    still = ("bert.embeddings.", "bert.encoder.layer.0.", "bert.pooler.", "cls.seq_relationship.")
    for name, weight in before.items():
        assert torch.equal(weight, after[name]) == name.startswith(still), name
    # The head of sentence pairs is saved once they have trained it.
    assert before.keys() - load_file(kept / "phase-1-detour" / "model.safetensors").keys() == {
        f"{name}.{kind}" for name in ("bert.pooler.dense", "cls.seq_relationship")
        for kind in ("weight", "bias")}
    ends = [json.loads((kept / name / "bmtools.json").read_text())["results"]["last"]
            for name in ("phase-1-detour", "phase-2-pairs", "phase-3-late")]
    assert [(line["step"], line["phase"]) for line in ends] == [
        (5, "detour"), (11, "pairs"), (18, "late")]


STOPPING = ("bmtools: stopping after this step and saving the training state; press Ctrl-C again "
            "to exit now without saving\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_ends_the_session_with_a_state(
        start: Start, data: Path, tmp_path: Path, never_stopped: Callable[[str], Path],
        number: int) -> None:
    given = [*phased(data), "--layout", "padded", "--save-steps", 0]
    stopped = start("out", *given).after(3, number)
    assert stopped.wait() == [75]
    assert stopped.err == STOPPING + "bmtools: stopped before the end; use --resume to continue\n"
    last = stopped.records[-1]
    assert (last["of"], last["state"]) == (STEPS, str(tmp_path / "out.run"))
    assert 3 <= last["stopped"] < STEPS
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} <= {"out.run", "out.kept"}
    resumed = start("out", *given, "--resume").succeed()
    assert first_step(resumed) - last["stopped"] in (1, 2)
    same_run(tmp_path / "out", never_stopped("padded"))


SLOW = """
from bmtools.training.loop import Trainer
step = Trainer.step
def slow(self, number, *more):
    if number >= 6: time.sleep(60)
    return step(self, number, *more)
import time
Trainer.step = slow
"""


def test_a_second_ctrl_c_exits_at_once_and_names_the_last_state(
        start: Start, tmp_path: Path) -> None:
    job = start("out", "--steps", 40, "--save-steps", 2, *SIZES, "--precision", "no",
                hook=SLOW)
    job.after(6, signal.SIGINT)
    job.until(lambda: STOPPING in job.err)
    time.sleep(0.3)
    began = time.monotonic()
    job.after(6, signal.SIGINT)
    assert job.wait() == [130], job.err + job.out
    assert time.monotonic() - began < 5
    assert job.err == (f"{STOPPING}bmtools: interrupted: the state saved at step 6 is in "
                       f"{tmp_path / 'out'}.run; use --resume to continue\n")
    assert not list((tmp_path / "out.run").glob(".*"))




@pytest.mark.parametrize("settings", [
    ("--precision", "bf16", "--micro-batch-size", 3,
     "--set", "activation_checkpointing=true"),
    ("--set", "optimizer=muon", "--set", "adversarial=5", "--set", "mixout=0")],
    ids=["adamw", "muon"])
def test_every_way_to_train_resumes_to_the_bit(start: Start, data: Path, tmp_path: Path,
                                               settings: tuple[object, ...]) -> None:
    given = [*phased(data), "--layout", "packed", "--save-steps", 1, *settings]
    start("whole", *given).succeed()
    assert start("out", *given, hook=dies_at(9)).wait() == [-signal.SIGKILL]
    start("out", *given, "--resume").succeed()
    same_run(tmp_path / "out", tmp_path / "whole")


SKIPS_SOON = """
import bmtools.training.loop as loop
loop._LEAST_RECENT = 3
"""


def test_skipped_updates_are_the_same_after_a_kill_and_in_two_processes(
        start: Start, data: Path, tmp_path: Path) -> None:
    """A bound so low that some of 24 updates are skipped, before and after the kill."""
    given = ["--steps", 24, *SIZES, "--save-steps", 1, "--skip-spikes", 0.01,
             "--set", "logging_steps=1", "--precision", "no"]
    whole = start("whole", *given, hook=SKIPS_SOON).succeed()
    killed = start("out", *given, hook=SKIPS_SOON + dies_at(14))
    assert killed.wait() == [-signal.SIGKILL]
    start("out", *given, "--resume", hook=SKIPS_SOON).succeed()
    assert metrics(tmp_path / "out") == metrics(tmp_path / "whole")
    assert (tmp_path / "out/model.safetensors").read_bytes() == \
        (tmp_path / "whole/model.safetensors").read_bytes()
    skipped = [line["step"] for line in metrics(tmp_path / "whole") if "skipped" in line]
    assert min(skipped) <= 14 < max(skipped)
    assert [f"step {step}:" in whole.err for step in skipped] == [True] * len(skipped)
    start("two", *given, hook=SKIPS_SOON, processes=2).succeed()
    assert skipped == [line["step"] for line in metrics(tmp_path / "two") if "skipped" in line]


# Several processes

# Dropout equals one process if the micro-batches do.
SAME_DROPOUT = ("--set", "dropout=0.1", "--micro-batch-size", 1)
LAST_DIGIT = 1.1e-6  # losses are reported to six


@pytest.mark.parametrize(("layout", "processes", "precision"), [
    ("padded", 4, "no"), ("packed", 2, "no"), ("padded", 2, "bf16")])
def test_several_processes_have_the_losses_of_one(
        start: Start, data: Path, tmp_path: Path, layout: str, processes: int,
        precision: str) -> None:
    """Each phase leaves different weights without gradients: heads, frozen ones."""
    given = [*phased(data), *LAYOUTS[layout], *SAME_DROPOUT, "--precision", precision,
             "--evaluate", data / "old.jsonl", "--retain", data / "more.jsonl"]
    jobs = [start(f"of-{number}", *given, processes=number).succeed() for number in (1, processes)]
    ones, others = (metrics(tmp_path / f"of-{number}") for number in (1, processes))
    assert losses(others) == pytest.approx(
        losses(ones), abs=LAST_DIGIT if precision == "no" else 1e-3)
    for one, other in zip(ones, others, strict=True):
        counts = ("step", "tokens_seen", "batch_size", "mask_rate", "words_masked")
        assert [one.get(name) for name in counts] == [other.get(name) for name in counts]
        assert one.get("evaluate", {}) == pytest.approx(other.get("evaluate", {}), abs=2e-4)
    alone, shared = (job.records[-1]["retained"]["cost"] for job in jobs)
    assert alone == pytest.approx(shared, abs=2e-4)


@pytest.mark.slow
def test_resumed_by_other_numbers_of_processes(start: Start, data: Path, tmp_path: Path) -> None:
    """Two processes start, one continues into the next phase, four finish."""
    given = [*phased(data), "--layout", "padded", *SAME_DROPOUT, "--save-steps", 1]
    start("whole", *given).succeed()
    assert start("out", *given, processes=2, hook=dies_at(4)).wait() == [-signal.SIGKILL] * 2
    assert start("out", *given, "--resume", hook=dies_at(12)).wait() == [-signal.SIGKILL]
    start("out", *given, "--resume", processes=4).succeed()
    assert losses(metrics(tmp_path / "out")) == pytest.approx(
        losses(metrics(tmp_path / "whole")), abs=LAST_DIGIT)


def test_scores_survive_a_kill_and_equal_one_process(start: Start, data: Path,
                                                     tmp_path: Path) -> None:
    """Killed after the scores of step 4 and before its state."""
    (tmp_path / "maskings.jsonl").write_text(
        '{"id": "1", "text": "Il cuore pompa il [MASK].", "target": "sangue"}\n')
    given = ["--steps", 6, *SIZES, "--save-steps", 2, "--eval-steps", 2, "--score",
             f"mrr={tmp_path / 'maskings.jsonl'}", "--score", f"pppl={data / 'old.jsonl'}"]
    start("whole", *given).succeed()
    assert start("out", *given, hook=dies_at(4, "before")).wait() == [-signal.SIGKILL]
    start("out", *given, "--resume").succeed()
    whole = metrics(tmp_path / "whole")
    assert metrics(tmp_path / "out") == whole
    assert [line["step"] for line in whole if "mrr" in line] == [0, 2, 4, 6]
    for name, several in (("mrr", ()), ("pppl", ("--shard",))):
        start(name, *given, *several, processes=2).succeed()
        ones, others = ([line[name] for line in lines if name in line]
                        for lines in (whole, metrics(tmp_path / name)))
        assert len(ones) == 4 and others == pytest.approx(ones, rel=1e-3)


# The state of step 2 is complete only after the fourth step.
WAITS_FOR_TRAINING = """
import threading
import bmtools.training.checkpoints as checkpoints
import bmtools.training.loop as loop
flush, step, trained = checkpoints.flush_to_disk, loop.Trainer.step, threading.Event()
def wait(directory):
    if ".step-00000002." in directory.name:
        assert trained.wait(60), "training waited for the state"
    flush(directory)
def note(trainer, number, *rest):
    if number == 3:
        trained.set()
    return step(trainer, number, *rest)
checkpoints.flush_to_disk, loop.Trainer.step = wait, note
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_training_continues_while_a_state_is_written(start: Start, tmp_path: Path,
                                                     processes: int) -> None:
    given = ["--steps", 6, *SIZES, "--save-steps", 2]
    start("out", *given, processes=processes, hook=WAITS_FOR_TRAINING).succeed()
    start("memory", *given, "--memory-gib", 4, processes=processes).succeed()
    assert losses(metrics(tmp_path / "out")) == losses(metrics(tmp_path / "memory"))


# The disk is full from step 4 on for one process.
FULL_DISK = """
import bmtools.training.checkpoints as checkpoints
save_file = checkpoints.save_file
def full(tensors, path):
    if os.environ.get("RANK", "0") == FULL and "step-00000004" in str(path):
        raise OSError(28, "No space left on device", str(path))
    save_file(tensors, path)
checkpoints.save_file = full
"""


@pytest.mark.parametrize(("processes", "full"), [(1, 0), (2, 0), (2, 1)])
def test_a_state_that_cannot_be_written_ends_all_processes_and_leaves_the_last_one(
        start: Start, tmp_path: Path, processes: int, full: int) -> None:
    given = ["--steps", 40, *SIZES, "--precision", "no", "--save-steps", 2]
    hook = FULL_DISK.replace("FULL", f'"{full}"')
    job = start("out", *given, processes=processes, hook=hook)
    assert job.wait() == [1] * processes
    states, path = tmp_path / "out.run", job.err.splitlines()[-1].split(": ")[1]
    assert Path(path).parent == states / "step-00000004"
    assert job.err.endswith("cannot be written (no space left on device); make room, or write "
                            f"elsewhere; the last good state is {states / 'step-00000002'}\n")
    assert [one.name for one in states.iterdir() if not one.name.startswith("text")] == [
        "step-00000002"]
    start("out", *given, "--resume", "--save-steps", 0, processes=processes).succeed()


# States, kept checkpoints and the last one take longer to write than processes wait for gradients.
SLOW_DISK = """
import time
from datetime import timedelta
import bmtools.training.checkpoints as checkpoints
import bmtools.training.distributed as distributed
distributed._TIMEOUT, flush = timedelta(seconds=8), checkpoints.flush_to_disk
def slow(directory):
    time.sleep(12)
    flush(directory)
checkpoints.flush_to_disk = slow
"""


@pytest.mark.slow
def test_writing_may_take_longer_than_processes_wait_for_each_other(start: Start) -> None:
    start("out", "--steps", 5, *SIZES, "--save-steps", 2, "--keep-steps", 3, processes=2,
          hook=SLOW_DISK).succeed()


# A disk that nodes share may show a new state to some of them later.
SEES_NO_STATE = """
if os.environ.get("RANK") == "1":
    import bmtools.training.checkpoints as checkpoints
    checkpoints.newest_state = lambda plan: None
"""


def test_all_processes_resume_from_the_state_of_the_first(start: Start, tmp_path: Path) -> None:
    given = ("--steps", 6, "--save-steps", 2, *SIZES, "--layout", "auto")
    assert start("out", *given, hook=dies_at(4)).wait() == [-signal.SIGKILL]
    resumed = start("out", *given, "--resume", processes=2, hook=SEES_NO_STATE).succeed()
    assert first_step(resumed) == 6
    assert [line["step"] for line in metrics(tmp_path / "out") if "of" in line] == [2, 4, 6]


@pytest.mark.slow
def test_two_processes_stop_together(start: Start, data: Path, tmp_path: Path) -> None:
    """Only one of them receives the signal."""
    given = [*phased(data), "--layout", "padded", "--save-steps", 0]
    start("whole", *given, processes=2).succeed()
    job = start("out", *given, processes=2)
    job._members = job._members[::-1]
    job._members, others = job._members[:1], job._members[1:]
    job.after(3, signal.SIGTERM)
    job._members += others
    assert job.wait() == [0, 75], job.err  # srun returns the largest
    assert "stopped" in job.records[-1]
    start("out", *given, "--resume", processes=2).succeed()
    same_run(tmp_path / "out", tmp_path / "whole")


SPOILS_A_GRADIENT = """
import bmtools.training.loop as loop
step = loop.Trainer.step
def spoil(trainer, number, *rest):
    if number == 2 and trainer.accelerator.process_index == trainer.accelerator.num_processes - 1:
        next(trainer.objective.parameters()).register_hook(lambda gradient: gradient * float("nan"))
    return step(trainer, number, *rest)
loop.Trainer.step = spoil
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_nan_gradient_ends_all_processes_and_keeps_states(
        start: Start, tmp_path: Path, processes: int) -> None:
    given = ["--steps", 4, "--save-steps", 1, "--micro-batch-size", 2, *SIZES]
    spoilt = start("out", *given, processes=processes, hook=SPOILS_A_GRADIENT)
    assert spoilt.wait() == [1] * processes
    state = tmp_path / "out.run" / "step-00000002"
    assert "step 3: the norm of the gradients is nan" in spoilt.err
    assert f"the last good state is {state}" in spoilt.err
    files = [path for name in ("model", "optimizer") for path in state.glob(f"{name}*.safetensors")]
    assert len(files) == 1 + processes, "each process writes a part of the optimizer's state"
    for path in files:
        assert all(value.isfinite().all() for value in load_file(path).values())
    assert first_step(start("out", *given, "--resume", "--set", "logging_steps=1").succeed()) == 3


@pytest.mark.slow
def test_distillation_resumes_and_runs_in_two_processes(start: Start, data: Path, tmp_path: Path,
                                                        never_stopped: Callable[[str],
                                                                                Path]) -> None:
    """All processes train projections between widths together with the student."""
    def distill(name: str, *more: object, **settings: Any) -> Job:
        return Job(tmp_path, ["distill", data / "text.jsonl", "-o", tmp_path / name,
                              "--teacher", never_stopped("packed"), "--architecture", "bert-1x128",
                              "--layout", "packed", "--steps", 8, *SIZES, "--set",
                              "logging_steps=2", "--save-steps", 1, *more], **settings)

    distill("whole").succeed()
    distill("two", processes=2).succeed()
    assert losses(metrics(tmp_path / "two")) == pytest.approx(
        losses(metrics(tmp_path / "whole")), abs=1e-4)
    assert distill("out", hook=dies_at(5)).wait() == [-signal.SIGKILL]
    distill("out", "--resume").succeed()
    assert metrics(tmp_path / "out") == metrics(tmp_path / "whole")


SEES_ITS_OWN_DISK = """
import bmtools.training.distributed as distributed
distributed._APPEARS_SECONDS = 0.5
os.makedirs(disk := os.path.join(os.environ["DISKS"], os.environ["RANK"]), exist_ok=True)
os.chdir(disk)
"""


def test_processes_without_a_shared_disk_stop_before_text_is_encoded(
        data: Path, tmp_path: Path) -> None:
    job = Job(tmp_path, [*common(data), "-o", "out", "--steps", 2, *SIZES], 2,
              SEES_ITS_OWN_DISK, DISKS=str(tmp_path))
    assert job.wait() == [1, 1]
    for errors in job._errs:
        assert errors.read_text() == (
            f"bmtools: out.run: found no such directory on {os.uname().nodename} (process 1), "
            "expected a directory that all machines share; write to a shared disk\n")
    assert not list((tmp_path / "0").iterdir()) and not list((tmp_path / "1").iterdir())


def test_shards_on_each_machine_need_no_shared_disk_unless_a_run_is_resumed(
        data: Path, tmp_path: Path, tokenizer: Any) -> None:
    tokenize(RecordReader([str(data / "text.jsonl")]), tokenizer, tmp_path / "shards")
    given = ["pretrain", tmp_path / "shards", *common(data)[2:], "-o", "out", "--steps", 4,
             "--save-steps", 2, *SIZES]

    def job(*more: object, hook: str = "") -> Job:
        return Job(tmp_path, [*given, *more], 2, SEES_ITS_OWN_DISK + hook, DISKS=str(tmp_path))

    job().succeed()
    assert job("--overwrite", hook=dies_at(2)).wait() == [-signal.SIGKILL] * 2
    resumed = job("--overwrite", "--resume")
    assert resumed.wait() == [1, 1]
    assert "expected a directory that all machines share" in resumed.err
    assert list((tmp_path / "0" / "out.run").glob("step-*")), "the state was lost"


# Sharded weights


def sharded(data: Path, layout: str) -> list[object]:
    return [*phased(data), *LAYOUTS[layout], *SAME_DROPOUT, "--save-steps", 1,
            "--set", "mixout=0", "--set", "l2_sp=0", "--evaluate", data / "old.jsonl"]


@pytest.mark.slow
def test_sharded_losses_equal_one_process(
        start: Start, data: Path, tmp_path: Path) -> None:
    given = sharded(data, "packed")
    start("whole", *given).succeed()
    start("shards", *given, "--shard", "--set", "activation_checkpointing=true",
          processes=2).succeed()
    assert losses(metrics(tmp_path / "shards")) == pytest.approx(
        losses(metrics(tmp_path / "whole")), abs=LAST_DIGIT)
    for part in ("", ".kept/phase-2-pairs"):
        ours, theirs = (load_file(Path(f"{tmp_path / name}{part}") / "model.safetensors")
                        for name in ("shards", "whole"))
        assert ours.keys() == theirs.keys()
        for name, weight in theirs.items():
            assert (weight - ours[name]).abs().max() < 1e-4, name


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "tolerance"), [
    (("--set", "optimizer=muon"), 2e-5),
    (("--set", "compile=true", "--set", "optimizer=muon"), 1e-4),
    (("--architecture", "modernbert-2x64", "--set", "optimizer=muon"), 2e-5)],
    ids=["muon", "compiled", "ModernBERT"])
def test_sharded_weights_train_like_whole_ones(start: Start, data: Path, tmp_path: Path,
                                               settings: tuple[str, ...],
                                               tolerance: float) -> None:
    """The four processes are two machines of two."""
    given = ["--steps", 6, *SIZES, *SAME_DROPOUT, "--precision", "no", *settings,
             "--set", "logging_steps=1", "--evaluate", data / "old.jsonl"]
    start("whole", *given).succeed()
    shards = start("shards", *given, "--shard", processes=4,
                   hook="os.environ['LOCAL_WORLD_SIZE'] = '2'").succeed()
    assert "all-to-all" not in shards.err and "alltoall" not in shards.err
    ours, theirs = (metrics(tmp_path / name) for name in ("shards", "whole"))
    assert losses(ours) == pytest.approx(losses(theirs), abs=tolerance)
    assert ours[-1]["evaluate"] == pytest.approx(theirs[-1]["evaluate"], abs=1e-3)


# A CPU computes fp16 for this test. At the third step the gradients of the last process overflow.
HALF_ON_CPU = """
import torch
import bmtools.training.distributed as distributed
import bmtools.training.loop as loop
class Half(distributed.Accelerator):
    def __init__(self, mixed_precision, **more):
        super().__init__(mixed_precision="no", **more)
        self.state._mixed_precision, self.native_amp = "fp16", True
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
distributed.Accelerator = Half
from bmtools.recipes.settings import OptimizationConfig
OptimizationConfig.require_device = lambda *_: None
accumulate = loop.Trainer._accumulate_gradients
def spoil(trainer, number, *rest):
    sums = accumulate(trainer, number, *rest)
    if number == 2 and trainer.accelerator.process_index == trainer.accelerator.num_processes - 1:
        gradient = next(trainer.objective.parameters()).grad
        getattr(gradient, "_local_tensor", gradient).mul_(float("inf"))
    return sums
loop.Trainer._accumulate_gradients = spoil
"""


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_fp16_skips_an_overflow_in_one_shard_on_all_processes(
        start: Start, tmp_path: Path, optimizer: str) -> None:
    given = ["--steps", 6, *SIZES, "--micro-batch-size", 4, "--precision", "fp16", "--set",
             f"optimizer={optimizer}", "--set", "logging_steps=1", "--layout", "padded"]
    start("whole", *given, hook=HALF_ON_CPU).succeed()
    start("shards", *given, "--shard", processes=2, hook=HALF_ON_CPU).succeed()
    ours, theirs = (metrics(tmp_path / name) for name in ("shards", "whole"))
    assert [line["gradient_norm"] > 0 for line in ours] == [True, True, False, True, True, True]
    assert losses(ours) == pytest.approx(losses(theirs), abs=2e-3)


@pytest.mark.slow
def test_sharded_weights_are_resumed_by_other_processes(
        start: Start, data: Path, tmp_path: Path) -> None:
    """Killed with two processes; a head and optimizer states of frozen weights are also sharded.

    The four that resume it are two machines of two, with a copy of the weights each.
    """
    given = sharded(data, "padded")
    start("whole", *given).succeed()
    killed = start("out", *given, processes=2, hook=dies_at(8), ACCELERATE_USE_FSDP="true")
    assert killed.wait()[0] == -signal.SIGKILL
    stopped = start("out", *given, "--resume", "--shard", processes=4,
                    hook="os.environ['LOCAL_WORLD_SIZE'] = '2'").after(12, signal.SIGTERM)
    assert stopped.wait() == [75, 0, 0, 0], stopped.err
    start("out", *given, "--resume").succeed()
    assert losses(metrics(tmp_path / "out")) == pytest.approx(
        losses(metrics(tmp_path / "whole")), abs=LAST_DIGIT)


COUNTS_GATHERS = """
import torch.distributed.fsdp._fully_shard._fsdp_param_group as group
gather, gathers = group.foreach_all_gather, []
group.foreach_all_gather = lambda *given: gathers.append(1) or gather(*given)
import bmtools.training.loop as loop
step = loop.Trainer.step
def counted(*given):
    gathers.clear()
    result = step(*given)
    print(f"{len(gathers)} gathers", file=sys.stderr)
    return result
loop.Trainer.step = counted
"""


def test_a_step_gathers_sharded_weights_once(start: Start, data: Path, tmp_path: Path) -> None:
    """Weights of layers and other weights, in four passes; evaluations gather updated weights."""
    given = ["--steps", 3, *SIZES, "--micro-batch-size", 1, "--eval-steps", 1, "--save-steps", 1,
             "--evaluate", data / "old.jsonl", "--precision", "no"]
    start("whole", *given, processes=2).succeed()
    job = start("shards", *given, "--shard", processes=2, hook=COUNTS_GATHERS).succeed()
    assert re.findall(r"(\d+) gathers", job.err) == ["2"] * 3
    for ours, theirs in zip(*(metrics(tmp_path / name) for name in ("shards", "whole")),
                            strict=True):
        assert ours.get("evaluate", ours).get("loss") == pytest.approx(
            theirs.get("evaluate", theirs).get("loss"), abs=LAST_DIGIT)


NEEDS_MORE = """
import bmtools.training.microbatch as microbatch, bmtools.training.run as run
if os.environ["RANK"] == "1":
    held = microbatch._other_bytes
    microbatch._other_bytes = lambda trainer: held(trainer) + int(os.environ["MORE"])
fit = run.fit_micro_batches
def fitted(*given):
    sizes = fit(*given)
    print("fitted", sizes, file=sys.stderr)
    return sizes
run.fit_micro_batches = fitted
"""


def test_processes_agree_on_a_micro_batch_or_an_error(
        start: Start, data: Path, tmp_path: Path) -> None:
    """Also with whole weights: one process has less memory left than the other."""
    given = ["--steps", 1, "--max-length", 64, "--batch-size", 4096, "--memory-gib", 2]
    fits = start("fits", *given, processes=2, hook=NEEDS_MORE, MORE=str(2**28)).succeed()
    found = [re.findall(r"fitted (.*)", path.read_text()) for path in fits._errs]
    assert found[0] == found[1] and len(found[0]) == 1
    none = start("none", *given, processes=2, hook=NEEDS_MORE, MORE=str(2**34))
    assert none.wait(60) == [1, 1]
    assert "a single sequence of 64 tokens needs" in none.err


READ_LATE = """
import accelerate, bmtools.training.loop as loop
made, step, times = loop.Trainer.__init__, loop.Trainer.step, []
reduce = accelerate.Accelerator.reduce
def late(trainer, *given):
    made(trainer, *given)
    trainer._skips_on_device = True
def counted(trainer, number, *given):
    times.clear()
    result = step(trainer, number, *given)
    print(f"{len(times)} sums", file=sys.stderr)
    return result
loop.Trainer.__init__, loop.Trainer.step = late, counted
accelerate.Accelerator.reduce = lambda *given: times.append(1) or reduce(*given)
"""


@pytest.mark.parametrize("more", [(), ("--shard",)], ids=["whole weights", "sharded"])
def test_counts_are_summed_with_the_losses_of_the_step_before(
        start: Start, data: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    """Across the borders of phases, which count different things, and with replayed batches."""
    given = [*phased(data), *LAYOUTS["packed"], *SAME_DROPOUT, "--set", "mixout=0", "--set",
             "l2_sp=0"]
    start("whole", *given).succeed()
    late = start("late", *given, *more, processes=2, hook=READ_LATE).succeed()
    assert re.findall(r"(\d+) sums", late.err) == ["2", *["1"] * (STEPS - 1)]
    ones, others = (metrics(tmp_path / name) for name in ("whole", "late"))
    assert losses(others) == pytest.approx(losses(ones), abs=LAST_DIGIT)
    counts = ("step", "tokens_seen", "batch_size", "mask_rate", "words_masked", "replay_loss")
    for one, other in zip(ones, others, strict=True):
        assert [other.get(name) for name in counts] == pytest.approx(
            [one.get(name) for name in counts], abs=LAST_DIGIT)


# On GPUs

@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_gpu_resumes_a_killed_run(start: Start, data: Path, tmp_path: Path,
                                    precision: str) -> None:
    """The loss scale of fp16 is part of a state; sums on a GPU have no fixed order."""
    given = [*phased(data), "--precision", precision, "--save-steps", 1]
    start("whole", *given).succeed()
    assert start("out", *given, hook=dies_at(9)).wait() == [-signal.SIGKILL]
    state = json.loads((tmp_path / "out.run/step-00000009/state.json").read_text())
    assert bool(state["scaler"]) == (precision == "fp16")
    start("out", *given, "--resume").succeed()
    assert losses(metrics(tmp_path / "out")) == pytest.approx(
        losses(metrics(tmp_path / "whole")), abs=2e-2)
    described = json.loads((tmp_path / "out/bmtools.json").read_text())
    assert described["results"]["layout"] == "packed"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_a_deterministic_gpu_resumes_with_the_same_bytes(
        start: Start, data: Path, tmp_path: Path, layout: str, precision: str) -> None:
    given = [*phased(data), "--layout", layout, "--precision", precision, "--set",
             "deterministic=true",
             "--save-steps", 1]
    start("whole", *given).succeed()
    assert start("out", *given, hook=dies_at(9)).wait() == [-signal.SIGKILL]
    start("out", *given, "--resume").succeed()
    same_run(tmp_path / "out", tmp_path / "whole")


@pytest.mark.parametrize("more", [(), ("--shard",)], ids=["whole weights", "sharded"])
@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs here")
def test_two_gpus_have_the_losses_of_one(start: Start, data: Path, tmp_path: Path,
                                         more: tuple[str, ...], precision: str) -> None:
    given = [*sharded(data, "packed"), "--precision", precision, "--set", "tf32=false"]
    start("one", *given).succeed()
    assert start("two", *given, *more, processes=2, hook=dies_at(8)).wait()[0] == -signal.SIGKILL
    start("two", *given, *more, "--resume", processes=2).succeed()
    assert losses(metrics(tmp_path / "two")) == pytest.approx(
        losses(metrics(tmp_path / "one")), abs=1e-3 if precision == "no" else 3e-2)


@pytest.mark.slow
def test_energy_of_sessions_and_processes_adds_up(start: Start, data: Path,
                                                  tmp_path: Path) -> None:
    """Hours are counted once by the clock; processor time is summed over processes."""
    given = [*phased(data), "--layout", "padded", "--save-steps", 0]
    job = start("out", *given, "--budget", "0.01s", processes=2, BMTOOLS_POWER_WATTS="2000")
    assert job.wait()[0] == 75, job.err
    [state] = (tmp_path / "out.run").glob("step-*/state.json")
    first = json.loads(state.read_text())["energy"]
    start("out", *given, "--resume").succeed()
    whole = json.loads((tmp_path / "out" / "bmtools.json").read_text())["energy"]
    assert first["declared"]["kwh"] == pytest.approx(2 * first["hours"], rel=1e-4)
    assert first["machine_cpu_hours"] == pytest.approx(
        first["hours"] * (os.cpu_count() or 1), rel=1e-4)
    assert whole["run"] == first["run"]
    assert 0 < first["hours"] < whole["hours"] and first["cpu_hours"] < whole["cpu_hours"]
    assert whole["declared"] == first["declared"], "the last session declared nothing"
