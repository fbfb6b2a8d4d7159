"""Fixtures of all tests: commands in this process or another, files, real data."""

from __future__ import annotations

import builtins
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bmtools.cli.main import main
from bmtools.io import system as system_module

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Shells start background jobs with Ctrl-C ignored, nohup ignores hang-ups; children inherit both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
pytest_plugins = ["ray_nodes", "toy_models"]
DATA = Path(os.environ.get("BMTOOLS_DATA", Path(__file__).parents[2] / "shared" / "data"))
WARM = Path(__file__).with_name("warm_bmtools.py")


def pytest_collection_finish() -> None:
    """Exclude modules and thousands of tests from later garbage collections."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """Standard output parsed as JSON Lines."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Outcome]:
    """Run the command line in this process: `run("import", "text", path)`."""

    def call(*arguments: object) -> Outcome:
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return Outcome(int(ended.value.code or 0), out.decode(), err.decode())

    return call


@pytest.fixture
def process() -> Callable[..., Outcome]:
    """Run `python -m bmtools` in a new process, with text or bytes on stdin."""
    return partial(_run_process, sys.executable, "-m", "bmtools")


@pytest.fixture
def shell(warm_bmtools: Path) -> Callable[..., Outcome]:
    """Run `bmtools` as a shell would, with text or bytes on stdin, but without its start-up."""
    return partial(_run_process, warm_bmtools / "bmtools")


def _run_process(*arguments: object, stdin: str | bytes = b"", **environment: str) -> Outcome:
    done = subprocess.run(
        [str(argument) for argument in arguments], capture_output=True, check=False,
        input=stdin if isinstance(stdin, bytes) else stdin.encode(),
        env={**os.environ, **environment})
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="session")
def warm_bmtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a folder with `bmtools` and `python` that start immediately; see `warm_bmtools.py`."""
    folder = tmp_path_factory.mktemp("bin")
    call = f'exec "{sys.executable}" -S -E "{WARM}" call "{folder}/socket"'
    for name, lines in (("bmtools", [f'{call} bmtools "$@"']),
                        ("python", [f'case "$1" in *.py) {call} "$@" ;; esac',
                                    f'exec "{sys.executable}" "$@"'])):
        (folder / name).write_text("\n".join(["#!/bin/sh", *lines, ""]))
        (folder / name).chmod(0o755)
    server = subprocess.Popen([sys.executable, str(WARM), "serve", f"{folder}/socket"])
    deadline = time.monotonic() + 120
    while not (folder / "socket").exists():
        assert server.poll() is None and time.monotonic() < deadline, "the server did not start"
        time.sleep(0.05)
    yield folder
    server.kill()
    server.wait()


@pytest.fixture
def write_lines(tmp_path: Path) -> Callable[..., Path]:
    """Write records as JSON Lines: `write_lines("notes.jsonl", {...}, {...})`."""

    def write(name: str, *records: dict[str, Any]) -> Path:
        path = tmp_path / name
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
        path.write_text("".join(lines), encoding="utf-8")
        return path

    return write


@pytest.fixture(autouse=True)
def no_accelerator_state() -> None:
    """Reset the precision of earlier runs, which Accelerate keeps for the whole process."""
    if state := sys.modules.get("accelerate.state"):
        state.AcceleratorState._reset_state()


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Limit torch to one thread, because threads slow down tiny models."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the directory of real corpora and task sets."""
    if not DATA.is_dir():
        pytest.skip(f"real data are absent: {DATA}; BMTOOLS_DATA names another place")
    return DATA


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make imports of matplotlib fail, as if it were not installed."""
    import_module = builtins.__import__

    def import_other(name: str, *arguments: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError("No module named 'matplotlib'")
        return import_module(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", import_other)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Replace the file system's root: `system("proc/cpuinfo", text)` writes a file in it."""
    monkeypatch.setattr(system_module, "_SYSTEM", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**24}.get)

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write
