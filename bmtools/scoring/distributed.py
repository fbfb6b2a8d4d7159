"""Data-parallel scoring: windows of records split across ranks, gathered on rank 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from bmtools.distributed import is_main_process, rank, world_size
from bmtools.errors import RecordError, Reject
from bmtools.records import Record
from bmtools.scoring.predictor import Predictor

Input = TypeVar("Input")
Score = TypeVar("Score")
_WINDOW_RECORDS = 256  # enough of one length to fill batches


def score_in_windows(records: Iterable[Record], predictors: Sequence[Predictor],
                     prepare: Callable[[Predictor, Record], Input],
                     score: Callable[[int, Sequence[Record], Sequence[Input]], list[Score]],
                     reject: Reject) -> Iterator[Score]:
    """Score records under each predictor, window by window, in input order.

    Under a launcher every process reads all records and scores every n-th window; the first one
    gathers, rejects and yields, the others yield nothing.

    Args:
        records: read in windows of bounded size.
        predictors: each scores all records.
        prepare: makes a predictor's input from a record. A record for which it raises
            `RecordError` is kept from all predictors, so that scores cover the same records.
        score: scores prepared records under the predictor of this index.
        reject: receives the errors of `prepare`, before the scores of the record's window.

    Yields:
        scores record by record, in the order of predictors.
    """
    def score_window(window: list[Record]) -> tuple[list[Score], list[RecordError]]:
        kept, inputs, refused = [], [], []
        for record in window:
            try:
                inputs.append([prepare(predictor, record) for predictor in predictors])
                kept.append(record)
            except RecordError as error:
                refused.append(error)
        columns = [score(index, kept, [own[index] for own in inputs])
                   for index in range(len(predictors))]
        return [one for row in zip(*columns, strict=True) for one in row], refused

    pending = iter(records)
    windows = iter(lambda: list(islice(pending, _WINDOW_RECORDS)), [])
    for scores, refused in map(score_window, windows) if world_size() == 1 \
            else _gather(windows, score_window):
        for error in refused:
            reject(error)
        yield from scores


def _gather(windows: Iterator[Input], function: Callable[[Input], Score]) -> Iterator[Score]:
    """Apply a function to every n-th window on each rank; rank 0 yields all results in order."""
    import torch
    from accelerate import PartialState
    from accelerate.utils import gather_object

    state = PartialState(cpu=not torch.cuda.is_available())
    while group := list(islice(windows, world_size())):
        own = [function(group[rank()])] if rank() < len(group) else []
        results = gather_object(own)
        if is_main_process():
            yield from results
    state.destroy_process_group()
