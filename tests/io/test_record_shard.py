"""Shards of records."""

from __future__ import annotations

import gzip
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from bmtools.io.jsonl import RecordReader
from bmtools.io.parts import RecordShard, Shard, count_lines
from bmtools.io.sources import is_compressed


@pytest.mark.parametrize("seed", range(5))
def test_every_record_is_in_one_part_and_in_order(seed: int, tmp_path: Path) -> None:
    """Parts are nearly equal in bytes, places are those of the whole, and files may come twice."""
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
    for parts in (1, 2, 7, 50):
        shards = [RecordShard(RecordReader(names), Shard(one + 1, parts)) for one in range(parts)]
        found = [[(one, one.place) for one in shard] for shard in shards]
        assert list(chain.from_iterable(found)) == whole
        sizes = [sum(len(one["text"]) + 27 for one, _ in part) for part in found]
        assert max(sizes) - min(sizes) <= 2 * 120
        plain = [name for name in names if not is_compressed(name)]
        assert sum(count_lines(RecordShard(RecordReader(plain), Shard(one + 1, parts))) or 0
                   for one in range(parts)) == len(list(RecordReader(plain, allow_empty=True)))
    assert count_lines(RecordReader(names)) is None
    assert count_lines(RecordReader(["-"])) is None
