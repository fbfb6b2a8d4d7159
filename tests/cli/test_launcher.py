"""Launcher: errors, exit codes and signals of several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bmtools.cli.launcher import run_processes
from bmtools.cli.step import CommandStep
from bmtools.commands.training_options import print_metrics
from bmtools.io.system import STOPPED

# Start of each program: it writes its process id.
PRELUDE = """
import os, signal, sys, time
from pathlib import Path
rank, folder = int(os.environ["RANK"]), Path(sys.argv[1])
(folder / f"{rank}.pid").write_text(str(os.getpid()))
def report(text): print(text, file=sys.stderr, flush=True)
"""
SUPERVISOR = """
import sys
from bmtools.cli.launcher import run_processes
sys.exit(run_processes(2, sys.argv[1:2], [sys.executable, sys.argv[2]]))
"""

Run = Callable[..., int]


@pytest.fixture
def program_of(tmp_path: Path) -> Callable[[str], list[str]]:
    """Write a program for all processes: `program_of("report('x')")`."""

    def write(body: str) -> list[str]:
        path = tmp_path / "program.py"
        path.write_text(PRELUDE + body)
        return [sys.executable, str(path)]

    return write


@pytest.fixture
def run(program_of: Callable[[str], list[str]], tmp_path: Path) -> Run:
    def call(body: str, processes: int = 2, *more: str) -> int:
        return run_processes(processes, [str(tmp_path), *more], program_of(body))

    return call


def alive(folder: Path) -> list[int]:
    """Return the ranks of running processes."""
    found = []
    for path in folder.glob("*.pid"):
        state = Path(f"/proc/{path.read_text()}/stat")
        if state.exists() and state.read_text().rpartition(") ")[2][0] != "Z":
            found.append(int(path.stem))
    return sorted(found)


def test_each_process_gets_its_rank_and_the_rendezvous(run: Run, tmp_path: Path) -> None:
    names = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "RANK", "MASTER_ADDR", "MASTER_PORT")
    assert run(f"(folder / str(rank)).write_text(' '.join(os.environ[n] for n in {names}))", 3) == 0
    found = [(tmp_path / str(rank)).read_text().split() for rank in range(3)]
    ports = {line[-1] for line in found}
    assert len(ports) == 1 and 1024 < int(ports.pop()) < 65536
    assert [line[:-1] for line in found] == [
        ["3", "3", str(rank), str(rank), "127.0.0.1"] for rank in range(3)]


def test_only_the_main_process_is_shown_while_all_run(run: Run, capfd) -> None:
    assert run("print(f'out {rank}'); report(f'word of {rank}')") == 0
    out, err = capfd.readouterr()
    assert sorted(out.splitlines()) == ["out 0", "out 1"]
    assert err == "word of 0\n"


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_failure_is_shown(run: Run, capfd, tmp_path: Path, rank: int) -> None:
    """The other process notices the failure and also reports an error."""
    started = time.monotonic()
    code = run(f"""
if rank == {rank}:
    report("bmtools: the fault")
    (folder / "reported").touch()
    sys.exit(3)
while not (folder / "reported").exists():
    time.sleep(0.001)
time.sleep(1)
report("bmtools: unexpected RuntimeError: connection closed by peer")
sys.exit(1)
""")
    assert code == 3
    assert capfd.readouterr().err == "bmtools: the fault\n"
    assert time.monotonic() - started < 10 and not alive(tmp_path)


def test_an_error_in_all_processes_is_shown_once(run: Run, capfd) -> None:
    assert run("time.sleep(0.02 * rank); report('bmtools: the fault'); sys.exit(2)", 4) == 2
    assert capfd.readouterr().err == "bmtools: the fault\n"


def test_a_process_that_waits_for_a_failed_one_is_ended(run: Run, capfd, tmp_path: Path) -> None:
    assert run("rank or time.sleep(60)\nreport('bmtools: the fault'); sys.exit(1)") == 1
    assert capfd.readouterr().err == "bmtools: the fault\n"
    assert not alive(tmp_path)


def test_a_killed_process_is_named(run: Run, capfd) -> None:
    code = run("""
if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
time.sleep(1); report("RuntimeError: connection closed by peer"); sys.exit(1)
""")
    assert code == 1
    assert capfd.readouterr().err == \
        "bmtools: process 2 of 2 was ended by SIGKILL, perhaps because memory ran out\n"


def test_a_traceback_is_shown_completely(run: Run, capfd) -> None:
    body = """
if rank:
    report("Traceback:")
    report("  a line")
    sys.exit("the end")
time.sleep(60)
"""
    assert run(body, 2, "--traceback") == 1
    assert capfd.readouterr().err == "Traceback:\n  a line\nthe end\n"


def test_a_stopped_run_has_a_separate_exit_code(run: Run) -> None:
    assert run(f"sys.exit(0 if rank else {STOPPED})") == STOPPED


def test_a_process_that_fails_after_the_main_one_is_ignored(run: Run, capfd) -> None:
    """`| head` ends the main process successfully; the others lose their connection to it."""
    assert run("rank and (time.sleep(0.5), report('connection closed'), sys.exit(1))") == 0
    assert capfd.readouterr().err == ""


def supervisor(program: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start a separate supervisor and wait until its processes run."""
    process = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(folder), program[1]],
                               stderr=subprocess.PIPE, text=True)
    while len(list(folder.glob("*.ready"))) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    return process


WAITS = "(folder / f'{rank}.ready').touch()\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_all_processes_and_are_waited_for(
        program_of: Callable[[str], list[str]], tmp_path: Path, number: int) -> None:
    program = program_of(f"""
def stop(number, frame):
    time.sleep(0.3)
    (folder / f"{{rank}}.saved").touch()
    sys.exit(0 if rank else {STOPPED})
signal.signal({int(number)}, stop)
{WAITS}
time.sleep(60)
""")
    process = supervisor(program, tmp_path)
    process.send_signal(number)
    assert process.communicate(timeout=20)[1] == ""
    assert process.returncode == STOPPED
    assert {path.name for path in tmp_path.glob("*.saved")} == {"0.saved", "1.saved"}


def test_an_unhandled_signal_causes_the_exit_code_of_a_shell(program_of: Callable[[str], list[str]],
                                                             tmp_path: Path) -> None:
    process = supervisor(program_of(WAITS + "time.sleep(60)"), tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[1] == ""
    assert process.returncode == 128 + signal.SIGTERM
    assert not alive(tmp_path)


def test_no_process_outlives_a_launcher_that_is_killed(
        program_of: Callable[[str], list[str]], tmp_path: Path) -> None:
    """Otherwise two runs would write to one directory."""
    program = program_of(f"""
from bmtools.cli.launcher import launch
launch(None, 2)
{WAITS}
time.sleep(60)
""")
    process = supervisor(program, tmp_path)
    assert alive(tmp_path) == [0, 1]
    process.kill()
    process.wait()
    assert process.stderr is not None
    process.stderr.close()
    for _ in range(500):
        if not alive(tmp_path):
            break
        time.sleep(0.01)
    assert not alive(tmp_path)
    assert "BMTOOLS_SUPERVISED" not in os.environ


@pytest.mark.parametrize(("environment", "code"), [
    ({}, STOPPED), ({"WORLD_SIZE": "2"}, STOPPED),
    ({"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}, 0)], ids=["alone", "srun", "torchrun"])
def test_a_stopped_run_exits_with_0_only_under_torchrun(monkeypatch: pytest.MonkeyPatch,
                                                        environment: dict[str, str],
                                                        code: int) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    step = CommandStep(click.Context(click.Command("pretrain")))
    stop = click.command(
        lambda: print_metrics(step, iter([{"stopped": 3}])))
    assert CliRunner().invoke(stop).exit_code == code
