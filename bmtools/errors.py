"""Errors that are shown to the user as one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class BmtoolsError(Exception):
    """Wrong data or a wrong checkpoint; the message is one line that names the way out."""


class DataError(BmtoolsError):
    """A file whose content is not what the command expects."""


class CheckpointError(BmtoolsError):
    """A model, tokenizer or run directory that cannot be used as asked."""


class RecordError(DataError):
    """One bad record among others; `--rejects` collects it and goes on.

    Args:
        place: where the record stands, as `file:line`.
        reason: what was found, what was expected and the way out.
        content: the record, or the raw line where it could not be decoded.
    """

    def __init__(self, place: str, reason: str, content: Any = None) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason
        self.content = content


Reject = Callable[[RecordError], None]


def refuse(error: RecordError) -> None:
    """Stop at the first bad record: what a room does unless told to collect them."""
    raise error


def require(holds: bool, option: str, found: object, expected: str) -> None:
    """Refuse a setting: what dataclasses of settings check themselves with.

    Raises:
        ValueError: names the option, what was found and what was expected.
    """
    if not holds:
        raise ValueError(f"{option}: found {found}, expected {expected}")
