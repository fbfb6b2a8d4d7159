"""Sources that are opened again and again: files as they are, pipes as copies."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

from bmtools.io.jsonl import RecordReader
from bmtools.io.parts import rereadable
from bmtools.io.sources import source_name

LINES = b'{"id": "1", "text": "asma"}\n{"id": "2", "text": "tosse"}\n'


def test_files_are_read_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    with rereadable([str(path)]) as names:
        assert names == [str(path)]


def test_a_pipe_is_read_twice_packed_or_not(tmp_path: Path) -> None:
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
