"""Records that end early, sent through real pipes."""

from __future__ import annotations

import gzip
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.io.failures import NamedFile

BMTOOLS = f"{sys.executable} -m bmtools"
LINES = "".join(f"Il paziente {number} ha asma e diabete mellito.\n" for number in range(2000))
# Noise that cannot be compressed, so that the file is cut in the middle of the text.
NOISE = "".join(f"{os.urandom(30).hex()}\n" for _ in range(3000))


def _shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True,
                          check=False)


@pytest.mark.slow
def test_a_cut_download_is_rejected_by_the_next_command(tmp_path: Path) -> None:
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(NOISE.encode())[:-20_000])
    done = _shell(f"{BMTOOLS} import text cut.txt.gz | {BMTOOLS} build-vocab -o vocab --size 120; "
                  "echo ${PIPESTATUS[*]}", tmp_path)
    assert done.stdout == "1 1\n"
    reason = ("cut.txt.gz: damaged compressed data (Compressed file ended before the end-of-stream "
              "marker was reached); copy or download the file again")
    # Slow machines also print the status of the commands.
    reader, producer = sorted(line for line in done.stderr.splitlines()
                              if line.startswith("bmtools: "))
    assert producer == f"bmtools: {reason}"
    assert reader.startswith("bmtools: <stdin>:")
    assert reader.endswith(f": the records are incomplete, because 'bmtools import text' failed "
                           f"({reason}); fix that, then run both again")
    assert not (tmp_path / "vocab").exists()


def test_a_file_is_complete_or_absent_and_needs_no_mark(tmp_path: Path,
                                                        run: Callable[..., Any]) -> None:
    source = tmp_path / "notes.txt"
    source.write_bytes(b"one\n\ntw\xff\xff\n")
    assert run("import", "text", source, "-o", tmp_path / "out.jsonl").code == 1
    assert not (tmp_path / "out.jsonl").exists()
    outcome = run("import", "text", source)
    assert outcome.code == 1
    record, mark = outcome.records
    assert record["text"] == "one"
    assert mark["command"] == "bmtools import text"
    assert mark["reason"] == outcome.err.removeprefix("bmtools: ").rstrip("\n")


def test_a_pipe_gets_complete_blocks_that_end_inside_a_line(
        tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a reader would take records left by a kill for all records."""
    size = select.PIPE_BUF // 64
    record = '{"id":"%03d","text":"' + "a" * (size - 23) + '"}'
    source = tmp_path / "records.jsonl"
    source.write_text("".join(f"{record % number}\n" for number in range(300)))
    assert len(record % 0) == size - 1
    blocks: list[bytes] = []
    write = NamedFile.write
    monkeypatch.setattr(NamedFile, "write", lambda self, content: (
        blocks.extend([bytes(content)] * (self.label == str(tmp_path / "pipe"))),
        write(self, content))[1])
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        assert run("import", "jsonl", source, "-o", tmp_path / "pipe").code == 0
        assert reader.stdout and reader.stdout.read() == b"".join(blocks)
    assert max(map(len, blocks)) <= select.PIPE_BUF
    assert [block for block in blocks if block.endswith(b"\n")] == blocks[-1:]


@pytest.mark.parametrize(("number", "code", "reason"), [
    (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "hung up"),
    (signal.SIGINT, 130, "interrupted"), (signal.SIGKILL, -9, "")])
def test_records_of_an_interrupted_producer_are_rejected(tmp_path: Path, run: Callable[..., Any],
                                                         number: int, code: int,
                                                         reason: str) -> None:
    source, out = tmp_path / "source", tmp_path / "stdout.jsonl"
    os.mkfifo(source)
    with out.open("wb") as stdout:
        producer = subprocess.Popen([sys.executable, "-m", "bmtools", "import", "text", source],
                                    stdout=stdout, stderr=subprocess.PIPE)
        with source.open("w") as stream:
            stream.write(LINES)
            stream.flush()
            deadline = time.monotonic() + 60
            while not out.stat().st_size:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(0.3)
            producer.send_signal(number)
            error = producer.communicate()[1].decode()
    assert producer.returncode == code
    assert error == (f"bmtools: {reason}\n" if reason else "")
    outcome = run("build-vocab", "-o", tmp_path / "vocab", "--size", "120", out)
    assert outcome.code == 1
    if reason:
        assert json.loads(out.read_bytes().splitlines()[-1]) == {
            "bmtools": "incomplete", "command": "bmtools import text", "reason": reason}
        assert f"because 'bmtools import text' failed ({reason})" in outcome.err
    else:
        assert "the last line is cut off, after" in outcome.err
    assert not (tmp_path / "vocab").exists()
