"""Files left by commands that a signal ends, or whose report has lost its reader."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands.test_battery import kit_paths  # noqa: F401
from commands.test_outputs import ALL, DIRECTORIES, make_kit

from bmtools.io.failures import NamedFile
from bmtools.io.provenance.manifest import Manifest

Run = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", ["pretrain", "finetune ner"])
def test_a_report_without_reader_does_not_stop_the_work(
        name: str, warm_bmtools: Path, kit_paths: dict[str, Path], tmp_path: Path,  # noqa: F811
        corpus_records: list[dict[str, Any]]) -> None:
    kit = make_kit(name, tmp_path, kit_paths, lambda *call: " ".join(map(str, call)), print,
                   corpus_records)
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{warm_bmtools}/bmtools {kit.on(kit.good())} | true"],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert f"wrote {tmp_path / 'out'}" in done.stderr
    assert (tmp_path / "out" / "bmtools.json").is_file()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("name", [name for name in ALL if name != "pretrain"])  # it saves a state
def test_a_signal_leaves_no_unfinished_files(
        name: str, number: signal.Signals, kit_paths: dict[str, Path],  # noqa: F811
        tmp_path: Path, run: Run, piped: Run, corpus_records: list[dict[str, Any]],
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal arrives while the output is written."""
    kit = make_kit(name, tmp_path, kit_paths, run, piped, corpus_records)
    before = signal.getsignal(number)
    sent: list[bool] = []

    def send() -> None:
        if not sent and any(path.name.endswith(".partial") for path in tmp_path.iterdir()):
            sent.append(True)
            os.kill(os.getpid(), number)

    def sending(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            send()
            return write(*arguments, **options)

        return call

    kind: Any = Manifest if name in DIRECTORIES else NamedFile
    monkeypatch.setattr(kind, "write", sending(kind.write))
    out = () if name in DIRECTORIES else ("-o", tmp_path / "out")
    outcome = kit.on(kit.good(), *out)
    assert sent
    word = {signal.SIGTERM: "terminated", signal.SIGHUP: "hung up", signal.SIGINT: "interrupted"}[
        number] + ": finished seeds and" * name.startswith("finetune")
    assert outcome.code == 128 + number
    assert outcome.err.splitlines()[-1].startswith(f"bmtools: {word}")
    assert [path for path in kit.left() if not path.endswith(".run")] == []
    assert signal.getsignal(number) == before
