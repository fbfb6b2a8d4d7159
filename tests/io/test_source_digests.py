"""Digests that are computed while reading."""

from __future__ import annotations

import hashlib
import os
import threading

from bmtools.io.sources import SourceName, open_bytes


def test_available_content_is_read_without_waiting_for_more() -> None:
    """This also holds if the source's buffer is smaller than the requested size."""
    reads, writes = os.pipe()
    digests, lines = dict[str, str](), list[bytes]()
    came = threading.Event()

    def read() -> None:
        with open_bytes(SourceName(f"/dev/fd/{reads}", digests.__setitem__)) as source:
            for line in source:
                lines.append(line)
                came.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    os.write(writes, b"first\n")
    assert came.wait(20), "the line waits for the next one"
    os.write(writes, b"second\n")
    os.close(writes)
    thread.join(20)
    assert lines == [b"first\n", b"second\n"]
    assert digests == {f"/dev/fd/{reads}": hashlib.sha256(b"first\nsecond\n").hexdigest()}
