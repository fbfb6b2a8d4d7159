"""Streams of records that their producer could not finish, as their last line tells."""

from __future__ import annotations

from typing import Any

from bmtools.errors import DataError

_KEY, _VALUE = "bmtools", "incomplete"


def incomplete_line(command: str, reason: str) -> dict[str, str]:
    """Make the last line of records that end early: which command wrote them, and what failed."""
    return {_KEY: _VALUE, "command": command, "reason": reason}


def refuse_incomplete(content: Any, place: str) -> None:
    """Refuse the records before such a line: what is made of half a corpus looks whole.

    Raises:
        DataError: names the command and its reason.
    """
    if isinstance(content, dict) and content.get(_KEY) == _VALUE:
        raise DataError(f"{place}: the records are incomplete, since '{content.get('command')}' "
                        f"failed ({content.get('reason')}); mend that, and run both again")
