"""Check, before a run starts, that the licences of its inputs are compatible."""

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
"""Environment variable that turns licence errors into warnings."""
_WAY_OUT = ("leave one out (bmtools clean --licences keeps records by their licence), or set "
            f"{SWITCH}=1 to continue")


def known_licences(path: str | Path) -> list[str]:
    """Return the licences that the record or card of a directory or file states. The content is
    not read, and a record older than its file is ignored."""
    path = Path(path)
    if path.is_dir():
        return directory_licences(path)
    beside = record_of(path)
    if not (path.is_file() and beside.is_file()) or \
            beside.stat().st_mtime_ns < path.stat().st_mtime_ns:
        return []
    return licence_parts(str(read_record(path).get("licence", "")))


def check_licences(origins: Mapping[str, Iterable[str]]) -> None:
    """Raise an error if no work made from the inputs can satisfy all their licences.

    Args:
        origins: licences by the name of the file or directory that has them.

    Raises:
        DataError: names two licences, their files and the fix.
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
    """Raise an error for a licence conflict, or warn if conflicts are allowed.

    Raises:
        DataError: contains the message.
    """
    if not is_allowed():
        raise DataError(message)
    warnings.warn(BmtoolsWarning(message), stacklevel=3)


def is_allowed() -> bool:
    """Return whether licence conflicts only cause warnings."""
    return os.environ.get(SWITCH, "0") not in ("", "0")


def warn_of_no_derivatives(origins: Mapping[str, Iterable[str]]) -> None:
    """Warn if an input of a model may not be shared in changed form."""
    for origin, licences in origins.items():
        for name in dict.fromkeys(part for one in licences for part in licence_parts(one)):
            if NO_DERIVATIVES in obligations(name):
                warnings.warn(BmtoolsWarning(
                    f"{origin} has {name}, which allows no changed versions to be shared; it is "
                    "disputed whether a model is a changed version of its texts"), stacklevel=2)


def translation_fault(licence: str, engine: str) -> str:
    """Return why a text may not be translated by an engine; empty if no reason is known.

    Args:
        licence: licence of the text; empty if it is unknown.
        engine: licence of the engine's model.
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
    """Return the conditions of an input's licence that its output's licence omits, as a message.

    declared: licence of the output.
    licence: licence of the input.
    setting: setting that declares the output's licence.
    """
    lacking = sorted(set().union(*missing_from(declared, [licence]).values()))
    return (lacking and (f"found {licence}, and {setting} {declared} leaves out its conditions: "
                        f"{', '.join(lacking)}; name a licence with them, or set {SWITCH}=1 "
                        "to go on")) or ""
