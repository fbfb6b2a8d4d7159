"""Results made in a thread before they are asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import RLock
from typing import Generic, TypeVar

ResultT = TypeVar("ResultT")


class Prefetcher(Generic[ResultT]):
    """Results of a function of a number, made one after the other and some ahead of the last asked.

    One is begun when the one before is done, so that a program that ends waits for one at most.

    Args:
        make: makes a result; called from one thread, with ascending numbers but for jumps.
        ahead: results that wait at most.
        end: number after the last one that there is; None if there is no end.
    """

    def __init__(self, make: Callable[[int], ResultT], ahead: int, end: int | None = None) -> None:
        self._make = make
        self._ahead = ahead
        self._end = end
        self._lock = RLock()
        self._executor = ThreadPoolExecutor(1)
        self._futures: dict[int, Future[ResultT]] = {}

    def get(self, number: int) -> ResultT:
        """Return a result, and forget those of lower numbers.

        Raises:
            Exception: what making it raised.
        """
        with self._lock:
            if number not in self._futures:
                self._futures.clear()
                self._begin(number)
            self._futures = {other: future for other, future in self._futures.items()
                             if other >= number}
            future = self._futures[number]
            self._go_on()
        return future.result()

    def _begin(self, number: int) -> None:
        self._futures[number] = future = self._executor.submit(self._make, number)
        future.add_done_callback(lambda _: self._go_on())

    def _go_on(self) -> None:
        """Begin the next result, unless one is being made, enough wait, or making one failed."""
        with self._lock:
            last = max(self._futures, default=None)
            if last is None or last + 1 == self._end or len(self._futures) > self._ahead \
                    or not self._futures[last].done() or self._futures[last].exception():
                return
            with contextlib.suppress(RuntimeError):  # the program ends
                self._begin(last + 1)
