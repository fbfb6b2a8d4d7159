"""Counts of format readers, and handling of records that cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps

from bmtools.errors import RecordError, Reject, refuse
from bmtools.records import Record

MATCHED = "annotations at their offset"
MOVED = "moved to the nearest occurrence of their mention"
LOST = "annotations lost"


class Tally:
    """Counts of a reader, and its bad records.

    Args:
        counts: counts by name; None for a new counter.
        reject: receives bad records.
    """

    def __init__(self, counts: Counter[str] | None, reject: Reject) -> None:
        self.counts = Counter[str]() if counts is None else counts
        self.reject = reject

    @contextmanager
    def rejecting(self) -> Iterator[None]:
        """Reject the record that the block reads if it is bad."""
        try:
            yield
        except RecordError as error:
            self.reject(error)

    def lose(self, what: str, place: str, reason: str, content: object) -> None:
        """Count a lost part of a record that is kept, and reject the part if `reject` is given.

        Args:
            what: name of the lost part in `counts`.
            place: place of the part, `file:line`.
            reason: reason for the loss.
            content: the line or object.
        """
        self.counts[what] += 1
        if self.reject is not refuse:  # a loss does not stop a run
            self.reject(RecordError(place, reason, content))


def reader(read: Callable[..., Iterator[Record]]) -> Callable[..., Iterator[Record]]:
    """Return a reader with the parameters `counts` and `reject` in place of a tally."""
    @wraps(read)
    def with_tally(names: Iterable[str], *options: object, counts: Counter[str] | None = None,
                   reject: Reject = refuse, **more: object) -> Iterator[Record]:
        return read(names, Tally(counts, reject), *options, **more)

    return with_tally
