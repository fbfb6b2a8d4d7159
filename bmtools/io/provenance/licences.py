"""Licences of works made from several inputs: their joint conditions and their conflicts.

The rules are cautious: the conditions of texts are assumed to apply to a model trained on them, as
they apply to translations. It is disputed whether weights are an adaptation of texts, and
exceptions such as the one for text and data mining may allow more than a licence. This is not legal
advice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from bmtools.io.provenance.licence_names import COPYLEFT, FREE, NOTICE, licence_parts

UNKNOWN = "unknown"
"""Replaces the licence of inputs that state none."""
ATTRIBUTION, SHARE_ALIKE, NON_COMMERCIAL = "attribution", "share-alike", "non-commercial"
NO_DERIVATIVES, RESEARCH, USES, TERMS = (
    "no-derivatives", "research-only", "limited-uses", "own-terms")
_ELEMENTS = {"BY": ATTRIBUTION, "SA": SHARE_ALIKE, "NC": NON_COMMERCIAL, "ND": NO_DERIVATIVES}
_STATED = ((NON_COMMERCIAL, re.compile(r"\bnon[\s-]?commercial|\bnc\b", re.IGNORECASE)),
           (RESEARCH, re.compile(r"\b(research|academic|physionet|data use agreement|dua)\b",
                                 re.IGNORECASE)),
           (USES, re.compile(r"rail\b|\bgemma\b|\bllama", re.IGNORECASE)))
_VERSION = re.compile(r"-\d.*")
_CC_VERSIONS = ("1.0", "2.0", "2.1", "2.5", "3.0", "4.0")
_GNU_3 = {"GPL-3.0", "AGPL-3.0"}
# Licences allowed for adaptations of a work; section 13 of GPL-3.0 also permits AGPL-3.0.
_ADAPTED: dict[str, set[str]] = {
    "AGPL-3.0": {"AGPL-3.0"}, "GPL-3.0": _GNU_3, "GPL-2.0": {"GPL-2.0"},
    "GPL-2.0-or-later": {"GPL-2.0", *_GNU_3}, "GPL": {"GPL-2.0", *_GNU_3},
    "LGPL-3.0": {"LGPL-3.0", *_GNU_3}, "LGPL-2.1": {"LGPL-2.1", "GPL-2.0", *_GNU_3},
    "LGPL-2.1-or-later": {"LGPL-2.1", "LGPL-3.0", "GPL-2.0", *_GNU_3},
    "LGPL": {"LGPL-2.1", "LGPL-3.0", "GPL-2.0", *_GNU_3},
    "MPL-2.0": {"MPL-2.0", "LGPL-2.1", "LGPL-3.0", "GPL-2.0", *_GNU_3},
    # Appendix of the EUPL.
    "EUPL-1.1": {"EUPL-1.1", "EUPL-1.2", "GPL-2.0", "OSL-2.1", "OSL-3.0", "CPL-1.0", "EPL-1.0"},
    "EUPL-1.2": {"EUPL-1.2", "GPL-2.0", *_GNU_3, "OSL-2.1", "OSL-3.0", "EPL-1.0",
                 "CC-BY-SA-3.0", "MPL-2.0", "LGPL-2.1", "LGPL-3.0"}}
_RESERVED = re.compile(r"\bproprietary\b|\ball rights reserved\b", re.IGNORECASE)
_NOT_GNU = re.compile(r"Apache-1|BSD-4-Clause")  # require notices in advertising
for _sharing in ("CC-BY-SA", "CC-BY-NC-SA"):  # from 2.0 on, under the same or a later version
    _ADAPTED[_sharing] = {f"{_sharing}-{one}" for one in _CC_VERSIONS}
    for _one in _ADAPTED[_sharing]:
        _ADAPTED[_one] = {later for later in _ADAPTED[_sharing]
                          if later >= _one and not _one.endswith("1.0")} | {_one}
_ADAPTED["CC-BY-SA-4.0"] |= _GNU_3
_ADAPTED["CC-BY-SA"] |= _GNU_3
_KEY = re.compile(rb'"licence"\s*:\s*("(?:[^"\\]|\\.)*")')
_WHY = {NON_COMMERCIAL: "is for non-commercial use only",
        NO_DERIVATIVES: "forbids to share changed versions",
        RESEARCH: "is for research only", USES: "limits what it may be used for"}


@dataclass(frozen=True)
class Conflict:
    """Two licences whose conditions cannot both be met in one shared work.

    Args:
        first: name of the first licence.
        second: name of the second licence.
        reason: the reason, as a sentence without a full stop.
    """

    first: str
    second: str
    reason: str


def obligations(licence: str) -> frozenset[str]:
    """Return the classes of conditions in one or more licences; empty for a free licence.

    A licence without a known name is `own-terms`; an empty string is `unknown`.
    """
    return frozenset().union(*map(_obligations, licence_parts(licence) or [UNKNOWN]))


def _obligations(name: str) -> frozenset[str]:
    family = _VERSION.sub("", name)
    if family in FREE:
        return frozenset()
    if family.startswith("CC-BY"):
        return frozenset(_ELEMENTS[part] for part in family.split("-")[1:])
    if family in NOTICE | COPYLEFT:
        return frozenset({ATTRIBUTION, *({SHARE_ALIKE} if family in COPYLEFT else ())})
    if name == UNKNOWN:
        return frozenset({UNKNOWN})
    return frozenset({TERMS, *(kind for kind, words in _STATED if words.search(name))})


@lru_cache(maxsize=256)
def combine(*licences: str) -> str:
    """Return the licence of a work to which all these licences apply; empty if all are unknown.

    Public domain is dropped next to other licences. A Creative Commons licence is dropped next to
    another one of the same version with all its conditions. All other licences, including
    `unknown`, are joined by AND.
    """
    names = list(dict.fromkeys(part for licence in licences for part in licence_parts(licence)))
    if bound := [name for name in names if obligations(name)]:
        names = [name for name in bound if not any(_covers(other, name) for other in bound)]
    return "" if names == [UNKNOWN] else " AND ".join(names)


def _covers(licence: str, other: str) -> bool:
    """Return whether meeting one Creative Commons licence always meets another one."""
    mine, others = obligations(licence), obligations(other)
    return (licence.startswith("CC-BY") and other.startswith("CC-BY")
            and bool(_VERSION.search(licence)) and mine > others and SHARE_ALIKE not in others
            and licence.rpartition("-")[2] == other.rpartition("-")[2])


def conflicts(licences: Iterable[str]) -> list[Conflict]:
    """Find the pairs of licences that cannot both be met in one work, such as a model.

    One licence of each pair is share-alike: it requires the work to be shared under itself or a
    licence that it names, and the other licence forbids that. Licences with unknown terms cause no
    conflict.
    """
    names = dict.fromkeys(part for licence in licences for part in licence_parts(licence))
    return [Conflict(*pair, _reason(*pair)) for pair in combinations(names, 2) if not _agree(*pair)]


def _agree(first: str, second: str) -> bool:
    """Return whether a work made from both inputs may have some licence."""
    if SHARE_ALIKE not in obligations(first):
        first, second = second, first
    if SHARE_ALIKE not in obligations(first):
        return True
    if SHARE_ALIKE in obligations(second):
        return bool(_adapted(first) & _adapted(second))
    return any(_admits(second, result) for result in _adapted(first))


def _adapted(name: str) -> set[str]:
    """Return the licences that an adaptation of share-alike material may have."""
    plain = name.removesuffix("-only")
    return _ADAPTED.get(plain) or _ADAPTED.get(
        plain.removesuffix("-or-later"), {plain, _VERSION.sub("", plain)})


def _admits(name: str, result: str) -> bool:
    """Return whether an adaptation of some material may have a given share-alike licence."""
    found = obligations(name)
    if found & {NO_DERIVATIVES, RESEARCH, USES} or _RESERVED.search(name):
        return False
    if name.startswith("Apache") and result in ("GPL-2.0", "LGPL-2.1"):
        return False
    if _NOT_GNU.match(name) and "GPL-" in result:
        return False
    return NON_COMMERCIAL not in found or result.startswith("CC-BY-NC-SA")


def _reason(first: str, second: str) -> str:
    """Return the reason for a conflict, from the view of the share-alike licence."""
    sharing = [name for name in (first, second) if SHARE_ALIKE in obligations(name)]
    sharing.sort(key=lambda name: len(obligations(name)))
    other = second if sharing[0] == first else first
    why = [_WHY[kind] for kind in _WHY if kind in obligations(other) - obligations(sharing[0])]
    last = why[0] if why else "asks for its own" if len(sharing) > 1 else "adds conditions"
    return (f"adaptations of {sharing[0]} material must be shared under {sharing[0]}, "
            f"and {other} {last}")


def missing_from(declared: str, licences: Iterable[str]) -> dict[str, list[str]]:
    """Find inputs with conditions that a declared licence omits.

    Args:
        declared: licence given to the output.
        licences: licences of the inputs.

    Returns:
        the omitted conditions by the input's licence. Attribution and unknown terms are ignored,
            because a work under another licence may still meet them.
    """
    kept = obligations(declared)
    names = dict.fromkeys(part for licence in licences for part in licence_parts(licence))
    found = {name: sorted(obligations(name) & {*_WHY, SHARE_ALIKE} - kept) for name in names}
    return {name: lacking for name, lacking in found.items() if lacking}


def licence_record(origins: Mapping[str, Iterable[str]]) -> dict[str, object]:
    """Return the keys `licences` and `licence` of a step record.

    Args:
        origins: licences by input or role, or by `text`; `unknown` for inputs without a licence.
    """
    licences = {role: list(dict.fromkeys(
        part for one in found for part in licence_parts(one) or [UNKNOWN])) or [UNKNOWN]
        for role, found in origins.items()}
    result = combine(*(name for names in licences.values() for name in names))
    return {**({"licences": licences} if licences else {}),
            **({"licence": result} if result else {})}


class WrittenLicences:
    """Licences of the records written to a file, for the file's step record."""

    def __init__(self) -> None:
        self._found: set[bytes] = set()
        self._stated = self._lines = 0

    def note(self, lines: bytes) -> None:
        """Collect the licences in lines of records."""
        self._lines += lines.count(b"\n")
        if b'"licence"' in lines:
            found = _KEY.findall(lines)
            self._stated += len(found)
            self._found.update(found)

    def keys(self) -> dict[str, object]:
        """Return the licence keys of a step record; empty if no lines were written."""
        names = [json.loads(name) for name in sorted(self._found)]
        unstated = [UNKNOWN] if self._stated < self._lines else []
        return licence_record({"text": [*names, *unstated]}) if self._lines else {}
