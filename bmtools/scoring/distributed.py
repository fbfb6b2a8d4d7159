"""Who works on records: windows of them, shared out among the processes of a launcher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from bmtools.distributed import is_main_process, rank, world_size
from bmtools.errors import RecordError, Reject
from bmtools.records import Record

Asked = TypeVar("Asked")
Score = TypeVar("Score")
_WINDOW = 256


@dataclass(frozen=True, slots=True)
class WindowResult(Generic[Score]):
    """What became of a window.

    Args:
        scores: in the order of its records.
        refused: records that could not be scored.
    """

    scores: list[Score]
    refused: list[RecordError]


Work = Callable[[list[Record]], WindowResult[Score]]


def score_in_windows(records: Iterable[Record], work: Work[Score],
                     reject: Reject) -> Iterator[Score]:
    """Work on records, so many at a time that batches fill, and yield scores in their order.

    Under a launcher every process reads all records, works on every n-th window and sends what it
    found to the first, which alone yields scores and rejects records.

    Args:
        records: read in windows of bounded size.
        work: scores a window.
        reject: receives the records that cannot be scored.
    """
    for done in _shared_out(_windows(records), work):
        for error in done.refused:
            reject(error)
        yield from done.scores


def asked_of_all(records: Iterable[Record], predictors: Iterable[Any],
                 ask: Callable[[Any, Record], Asked],
                 ) -> tuple[list[tuple[Record, list[Asked]]], list[RecordError]]:
    """Ask all predictors about each record; one that a predictor cannot take is kept from all.

    Their scores then speak of the same sentences.

    Args:
        records: of a window.
        predictors: all of them are asked about every record.
        ask: makes a predictor's question of a record; raises RecordError where it cannot.

    Returns:
        records, each with its questions in the order of predictors, and those refused.
    """
    asked, refused = [], []
    for record in records:
        try:
            asked.append((record, [ask(predictor, record) for predictor in predictors]))
        except RecordError as error:
            refused.append(error)
    return asked, refused


def _windows(records: Iterable[Record]) -> Iterator[list[Record]]:
    pending = iter(records)
    while window := list(islice(pending, _WINDOW)):
        yield window


def _shared_out(windows: Iterator[list[Record]],
                work: Work[Score]) -> Iterator[WindowResult[Score]]:
    if world_size() == 1:
        yield from map(work, windows)
        return
    import torch
    from accelerate import PartialState
    from accelerate.utils import gather_object

    state = PartialState(cpu=not torch.cuda.is_available())
    while group := list(islice(windows, world_size())):
        own = work(group[rank()]) if rank() < len(group) else None
        found = gather_object([own])
        if is_main_process():
            yield from (done for done in found if done is not None)
    state.destroy_process_group()
