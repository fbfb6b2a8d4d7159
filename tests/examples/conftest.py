"""Fixtures for the examples: scripts run as a user runs them, and the first lines of real files."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

Read = Callable[[Path], list[dict[str, Any]]]
RunScript = Callable[..., str]


@pytest.fixture(scope="session")
def read() -> Read:
    """Return a reader of JSON Lines."""
    return lambda path: [json.loads(line) for line in
                         path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="session")
def run_script(warm_bmtools: Path) -> RunScript:
    """Return a runner of shell scripts that gives their stdout: `(path, OUT="o")`."""

    def run(script: Path, **environment: str) -> str:
        path = os.pathsep.join([str(warm_bmtools), str(Path(sys.executable).parent),
                                os.environ["PATH"]])
        done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": path, **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def copy_lines() -> Callable[[Path, Path, int], None]:
    """Return a function that copies the first lines of a text file, compressed or not."""

    def copy(source: Path, target: Path, most: int) -> None:
        opened = gzip.open if source.suffix == ".gz" else open
        with opened(source, "rt", encoding="utf-8") as stream, \
                opened(target, "wt", encoding="utf-8") as out:
            out.writelines(islice(stream, most))

    return copy


@pytest.fixture(scope="session")
def copy_entries() -> Callable[[Path, Path, int], None]:
    """Return a function that copies the first entries of each list in a JSON object."""

    def copy(source: Path, target: Path, most: int) -> None:
        opened = gzip.open if source.suffix == ".gz" else open
        with opened(source, "rt", encoding="utf-8") as stream:
            content = json.load(stream)
        with opened(target, "wt", encoding="utf-8") as out:
            json.dump({key: rows[:most] if isinstance(rows, list) else rows
                       for key, rows in content.items()}, out)

    return copy
