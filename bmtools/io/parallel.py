"""Parallel work on parts of the input, such as blocks of whole lines, by several processes.

Worker processes import this module and that of their work, so neither should import torch or
transformers, which would cost each of them seconds and hundreds of megabytes.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from bmtools.errors import BmtoolsError, setting, settings_spelled_as_flags
from bmtools.io.jsonl import Block, RecordReader, refuse_empty
from bmtools.io.record_size import MEGABYTE, limiting_records, most_bytes
from bmtools.io.sources import open_text, with_newlines
from bmtools.io.system import usable_cores

Part = TypeVar("Part")
Result = TypeVar("Result")
Made = TypeVar("Made")

_BLOCK_BYTES = 1 << 20
_PARTS_AHEAD = 2  # for each process


def read_blocks(records: RecordReader) -> Iterator[Block]:
    """Split files into blocks, the same ones every time; `records.hashes` is filled.

    Args:
        records: names the files; none of their lines is parsed here.

    Raises:
        DataError: a file is no text, or all are blank.
    """
    is_blank = True
    for block in records.blocks(_BLOCK_BYTES):
        is_blank = is_blank and block.lines.isspace()
        yield block
    if is_blank:
        refuse_empty(records.names, records.allow_empty)


def load_blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    """Read blocks of one file, one after the other, which came without their lines."""
    with open_text(blocks[0].name, takes_digest=False) as stream:
        stream.seek(blocks[0].start, os.SEEK_CUR)
        for block in blocks:
            yield replace(block, lines=with_newlines(stream.read(block.size)))


def map_parallel(parts: Iterable[Part], make_worker: Callable[[], Callable[[Part], Result]],
                 processes: int, remedy: str) -> Generator[Result]:
    """Map parts to results by workers, in the order of the parts.

    Args:
        parts: such as blocks; taken ahead by a few for each process, so that as many results wait.
        make_worker: called once in each process, to which it must be possible to send it; a worker
            gets its parts in their order.
        processes: 0 for one a core; one works in this process, and so does a single part.
        remedy: advice for the message where a process dies.

    Raises:
        BmtoolsError: a process died.
    """
    processes = processes or usable_cores()
    parts = iter(parts)
    ahead = list(islice(parts, 2))
    parts = chain(ahead, parts)
    if processes == 1 or len(ahead) < 2:
        yield from map(make_worker(), parts)
        return
    import multiprocessing
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

    # Forking would copy the locks of libraries that run threads by now, in whatever state.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"),
                               _start_worker, (in_this_setting(make_worker),))
    try:
        pending = deque(pool.submit(_work, part)
                        for part in islice(parts, _PARTS_AHEAD * processes))
        while pending:
            yield pending.popleft().result()
            pending.extend(pool.submit(_work, part) for part in islice(parts, 1))
    except BrokenProcessPool as error:
        raise BmtoolsError("a worker process ended, perhaps for lack of memory; "
                           f"{remedy}") from error
    finally:
        pool.shutdown(cancel_futures=True)


_worker: Callable[[Any], Any] | None = None  # of a worker process; it does one task in its life


def in_this_setting(make_worker: Callable[[], Made]) -> Callable[[], Made]:
    """Have a function called in another process spell settings and limit records as this one."""
    return partial(_in_setting, make_worker, setting("x") != "x", most_bytes() // MEGABYTE)


def _in_setting(make_worker: Callable[[], Made], as_flags: bool, megabytes: int) -> Made:
    kept = ExitStack()  # never closed: they are those of the process
    kept.enter_context(settings_spelled_as_flags(as_flags))
    kept.enter_context(limiting_records(megabytes))
    _kept.append(kept)
    return make_worker()


_kept: list[ExitStack] = []


def _start_worker(make_worker: Callable[[], Callable[[Any], Any]]) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _worker = make_worker()


def _end_with_parent() -> None:
    """Leave when the parent is killed; the pool's own pipes would never show it."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(part: Any) -> Any:
    assert _worker is not None
    return _worker(part)
