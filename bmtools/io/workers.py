"""Workers: functions from a part of the input to outcomes, run in processes or on a cluster.

Worker processes import this module and the module of their work. They should not import torch or
transformers, which would cost each process seconds and hundreds of megabytes.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bmtools.errors import BmtoolsError, RecordError, Reject, setting, settings_spelled_as_flags
from bmtools.io.jsonl import Block, RecordReader
from bmtools.io.output import encode_lines
from bmtools.io.parts import InputFile, Part, groups_of, read_blocks, read_group
from bmtools.io.record_size import MEGABYTE, limiting_records, most_bytes
from bmtools.io.system import usable_cores
from bmtools.records import Record
from bmtools.settings import Settings, option
from bmtools.status import counted

Item = TypeVar("Item")
Result = TypeVar("Result")
Made = TypeVar("Made")
_LENGTH_BYTES = 8
_PARTS_AHEAD = 2  # for each process


class Workers(Settings, title="Processes"):
    """Processes of this machine or of a cluster."""

    workers: int = option(1, "Number of processes on this machine; 0 means one per core.")
    ray: str | None = option(
        None, "Address of a Ray cluster to use instead: HOST:PORT, auto for the cluster of this "
              "machine, or local to start one; its nodes must see the same files.")


ONE_WORKER = Workers(1)
"""Work in this process."""


@dataclass
class Outcome:
    """Outcome of a part, or of several records in it.

    Args:
        lines: records as JSON Lines, or other results that a pass collects.
        records: number of records.
        aside: lines for a second file, such as records left out.
        rejects: places, reasons and contents of bad records, as JSON Lines.
        counts: counts for closing messages, by name.
    """

    lines: bytes = b""
    records: int = 0
    aside: bytes = b""
    rejects: bytes = b""
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, records: Iterable[Record]) -> None:
        """Add records, including records before an error."""
        found: list[Record] = []
        try:
            found.extend(records)
        finally:
            self.lines += encode_lines(found)
            self.records += len(found)

    def set_aside(self, record: Record) -> None:
        """Add a record to the second file."""
        self.aside += encode_lines([record])

    def reject(self, error: RecordError) -> None:
        """Add a bad record."""
        self.rejects += encode_lines([(error.place, error.reason, error.content)])

    def hand_over(self, reject: Reject) -> None:
        """Pass the bad records to `reject`."""
        for line in self.rejects.splitlines():
            reject(RecordError(*msgspec.json.decode(line)))


Step = Callable[[Iterator[Record], Outcome], Iterable[Record]]
Worker = Callable[[Any], Iterable[Outcome]]
"""Function that processes a part and returns one outcome or more."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Outcome, dec_hook=lambda kind, found: kind(found)).decode


class RecordWorker:
    """Worker that passes the records of blocks through a step.

    Args:
        make_step: called once in each process; a step keeps no state between blocks.
    """

    def __init__(self, make_step: Callable[[], Step]) -> None:
        self._step = make_step()

    def __call__(self, block: Block) -> Iterator[Outcome]:
        """Yield the outcome of a block."""
        outcome = Outcome()
        try:
            outcome.add(self._step(block.records(outcome.reject), outcome))
        except BmtoolsError:
            yield outcome
            raise
        yield outcome


def collected(records: RecordReader, make_worker: Callable[[], Worker], workers: Workers,
              reject: Reject, activity: str) -> Iterator[bytes]:
    """Yield the output lines for blocks, in the order of the blocks.

    Args:
        records: contains the file names; its `hashes` are filled.
        make_worker: called once in each process; must be picklable.
        workers: do the work.
        reject: receives bad records.
        activity: a few words for the status.
    """
    blocks = counted(read_blocks(records), activity, unit="megabytes")
    for _, outcomes in results_of(blocks, make_worker, workers):
        for outcome in outcomes:
            outcome.hand_over(reject)
            yield outcome.lines


def results_of(parts: Iterator[Part], make_worker: Callable[[], Worker], workers: Workers,
               spool: Path | None = None) -> Generator[tuple[Part, Iterable[Outcome]]]:
    """Yield parts and their outcomes, in order; parts that other processes read have no lines.

    Args:
        parts: parts of the input; for a group of parts on a cluster, only the last part is yielded.
        make_worker: called once in each process; must be picklable.
        workers: do the work.
        spool: prefix for files that transfer the outcomes of large parts.
    """
    if workers.ray:
        from bmtools.io.ray_cluster import RayPool

        with closing(RayPool(workers.ray,
                             in_this_setting(partial(_GroupWorker, make_worker)))) as pool:
            for group, encoded in pool.map(groups_of(parts)):
                yield group[-1], map(_decode, encoded)
    elif workers.workers == 1:
        worker = make_worker()
        for part in parts:
            yield part, worker(part)
    else:
        remedy = f"continue with {setting('resume')} and fewer {setting('workers')}"
        with closing(map_parallel(parts, partial(_Sender, make_worker, spool), workers.workers,
                                  remedy)) as sent:
            for part, outcomes, error in sent:
                yield part, _received(outcomes, error)


class _Sender:
    """Worker that sends the outcomes of whole files, which may be large, through a file."""

    def __init__(self, make_worker: Callable[[], Worker], spool: Path | None) -> None:
        self._worker, self._spool = make_worker(), spool

    def __call__(self, part: Part) -> tuple[Part, list[Outcome] | Path, BmtoolsError | None]:
        """Return a part, its outcomes or their file, and the error that ended them."""
        outcomes: list[Outcome] = []
        error = None
        path = self._spool.with_name(f"{self._spool.name}-{part.number}") \
            if self._spool and isinstance(part, InputFile) else None
        try:
            if path is None:
                outcomes.extend(self._worker(part))
            else:
                with path.open("wb") as stream:
                    for encoded in map(_encode, self._worker(part)):
                        stream.write(len(encoded).to_bytes(_LENGTH_BYTES) + encoded)
        except BmtoolsError as raised:
            error = raised
        if isinstance(part, Block):
            part = part.without_lines()
        return part, path or outcomes, error


def _received(sent: list[Outcome] | Path, error: BmtoolsError | None) -> Iterator[Outcome]:
    """Yield outcomes, and raise the error that ended them."""
    if isinstance(sent, list):
        yield from sent
    else:
        with sent.open("rb") as stream:
            sent.unlink()
            while length := stream.read(_LENGTH_BYTES):
                yield _decode(stream.read(int.from_bytes(length)))
    if error is not None:
        raise error


class _GroupWorker:
    """Worker on a cluster that yields encoded outcomes for a group of parts."""

    def __init__(self, make_worker: Callable[[], Worker]) -> None:
        self._worker = make_worker()

    def __call__(self, group: Sequence[Part]) -> Iterator[bytes]:
        for part in read_group(group):
            for outcome in self._worker(part):
                yield _encode(outcome)


def map_parallel(parts: Iterable[Item], make_worker: Callable[[], Callable[[Item], Result]],
                 processes: int, remedy: str) -> Generator[Result]:
    """Map parts to results with processes of this machine, in the order of the parts.

    Args:
        parts: parts such as blocks; a few parts per process are read ahead, and their results wait.
        make_worker: called once in each process; must be picklable. A worker gets its parts in
            order.
        processes: number of processes, 0 for one per core; with one process or a single part, the
            work is done in this process.
        remedy: advice in the message if a process dies.

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

    # Forking would copy locks of libraries that already run threads, in any state.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"),
                               _start_worker, (in_this_setting(make_worker),))
    try:
        pending = deque(pool.submit(_work, part)
                        for part in islice(parts, _PARTS_AHEAD * processes))
        while pending:
            yield pending.popleft().result()
            pending.extend(pool.submit(_work, part) for part in islice(parts, 1))
    except BrokenProcessPool as error:
        raise BmtoolsError("a worker process ended, perhaps because memory ran out; "
                           f"{remedy}") from error
    finally:
        pool.shutdown(cancel_futures=True)


_kept: list[Any] = []  # a worker process's worker and its settings, kept until it ends


def in_this_setting(make_worker: Callable[[], Made]) -> Callable[[], Made]:
    """Make another process spell settings and limit records as this process does."""
    return partial(_in_setting, make_worker, setting("x") != "x", most_bytes() // MEGABYTE)


def _in_setting(make_worker: Callable[[], Made], as_flags: bool, megabytes: int) -> Made:
    kept = ExitStack()  # never closed: the settings apply until the process ends
    kept.enter_context(settings_spelled_as_flags(as_flags))
    kept.enter_context(limiting_records(megabytes))
    _kept.append(kept)
    return make_worker()


def _start_worker(make_worker: Callable[[], Callable[[Any], Any]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides when to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _kept.append(make_worker())


def _end_with_parent() -> None:
    """Exit when the parent is killed; the pool's pipes would not show it."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(part: Any) -> Any:
    return _kept[-1](part)
