"""Parts of the input: blocks for workers, parts for job arrays, and pipes that are read twice."""

from __future__ import annotations

import gzip
import os
import threading
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from random import Random

import pytest

from bmtools.errors import BmtoolsError
from bmtools.io import parts
from bmtools.io.jsonl import RecordReader
from bmtools.io.parts import RecordShard, Shard, count_lines, read_blocks, rereadable
from bmtools.io.sources import is_compressed, source_name
from bmtools.io.workers import map_parallel

LINES = b'{"id": "1", "text": "asma"}\n{"id": "2", "text": "tosse"}\n'


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_BLOCK_BYTES", 10)


@pytest.fixture
def files(tmp_path: Path, small_blocks: None) -> RecordReader:
    (tmp_path / "a").write_bytes(b"one\ntwo two\nthree\n\nfour four four\nfive")
    (tmp_path / "b").write_bytes(b"six\nseven\n")
    (tmp_path / "c").write_bytes(b"eight\n")
    return RecordReader([str(tmp_path / name) for name in "abc"])


def test_blocks_contain_complete_lines_with_their_numbers(files: RecordReader) -> None:
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


@pytest.mark.parametrize("seed", range(5))
def test_every_record_is_in_one_part_and_in_order(seed: int, tmp_path: Path) -> None:
    """Parts have nearly equal sizes, records keep their places, and a file may be given twice."""
    rng, names, number = Random(seed), [], 0
    for file in range(3):
        lines = []
        for _ in range(rng.randrange(20)):
            lines.append(b'{"id": "%d", "text": "%s"}' % (number, b"x" * rng.randrange(90)))
            number += 1
        content = b"\n\n".join(lines) + b"\n" * (file % 2)
        path = tmp_path / f"{file}.jsonl"
        path.write_bytes(gzip.compress(content) if file == 1 else
                         b"\xef\xbb\xbf" * (file == 2) + content)
        names.append(str(path))
    names.append(names[0])
    whole = [(one, one.place) for one in RecordReader(names, allow_empty=True)]
    for count in (1, 2, 7, 50):
        shards = [RecordShard(RecordReader(names), Shard(one + 1, count)) for one in range(count)]
        found = [[(one, one.place) for one in shard] for shard in shards]
        assert list(chain.from_iterable(found)) == whole
        sizes = [sum(len(one["text"]) + 27 for one, _ in part) for part in found]
        assert max(sizes) - min(sizes) <= 2 * 120
        plain = [name for name in names if not is_compressed(name)]
        assert sum(count_lines(RecordShard(RecordReader(plain), Shard(one + 1, count))) or 0
                   for one in range(count)) == len(list(RecordReader(plain, allow_empty=True)))
    assert count_lines(RecordReader(names)) is None
    assert count_lines(RecordReader(["-"])) is None


def test_files_are_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    with rereadable([str(path)]) as names:
        assert names == [str(path)]


def test_a_pipe_is_read_twice_compressed_or_not(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for content in (LINES, gzip.compress(LINES)):
        writer = threading.Thread(target=pipe.write_bytes, args=(content,))
        writer.start()
        with rereadable([str(pipe)]) as names:
            for _ in range(2):
                reader = RecordReader(names)
                assert [record["id"] for record in reader] == ["1", "2"]
                assert reader.hashes.keys() == {str(pipe)}
            assert type(source_name(names[0])) is str
        writer.join()
