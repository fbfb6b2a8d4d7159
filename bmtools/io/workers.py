"""Workers: what they make of the parts of an input, in the order of these, wherever they are."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from bmtools.errors import BmtoolsError, RecordError, Reject, require_at_least, setting
from bmtools.io.jsonl import Block, RecordReader
from bmtools.io.output import encode_lines
from bmtools.io.parallel import load_blocks, map_parallel, read_blocks
from bmtools.io.record_shard import Shard
from bmtools.io.sources import is_compressed
from bmtools.records import JsonMapping, Record
from bmtools.settings import Settings, option
from bmtools.status import counted

_LENGTH_BYTES = 8
_GROUP = 8  # blocks that a node of a cluster takes at a time


class Workers(Settings, title="Processes"):
    """Processes: those of this machine, or of a cluster."""

    workers: int = option(1, "Processes of this machine; 0 for one for each core.")
    ray: str | None = option(
        None, "Address of a Ray cluster that does the work instead, HOST:PORT, auto for that of "
              "this machine, or local to start one; its nodes read the same files.")

    def __post_init__(self) -> None:
        require_at_least(self, workers=0)


ONE_WORKER = Workers(1)
"""This process."""


@dataclass
class Outcome:
    """Outcome of a part, or of some of its records.

    Args:
        lines: records, as JSON Lines; a pass that collects something else puts it here.
        records: their number.
        aside: lines for a second file, such as records left out.
        rejects: places, reasons and contents of bad records, as JSON Lines.
        counts: for people, by name.
    """

    lines: bytes = b""
    records: int = 0
    aside: bytes = b""
    rejects: bytes = b""
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, records: Iterable[Record]) -> None:
        """Add records; those before an error are added, too."""
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
        """Reject its bad records."""
        for line in self.rejects.splitlines():
            reject(RecordError(*msgspec.json.decode(line)))


@dataclass(frozen=True)
class InputFile:
    """File that is worked on whole.

    Args:
        number: of files before it.
        name: of the file.
        after: hash of what tells this file and those before it from others.
        options: of what is done with it.
    """

    number: int
    name: str
    after: str
    options: JsonMapping = field(default_factory=dict)


def files_of_shard(files: Sequence[InputFile], shard: Shard) -> list[InputFile]:
    """Return the files of one of several contiguous parts, which have nearly as many bytes."""
    starts = list(accumulate((Path(file.name).stat().st_size for file in files), initial=0))
    first, end = (starts[-1] * part // shard.parts for part in (shard.number - 1, shard.number))
    return [file for file, start in zip(files, starts, strict=False) if first <= start < end]


Part = Block | InputFile
Step = Callable[[Iterator[Record], Outcome], Iterable[Record]]
Worker = Callable[[Any], Iterable[Outcome]]
"""What a process does with a part, of which it must make one outcome at least."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Outcome, dec_hook=lambda kind, found: kind(found)).decode


class RecordWorker:
    """Worker that takes the records of blocks through a step.

    Args:
        make_step: called once in each process; a step keeps nothing from one block to the next.
    """

    def __init__(self, make_step: Callable[[], Step]) -> None:
        self._step = make_step()

    def __call__(self, block: Block) -> Iterator[Outcome]:
        """Yield the outcome of a block."""
        outcome = Outcome()
        records = block.records(outcome.reject)
        try:
            outcome.add(self._step(records, outcome))
        except BmtoolsError:
            yield outcome
            raise
        yield outcome


def collected(records: RecordReader, make_worker: Callable[[], Worker], workers: Workers,
              reject: Reject, activity: str) -> Iterator[bytes]:
    """Yield the lines of all outcomes of blocks, in the order of these.

    Args:
        records: names the files; its `hashes` are filled.
        make_worker: called once in each process, to which it is sent.
        workers: do the work.
        reject: receives bad records.
        activity: a few words for the status.
    """
    blocks = counted(read_blocks(records), activity, unit="megabytes")
    for _, _, outcomes in results_of(blocks, make_worker, workers):
        for outcome in outcomes:
            outcome.hand_over(reject)
            yield outcome.lines


def results_of(parts: Iterator[Part], make_worker: Callable[[], Worker], workers: Workers,
             spool: Path | None = None) -> Generator[tuple[int, str, Iterable[Outcome]]]:
    """Yield the number and hash of parts with their outcomes, in the order of the parts."""
    if workers.ray:
        from bmtools.io.ray_cluster import map_on_ray

        groups = list(_groups(parts))
        results = map_on_ray(groups, partial(_GroupWorker, make_worker), workers.ray)
        for group, encoded in zip(groups, results if groups else (), strict=True):
            yield group[-1].number, group[-1].after, map(_decode, encoded)
        return
    if workers.workers == 1:
        worker = make_worker()
        for part in parts:
            yield part.number, part.after, worker(part)
        return
    remedy = f"continue with {setting('resume')} and fewer {setting('workers')}"
    with closing(map_parallel(parts, partial(_Sender, make_worker, spool), workers.workers,
                              remedy)) as sent:
        for number, after, outcomes, error in sent:
            yield number, after, _received(outcomes, error)


class _Sender:
    """Worker that sends what may be large by way of a file.

    Args:
        make_worker: called once.
        spool: beginning of the names of files; None where all parts are blocks.
    """

    def __init__(self, make_worker: Callable[[], Worker], spool: Path | None) -> None:
        self._worker, self._spool = make_worker(), spool

    def __call__(self, part: Part) -> tuple[int, str, list[Outcome] | Path, BmtoolsError | None]:
        """Return a part's number, its hash, its outcomes or their file, and what ended them."""
        outcomes: list[Outcome] = []
        path, error = self._path(part), None
        try:
            if path is None:
                outcomes.extend(self._worker(part))
            else:
                with path.open("wb") as stream:
                    for outcome in self._worker(part):
                        encoded = _encode(outcome)
                        stream.write(len(encoded).to_bytes(_LENGTH_BYTES) + encoded)
        except BmtoolsError as raised:
            error = raised
        return part.number, part.after, path or outcomes, error

    def _path(self, part: Part) -> Path | None:
        if isinstance(part, Block) or self._spool is None:
            return None
        return self._spool.with_name(f"{self._spool.name}-{part.number}")


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


def _groups(parts: Iterator[Part]) -> Iterator[list[Part]]:
    """Group what one process of a cluster should read: blocks of a file, without their lines.

    A compressed file can only be read from its beginning.
    """
    light = (replace(part, lines=b"") if isinstance(part, Block) else part for part in parts)
    for name, own in groupby(light, attrgetter("name")):
        size = sys.maxsize if is_compressed(name) else _GROUP
        while group := list(islice(own, size)):
            yield group


class _GroupWorker:
    """Worker on a cluster.

    Args:
        make_worker: called once.
    """

    def __init__(self, make_worker: Callable[[], Worker]) -> None:
        self._worker = make_worker()

    def __call__(self, group: list[Any]) -> Iterator[bytes]:
        """Yield the encoded outcomes of a group."""
        for part in load_blocks(group) if isinstance(group[0], Block) else group:
            yield from map(_encode, self._worker(part))
