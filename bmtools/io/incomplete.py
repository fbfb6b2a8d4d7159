"""Incomplete streams: the last line says that the command that wrote them failed."""

from __future__ import annotations

from typing import Any

from bmtools.errors import DataError

_KEY, _VALUE = "bmtools", "incomplete"


def incomplete_line(command: str, reason: str) -> dict[str, str]:
    """Return the last line of records that end early: the command that failed, and the reason."""
    return {_KEY: _VALUE, "command": command, "reason": reason}


def refuse_incomplete(content: Any, place: str) -> None:
    """Raise an error for such a line: results from half a corpus would look complete.

    Raises:
        DataError: names the command and its reason.
    """
    if isinstance(content, dict) and content.get(_KEY) == _VALUE:
        raise DataError(f"{place}: the records are incomplete, because '{content.get('command')}' "
                        f"failed ({content.get('reason')}); fix that, then run both again")
