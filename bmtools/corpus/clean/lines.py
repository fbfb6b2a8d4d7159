"""Lines that many records share, counted exactly in little memory; patterns of unwanted text.

Only lines of five words or more are looked at: shorter ones, headings and items of lists, may well
come again.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from contextlib import closing
from hashlib import blake2b

from bmtools.errors import DataError
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import temporary_database
from bmtools.io.sources import read_list, source_name
from bmtools.status import counted

_FEWEST_WORDS = 5


def is_long(line: str) -> bool:
    """Tell whether a line has so many words that it hardly comes again by chance."""
    return len(line.split(None, _FEWEST_WORDS - 1)) >= _FEWEST_WORDS


def line_hash(line: str) -> int:
    """Hash a line without the white space around it, to the same 63 bits everywhere."""
    digest = blake2b(" ".join(line.split()).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def copied_lines(records: RecordReader, most: int) -> set[int]:
    """Read records once, and return the hashes of the lines that stand in more than so many.

    Counts are kept in a temporary SQLite database, with 64 MiB of it in memory.
    """
    with closing(temporary_database()) as lines:
        lines.execute("CREATE TABLE lines (hash INTEGER PRIMARY KEY, records INTEGER)")
        for record in counted(RecordReader(records.names, lambda error: None, allow_empty=True),
                              "counting lines"):
            lines.executemany(
                "INSERT INTO lines VALUES (?, 1) ON CONFLICT DO UPDATE SET records = records + 1",
                ((found,) for found in _hashes(record["text"].split("\n"))))
        return {found for found, in lines.execute(
            "SELECT hash FROM lines WHERE records > ?", [most])}


def _hashes(lines: Iterable[str]) -> set[int]:
    return {line_hash(line) for line in lines if is_long(line)}


def read_patterns(name: str) -> list[re.Pattern[str]]:
    """Read regular expressions, one a line; `^` and `$` stand for the ends of lines.

    Raises:
        DataError: one that is none, or that matches nothing at all.
    """
    patterns = []
    for number, line in read_list(name, "regular expressions"):
        try:
            with warnings.catch_warnings(action="error"):
                pattern = re.compile(line, re.MULTILINE)
        except (re.error, FutureWarning, OverflowError, RecursionError) as error:
            raise DataError(f"{source_name(name)}:{number}: found {line[:40]!r} ({error}), "
                            "expected a regular expression of Python") from error
        if pattern.match(""):
            raise DataError(f"{source_name(name)}:{number}: found {line[:40]!r}, which matches an "
                            "empty text, expected a regular expression for what is removed")
        patterns.append(pattern)
    return patterns
