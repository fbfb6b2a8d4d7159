"""Abbreviations whose point does not end a sentence, listed for languages and by users."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bmtools.errors import DataError
from bmtools.io.sources import read_lines


@dataclass(frozen=True)
class Abbreviations:
    """Abbreviations of a language, in lower case and without their last point.

    Args:
        leading: abbreviations that never end a sentence because something always follows them.
        others: abbreviations that end a sentence if a capitalised word follows.
    """

    leading: frozenset[str]
    others: frozenset[str]


def read_abbreviations(path: Path) -> Abbreviations:
    """Read a file with one abbreviation per line; `#` begins a comment.

    A line is `vit.`, for example. If something always follows the abbreviation, the line is
    `dott. ...`.

    Raises:
        DataError: the file does not exist, or a line contains anything else.
    """
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for number, line in read_lines(str(path)):
        word, *others = line.partition("#")[0].split() or [""]
        if others and others != ["..."]:
            raise DataError(f"{path}:{number}: found {line.strip()!r}, expected an abbreviation, "
                            "such as 'vit.', or 'dott. ...' if something always follows")
        if word:
            found[bool(others)].add(word.lower().removesuffix("."))
    return Abbreviations(frozenset(found[True]), frozenset(found[False]))


@cache
def known_abbreviations(language: str, more: Abbreviations | None) -> Abbreviations:
    """Combine the lists of a language with `more`; without such lists, use all languages' lists."""
    lists = Path(__file__).with_name("abbreviation_lists")
    own = lists / f"{language}.txt"
    paths = [lists / "all.txt", own] if own.is_file() else sorted(lists.glob("*.txt"))
    read = [*map(read_abbreviations, paths), *([more] if more else ())]
    return Abbreviations(frozenset().union(*(one.leading for one in read)),
                         frozenset().union(*(one.others for one in read)))
