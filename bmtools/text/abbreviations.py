"""Abbreviations whose point ends no sentence: lists of languages and of users."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bmtools.errors import DataError
from bmtools.io.sources import read_lines


@dataclass(frozen=True)
class Abbreviations:
    """Abbreviations of a language, in small letters and without their last point.

    Args:
        leading: never end a sentence: they announce something.
        others: end a sentence where a capitalised word follows.
    """

    leading: frozenset[str]
    others: frozenset[str]


def read_abbreviations(path: Path) -> Abbreviations:
    """Read a file with an abbreviation a line; `#` begins a comment.

    `vit.` is one, and `dott. ...` is one that something always follows.

    Raises:
        DataError: a line with something else, or no such file.
    """
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for number, line in read_lines(str(path)):
        word, *others = line.partition("#")[0].split() or [""]
        if others and others != ["..."]:
            raise DataError(f"{path}:{number}: found {line.strip()!r}, expected an abbreviation, "
                            "such as 'vit.', or 'dott. ...' where something always follows")
        if word:
            found[bool(others)].add(word.lower().removesuffix("."))
    return Abbreviations(frozenset(found[True]), frozenset(found[False]))


@cache
def known_abbreviations(language: str, more: Abbreviations | None) -> Abbreviations:
    """Unite the lists of a language, those of all languages where it has none, and others."""
    lists = Path(__file__).with_name("abbreviation_lists")
    own = lists / f"{language}.txt"
    paths = [lists / "all.txt", own] if own.is_file() else sorted(lists.glob("*.txt"))
    read = [*map(read_abbreviations, paths), *([more] if more else ())]
    return Abbreviations(frozenset().union(*(one.leading for one in read)),
                         frozenset().union(*(one.others for one in read)))
