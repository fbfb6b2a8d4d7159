"""Function words of languages by kind, from plain files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from bmtools.text.languages import primary_language

_FOLDER = Path(__file__).with_name("word_lists")


@cache
def function_words(language: str) -> Mapping[str, frozenset[str]]:
    """Read the function words of a language by kind; empty if the language has no list.

    A line is `kind: words`; `#` begins a comment.
    """
    path = _FOLDER / f"{primary_language(language)}.txt"
    lines = path.read_text("utf-8").splitlines() if language and path.is_file() else []
    parts = [line.partition("#")[0].partition(":") for line in lines]
    return {kind.strip(): frozenset(words.split()) for kind, _, words in parts if kind.strip()}


def words_of_all_languages(*kinds: str) -> list[str]:
    """List the function words of the given kinds in all languages that have a list."""
    return sorted({word for path in _FOLDER.glob("*.txt") for kind in kinds
                   for word in function_words(path.stem).get(kind, ())})
