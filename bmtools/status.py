"""Status of long work: the current activity, the progress and the latest values.

Rooms set the status and the command line shows it. Without a watcher it needs no time. Python code
can receive it with `watching_status`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclass
class Status:
    """Current activity of long work.

    Args:
        activity: a few words, such as "loading bert-base".
        done: units done; None without a count.
        total: number of units, if it is known.
        unit: noun for the counted units, in the plural, such as "steps".
        figures: latest values by name, named as in the lines that commands print; `tokens` and
            `sentences` are totals since the start.
    """

    activity: str
    done: int | None = None
    total: int | None = None
    unit: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


Watcher = Callable[[Status], None]
# One tuple per thread: commands in one process do not see each other's status.
_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


def set_status(activity: str, done: int | None = None, total: int | None = None, unit: str = "",
               **figures: Any) -> None:
    """Pass the current activity to the watchers; arguments as for `Status`."""
    if _watchers.get():
        _tell(Status(activity, done, total, unit, figures))


def counted(items: Iterable[Item], activity: str, total: int | None = None,
            unit: str = "records") -> Iterator[Item]:
    """Yield items and set the status to the number of items so far.

    Args:
        items: of any kind.
        activity: a few words.
        total: number of items, if it is known.
        unit: noun for the items, in the plural.
    """
    status = Status(activity, 0, total, unit)
    _tell(status)
    for status.done, item in enumerate(items, 1):
        yield item
        _tell(status)  # repeated, because work in between may have set another status


@contextmanager
def watching_status(watcher: Watcher) -> Iterator[None]:
    """Pass each new status to a function during the block; the function should return at once."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def _tell(status: Status) -> None:
    for watcher in _watchers.get():
        watcher(status)
