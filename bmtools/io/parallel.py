"""Parallel work on files: blocks of whole lines, a megabyte each, by several processes.

Worker processes import this module and that of their work, so neither should import torch or
transformers, which would cost each of them seconds and hundreds of megabytes.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from bmtools.errors import BmtoolsError
from bmtools.io.jsonl import (
    RecordReader,
    open_text,
    refuse_empty,
    source_name,
    with_newlines,
)
from bmtools.io.record_size import rest_of_line
from bmtools.io.system import usable_cores

Result = TypeVar("Result")

_BLOCK_BYTES = 1 << 20
_NEWLINE = b"\n"
_BLOCKS_AHEAD = 2  # for each process


@dataclass(frozen=True)
class Block:
    """Block of whole lines of one file, about a megabyte.

    Args:
        number: blocks before it, over all files.
        name: the file as messages name it.
        first_line: number of its first line in the file.
        lines: UTF-8, each with its end but perhaps the file's last one.
        before: hash of all content before it.
        earlier_lines: lines of the files before this one.
    """

    number: int
    name: str
    first_line: int
    lines: bytes
    before: str
    earlier_lines: int = 0


def read_blocks(records: RecordReader) -> Iterator[Block]:
    """Split files into blocks, the same ones every time; `records.hashes` is filled.

    Args:
        records: names the files; none of their lines is parsed here.

    Raises:
        DataError: a file is no text, or all are blank.
    """
    is_blank = True
    number = earlier_lines = 0
    earlier = hashlib.sha256()
    for name in records.names:
        digest = hashlib.sha256()
        line = 1
        ended = True
        with open_text(name) as stream:
            while lines := stream.read(_BLOCK_BYTES):
                place = f"{source_name(name)}:{line + lines.count(_NEWLINE)}"
                lines += rest_of_line(stream, len(lines) - 1 - lines.rfind(_NEWLINE), place)
                before = f"{earlier.hexdigest()} {digest.hexdigest()}"
                digest.update(lines)
                lines = with_newlines(lines)
                is_blank = is_blank and lines.isspace()
                yield Block(number, source_name(name), line, lines, before, earlier_lines)
                line += lines.count(b"\n")
                ended = lines.endswith(b"\n")
                number += 1
        earlier_lines += line - ended
        earlier.update(digest.digest())
        records.hashes[source_name(name)] = digest.hexdigest()
    if is_blank:
        refuse_empty(records.names, records.allow_empty)


def map_blocks(blocks: Iterator[Block], make_worker: Callable[[], Callable[[Block], Result]],
               processes: int, remedy: str) -> Generator[Result]:
    """Map blocks to results by workers, in the order of the blocks.

    Args:
        blocks: read ahead by a few for each process.
        make_worker: called once in each process, to which it must be possible to send it; a worker
            gets its blocks in their order.
        processes: 0 for one a core; one works in this process, and so does a single block.
        remedy: advice for the message where a process dies.

    Raises:
        BmtoolsError: a process died.
    """
    processes = processes or usable_cores()
    ahead = list(islice(blocks, 2))
    blocks = chain(ahead, blocks)
    if processes == 1 or len(ahead) < 2:
        yield from map(make_worker(), blocks)
        return
    # Forking would copy the locks of libraries that run threads by now, in whatever state.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"),
                               _start_worker, (make_worker,))
    try:
        pending = deque(pool.submit(_work, block)
                        for block in islice(blocks, _BLOCKS_AHEAD * processes))
        while pending:
            yield pending.popleft().result()
            pending.extend(pool.submit(_work, block) for block in islice(blocks, 1))
    except BrokenProcessPool as error:
        raise BmtoolsError("a worker process ended, perhaps for lack of memory; "
                           f"{remedy}") from error
    finally:
        pool.shutdown(cancel_futures=True)


_worker: Callable[[Block], Any] | None = None  # of a worker process; it does one task in its life


def _start_worker(make_worker: Callable[[], Callable[[Block], Any]]) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _worker = make_worker()


def _end_with_parent() -> None:
    """Leave when the parent is killed; the pool's own pipes would never show it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(block: Block) -> Any:
    assert _worker is not None
    return _worker(block)
