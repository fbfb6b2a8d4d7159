"""Blocks of lines, and workers that take them in order."""

from __future__ import annotations

import os
from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest

from bmtools.errors import BmtoolsError
from bmtools.io import parts as blocks
from bmtools.io.jsonl import RecordReader
from bmtools.io.parts import read_blocks
from bmtools.io.workers import map_parallel


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 10)


@pytest.fixture
def files(tmp_path: Path) -> RecordReader:
    (tmp_path / "a").write_bytes(b"one\ntwo two\nthree\n\nfour four four\nfive")
    (tmp_path / "b").write_bytes(b"six\nseven\n")
    (tmp_path / "c").write_bytes(b"eight\n")
    return RecordReader([str(tmp_path / name) for name in "abc"])


def test_blocks_are_whole_lines_with_their_numbers(files: RecordReader) -> None:
    found = list(read_blocks(files))
    assert [(block.number, Path(block.name).name, block.first_line, block.earlier_lines,
             block.lines) for block in found] == [
        (0, "a", 1, 0, b"one\ntwo two\n"), (1, "a", 3, 0, b"three\n\nfour four four\n"),
        (2, "a", 6, 0, b"five"), (3, "b", 1, 6, b"six\nseven\n"), (4, "c", 1, 8, b"eight\n")]
    assert len({block.before for block in found}) == len(found)
    assert len(files.hashes) == 3


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_keep_the_order_of_blocks(files: RecordReader, processes: int) -> None:
    expected = [(block.number, block.lines) for block in read_blocks(files)]
    make_worker = partial(attrgetter, "number", "lines")
    assert list(map_parallel(read_blocks(files), make_worker, processes, "")) == expected


def test_a_worker_that_dies_is_reported_with_a_remedy(files: RecordReader) -> None:
    with pytest.raises(BmtoolsError, match=r"a worker process ended, .*; buy more memory"):
        list(map_parallel(read_blocks(files), partial(os._exit, 1), 2, "buy more memory"))
