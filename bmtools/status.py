"""Status of long work: what it is doing, how far it is, and its latest figures.

Rooms set it and the command line shows it; without a watcher it costs nothing. From Python,
`watching_status` receives it too.
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
        activity: a few words: "loading bert-base".
        done: units done; None where nothing is counted.
        total: units in all, where it is known.
        unit: what is counted, in the plural: "steps".
        figures: latest figures by name, named as in the lines that commands print; `tokens` and
            `sentences` count them since the start.
    """

    activity: str
    done: int | None = None
    total: int | None = None
    unit: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


Watcher = Callable[[Status], None]
# Of this thread: commands that run at once in one process do not see each other's status.
_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


def set_status(activity: str, done: int | None = None, total: int | None = None, unit: str = "",
               **figures: Any) -> None:
    """Tell watchers what the work is doing now; arguments as for `Status`."""
    if _watchers.get():
        _tell(Status(activity, done, total, unit, figures))


def counted(items: Iterable[Item], activity: str, total: int | None = None,
            unit: str = "records") -> Iterator[Item]:
    """Yield items and set the status to how many have passed.

    Args:
        items: of any kind.
        activity: a few words.
        total: number of items, where it is known.
        unit: what they are, in the plural.
    """
    status = Status(activity, 0, total, unit)
    _tell(status)
    for status.done, item in enumerate(items, 1):
        yield item
        _tell(status)  # again, for what was done in between may have told something else


@contextmanager
def watching_status(watcher: Watcher) -> Iterator[None]:
    """Have each new status passed to a function, which should return at once."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def _tell(status: Status) -> None:
    for watcher in _watchers.get():
        watcher(status)
