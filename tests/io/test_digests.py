"""Digests that are taken on the way."""

from __future__ import annotations

import hashlib
import os
import threading

from bmtools.io.digests import Digests, hashed_source, taking_digests


def test_what_has_come_is_read_before_more_comes() -> None:
    """Also where the source's own buffer, which was looked into, is the smaller one."""
    reads, writes = os.pipe()
    digests, lines = Digests(("-",)), list[bytes]()
    came = threading.Event()

    def read() -> None:
        with os.fdopen(reads, "rb") as source, taking_digests(digests):
            source.peek(4)
            for line in hashed_source(source, "-"):
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
    assert digests.read == {"-": hashlib.sha256(b"first\nsecond\n").hexdigest()}
