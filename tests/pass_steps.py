"""Steps and workers of passes that worker processes can import."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bmtools.io.parts import InputFile
from bmtools.io.workers import Outcome
from bmtools.records import Record


class Odd:
    """Step that keeps odd numbers, in capital letters; zero is an invalid text."""

    def __init__(self, capitals: bool = True) -> None:
        self._capitals = capitals

    def __call__(self, records: Iterator[Record], outcome: Outcome) -> Iterator[Record]:
        for record in records:
            if int(record["id"]) % 2:
                yield record.replace(text=record["text"].upper() if self._capitals else "")
            else:
                outcome.counts["even"] += 1
                outcome.set_aside(record.replace(dropped="even"))


def make_odd() -> Odd:
    """Make the step."""
    return Odd()


class TwoOutcomes:
    """Worker that returns two outcomes for a file."""

    def __call__(self, part: InputFile) -> Iterator[Outcome]:
        content = Path(part.name).read_bytes()
        yield Outcome(content[:5], 1)
        yield Outcome(content[5:], 0)
