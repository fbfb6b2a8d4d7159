"""Errors that are shown to the user as one line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from numbers import Integral, Real
from os import PathLike
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

_UNPRINTABLE = {"Cc", "Cs", "Cn"}  # controls, halves of surrogate pairs, unassigned code points
# Embeddings, overrides and isolates. Marks such as U+200E reorder no other text and are kept.
_REORDERING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

LAST_SEED = 2**32 - 1
"""Largest seed that numpy, torch and scikit-learn all accept."""


class BmtoolsError(Exception):
    """Wrong data or a wrong checkpoint; the message is one line that says how to fix it."""


class BmtoolsWarning(UserWarning):
    """Input that can be used but is probably not as intended; the message is one line."""


class DataError(BmtoolsError):
    """A file whose content differs from the content that the command expects."""


class CheckpointError(BmtoolsError):
    """A model, tokenizer or run directory that cannot be used as requested."""


class GateError(BmtoolsError):
    """A score outside the limit that the user set. The data are valid; the exit code is 3."""


class RecordError(DataError):
    """One bad record among others; `--rejects` collects such records.

    Args:
        place: origin of the record: `file:line`.
        reason: the value found, the value expected and the fix.
        content: the record, or the raw line if it could not be decoded.
    """

    def __init__(self, place: str, reason: str, content: Any = None) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason
        self.content = content

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling; other processes recreate an error from its arguments."""
        return type(self), (self.place, self.reason, self.content)


_MOST_SUGGESTIONS = 7
_PLURAL = re.compile(r"\b(?:corpora|[A-Za-z]+[^\Wsiu_]s)\b")
_type_hints = cache(get_type_hints)
Reject = Callable[[RecordError], None]


def refuse(error: RecordError) -> None:
    """Raise the error for a bad record: the default of all functions that read records."""
    raise error


def setting(name: str, value: object = "") -> str:
    """Spell a setting's name, and its value if given, as the user writes it.

    `max_length` in Python, `--max-length` in a shell, `--set max_length` for a command without an
    option of this name. With a value, `--max-length 8` or `--set max_length=8`.
    """
    as_flags = _as_flags.get()
    if as_flags is True or (as_flags and name in as_flags):
        return f"--{name.replace('_', '-')} {value}".rstrip()
    return f"--set {name}={value}".rstrip("=") if as_flags else f"{name} {value}".rstrip()


def start_again() -> str:
    """Advise to discard an unfinished run that cannot be resumed."""
    return f"start again with {setting('overwrite')} instead of {setting('resume')}"


@contextmanager
def settings_spelled_as_flags(as_flags: bool | Collection[str] = True) -> Iterator[None]:
    """Make `setting` spell all names, or the names in a collection, as options in this block.

    Outside such a block names are spelled as in Python and TOML files.
    """
    token = _as_flags.set(as_flags)
    try:
        yield
    finally:
        _as_flags.reset(token)


_as_flags: ContextVar[bool | Collection[str]] = ContextVar("as_flags", default=False)


def require(holds: bool, name: str, found: object, expected: str) -> None:
    """Raise an error if a setting is out of range; for `__post_init__` of frozen dataclasses.

    Raises:
        ValueError: names the setting, the value found and the value expected.
    """
    if not holds:
        raise ValueError(f"{setting(name)}: found {found}, expected {expected}")


def require_names(name: str, found: Iterable[str], known: Sequence[str]) -> None:
    """Raise an error if a list in a setting contains an unknown name; see `require`."""
    for one in found:
        meant = did_you_mean(one, known)
        require(one in known, name, repr(one),
                f"names from {', '.join(known)}, separated by commas{meant and f'; {meant}'}")


def count_of(count: int, counted: str) -> str:
    """Format a count with its noun: `1 record`, `1,200 records`.

    Args:
        count: the number.
        counted: words for the counted objects; the first plural becomes a singular if the count is
            1. Example: "unknown words, left as they were".
    """
    return f"{count:,} {_PLURAL.sub(_singular, counted, count=1) if count == 1 else counted}"


def listed(names: Sequence[str], most: int) -> str:
    """Join the first names, and count the others: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + f" and {more} more" * (more > 0)


def _singular(plural: re.Match[str]) -> str:
    word = plural[0]
    if word == "corpora":
        return "corpus"
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("sses", "shes", "ches", "xes")) else word[:-1]


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """Ask for the known name that was probably meant; empty if no name is similar.

    Case, `_` and `-` make no difference. One word of a name suggests every name that contains it.
    """
    import difflib

    names = {name.lower().replace("_", "-"): name for name in known}
    plain = found.lower().replace("_", "-")
    parts = [name for name in names if plain in re.split("[- ]", name)]
    few = parts if len(parts) <= _MOST_SUGGESTIONS else []
    near = [plain] if plain in names else few or difflib.get_close_matches(plain, names, 1)
    return f"did you mean {' or '.join(repr(names[name]) for name in near)}?" if near else ""


def suggestion(found: str, known: Iterable[str]) -> str:
    """Suggest the known name that was probably meant, or list all known names."""
    names = list(known)
    listed = ", ".join(names) or "none"
    return did_you_mean(found, names) or f"expected {'one of ' * (len(names) > 1)}{listed}"


_TYPES: dict[object, tuple[type | tuple[type, ...], str]] = {
    int: (Integral, "a whole number"), float: (Real, "a number"), bool: (bool, "True or False"),
    str: ((str, PathLike), "text")}


def check_values(settings: Any) -> None:
    """Raise an error for values of a wrong type or outside a `Literal`; for `__post_init__`.

    Raises:
        ValueError: names the setting, the value found and the value expected.
    """
    kind: Any = type(settings)
    for name, annotation in _type_hints(kind).items():
        found = getattr(settings, name)
        parts = get_args(annotation) if get_origin(annotation) is UnionType else (annotation,)
        if allowed := choices(annotation):
            expected = " or ".join(repr(choice) if choice in ("", None) else choice
                                   for choice in allowed)
            meant = did_you_mean(found, filter(None, allowed)) if isinstance(found, str) else ""
            require(found in allowed, name, found or repr(found),
                    f"{expected}{meant and f'; {meant}'}")
        elif parts[0] in _TYPES:
            known = [(part, *_TYPES[part]) for part in parts if part in _TYPES]
            is_right = any(isinstance(found, types) and isinstance(found, bool) == (part is bool)
                           for part, types, _ in known)
            shown = repr(found) if isinstance(found, str) else found
            require(is_right or (found is None and NoneType in parts), name, shown,
                    " or ".join(expected for *_, expected in known))


def choices(annotation: Any) -> tuple[Any, ...]:
    """List the values of `Literal[...]` or `Literal[...] | None`; empty for other types."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    literals = [part for part in get_args(annotation) if get_origin(part) is Literal]
    return (*choices(literals[0]), None) if len(literals) == 1 else ()


def without_controls(text: str) -> str:
    """Replace characters that cannot be printed, control a terminal, reverse the direction of
    the text around them, or are not allowed in XML."""
    if text.isprintable():
        return text
    return "".join(" " if sign.isspace() else "\N{REPLACEMENT CHARACTER}"
                   if unicodedata.category(sign) in _UNPRINTABLE or sign in _REORDERING else sign
                   for sign in text)
