"""Check that the licences of a run's inputs can be met together, before it begins."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from bmtools.errors import BmtoolsWarning, DataError
from bmtools.io.output import record_of
from bmtools.io.provenance.licence_names import licence_parts
from bmtools.io.provenance.licences import NO_DERIVATIVES, conflicts, missing_from, obligations
from bmtools.io.provenance.manifest import directory_licences
from bmtools.io.provenance.record import read_record
from bmtools.io.sources import source_name

SWITCH = "BMTOOLS_ALLOW_LICENCE_CONFLICT"
"""Environment variable that turns refusals into warnings."""
_WAY_OUT = ("leave one out (bmtools clean --licences keeps records by their licence), or set "
            f"{SWITCH}=1 to go on")


def known_licences(path: str | Path) -> list[str]:
    """Return the licences of a directory or file that its record or card states; nothing is read
    of it, and a record that is older than its file does not count."""
    path = Path(path)
    if path.is_dir():
        return directory_licences(path)
    beside = record_of(path)
    if not (path.is_file() and beside.is_file()) or \
            beside.stat().st_mtime_ns < path.stat().st_mtime_ns:
        return []
    return licence_parts(str(read_record(path).get("licence", "")))


def check_licences(origins: Mapping[str, Iterable[str]]) -> None:
    """Refuse inputs of which one work cannot be made under the licences of all.

    Args:
        origins: licences by the file or directory that has them, for messages.

    Raises:
        DataError: names two licences, their files and the way out.
    """
    where: dict[str, str] = {}
    for origin, licences in origins.items():
        for part in (part for licence in sorted(licences) for part in licence_parts(licence)):
            where.setdefault(part, source_name(origin))
    for one in conflicts(where):
        first, second = (where[name] for name in (one.first, one.second))
        refuse_licences(f"{first} has {one.first} and {'' if first == second else f'{second} has '}"
                        f"{one.second}, which cannot both be met: {one.reason}; {_WAY_OUT}")


def refuse_licences(message: str) -> None:
    """Raise a conflict of licences, or warn of it where that is asked for.

    Raises:
        DataError: with the message.
    """
    if not is_allowed():
        raise DataError(message)
    warnings.warn(BmtoolsWarning(message), stacklevel=3)


def is_allowed() -> bool:
    """Tell whether conflicts are to be warned of alone."""
    return os.environ.get(SWITCH, "0") not in ("", "0")


def warn_of_no_derivatives(origins: Mapping[str, Iterable[str]]) -> None:
    """Warn of inputs of a model that may not be shared in changed form."""
    for origin, licences in origins.items():
        for name in dict.fromkeys(part for one in licences for part in licence_parts(one)):
            if NO_DERIVATIVES in obligations(name):
                warnings.warn(BmtoolsWarning(
                    f"{origin} has {name}, which allows no changed versions to be shared; whether "
                    "a model is one of the texts it was trained on is disputed"), stacklevel=2)


def translation_fault(licence: str, engine: str) -> str:
    """Say why a text may not be translated by an engine; empty where nothing is known against it.

    Args:
        licence: of the text; empty where it is unknown.
        engine: licence of its model.
    """
    return "" if is_allowed() else _translation_fault(licence, engine)


@lru_cache(maxsize=256)
def _translation_fault(licence: str, engine: str) -> str:
    for name in licence_parts(licence):
        if NO_DERIVATIVES in obligations(name):
            return (f"key 'licence': found {name}, which allows no translation to be shared; "
                    f"{_WAY_OUT}")
    for one in conflicts([licence, engine]):
        return (f"key 'licence': found {licence}, and {engine} of the engine's model, which cannot "
                f"both be met: {one.reason}; {_WAY_OUT}")
    return ""


@lru_cache(maxsize=256)
def declared_fault(declared: str, licence: str, setting: str) -> str:
    """Say what a licence given to an output leaves out of its input's; empty where nothing.

    Args:
        declared: licence of the output.
        licence: of the input.
        setting: that declared it.
    """
    lacking = sorted(set().union(*missing_from(declared, [licence]).values()))
    return (lacking and (f"found {licence}, and {setting} {declared} leaves out its conditions: "
                        f"{', '.join(lacking)}; name a licence with them, or set {SWITCH}=1 "
                        "to go on")) or ""
