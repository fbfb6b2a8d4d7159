"""Digests that are taken on the way."""

from __future__ import annotations

import hashlib
import os
import threading

from bmtools.io.sources import SourceName, open_bytes


def test_what_has_come_is_read_before_more_comes() -> None:
    """Also if the source's own buffer, which was looked into, is the smaller one."""
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
