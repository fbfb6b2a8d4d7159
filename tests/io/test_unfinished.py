"""Hidden names, locks, and files left by processes that ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import BmtoolsError
from bmtools.io import unfinished
from bmtools.io.directories import new_directory
from bmtools.io.output import new_file
from bmtools.io.unfinished import hidden_path, remove_abandoned, reserved

# Files left by a process that was killed while it wrote a file or directory, or exchanged one.
KILLED = """
import os, sys
from pathlib import Path
from bmtools.io.directories import new_directory
from bmtools.io.output import new_file
from bmtools.io.unfinished import reserved
target = Path(sys.argv[1])
with reserved(target, target.parent):
    with (new_file if sys.argv[2] == "file" else new_directory)(target):
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_files_left_by_a_kill_are_removed_by_the_next_writer(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", KILLED, target, kind], check=False)
        assert done.returncode == -9
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left[0] == ".out.lock" and left[1].endswith(".partial")
    assert len(left) == 2, "no more with every attempt"
    with reserved(target, tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [".out.lock"]
    assert not list(tmp_path.iterdir())


# Replaces the files of a directory that cannot be exchanged; killed at one of the steps.
REPLACING = """
import os, sys
from pathlib import Path
from bmtools.io import directories
left = [int(sys.argv[2])]
def counted(change):
    def call(*arguments):
        if not left[0]:
            os.kill(os.getpid(), 9)
        left[0] -= 1
        return change(*arguments)
    return call
if sys.argv[3] == "current":
    os.chdir(sys.argv[1])
Path.rename, Path.unlink = counted(Path.rename), counted(Path.unlink)
with directories.new_directory(Path(sys.argv[1]), overwrite=True) as partial:
    for name in ("bmtools.json", "both", "new"):
        (partial / name).write_text("new")
"""


@pytest.mark.parametrize(("way", "steps"), [("current", 8), ("two steps", 2)])
def test_a_kill_at_any_moment_of_an_exchange_loses_no_files(tmp_path: Path, way: str,
                                                            steps: int) -> None:
    old, new = (dict.fromkeys(("bmtools.json", "both", text), text) for text in ("old", "new"))
    seen = []
    for number in range(steps + 1):
        target = tmp_path / str(number)
        target.mkdir()
        for name, text in old.items():
            (target / name).write_text(text)
        done = subprocess.run([sys.executable, "-c", REPLACING, target, str(number), way],
                              check=False)
        assert done.returncode == (-9 if number < steps else 0)
        place = target if way == "current" else tmp_path
        remove_abandoned(place, target)
        seen.append({path.name: path.read_text() for path in target.iterdir()})
        assert not list(place.glob(".*"))
    assert all(one in (old, new) for one in seen)
    assert (seen[0], seen[-1]) == (old, new)


def test_files_of_another_machine_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {}
    for machine in (("far", "abcd1234"), (unfinished._machine()[0], "abcd1234")):
        with monkeypatch.context() as patch:
            patch.setattr(unfinished, "_machine", lambda machine=machine: machine)
            paths[machine[0]] = hidden_path(tmp_path / "out", "partial")
        paths[machine[0]].touch()
    remove_abandoned(tmp_path)
    assert list(tmp_path.iterdir()) == [paths["far"]], "this one has been started anew since"


def test_only_one_process_may_write_an_output(tmp_path: Path) -> None:
    target = tmp_path / "new" / "out"
    with reserved(target, target.parent):
        with pytest.raises(BmtoolsError, match=(
                rf"^{target}: another process is writing it; wait for it, or give another name$"
                )), reserved(target, target.parent):
            pass
        with reserved(target.with_name("other"), target.parent):
            pass
    assert not list(tmp_path.iterdir()), "a directory made for nothing goes"


@pytest.mark.parametrize("make", [new_file, new_directory])
def test_a_signal_waits_until_files_are_removed(tmp_path: Path, make: Callable[..., Any],
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    sent: list[Path] = []

    def interrupted(remove: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, **options: Any) -> None:
            sent.append(path)
            os.kill(os.getpid(), signal.SIGINT)
            remove(path, **options)

        return call

    monkeypatch.setattr(Path, "unlink", interrupted(Path.unlink))
    monkeypatch.setattr(shutil, "rmtree", interrupted(shutil.rmtree))
    with pytest.raises(KeyboardInterrupt), reserved(target, tmp_path), make(target):
        raise BmtoolsError("a failure")
    assert len(sent) == 2 and not list(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt), reserved(target, tmp_path), make(target):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_hidden_names_of_long_names_are_valid(tmp_path: Path, make: Callable[[Path], None]) -> None:
    target = tmp_path / ("è" * 127)
    make(hidden_path(target, "partial"))
    with reserved(target, tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [unfinished._lock_name(target)]
