"""Update files of PubMed: which citations are the newest ones that no file deletes.

NLM's rules: the update files of a year follow its baseline in the order of their numbers, and what
a later file holds replaces what came before, whether or not DateRevised has changed (Data
Maintenance Overview). PMID and version together name a citation, of which the newest version counts
(Technical Bulletin 384, 2012). DeleteCitation takes citations out.

Here a citation or a deletion is one number: PMID, version, and whether it is a deletion.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from bmtools.errors import DataError, RecordError, setting
from bmtools.io.parallel import map_parallel
from bmtools.io.sources import STDIN, open_bytes, source_name
from bmtools.status import counted

_FILE_NAME = re.compile(r"(?:medline|pubmed)(\d\d)n(\d{4,})\.xml")
_TAG = re.compile(rb"<(?:(MedlineCitation|NCBIArticle|BookDocument)(?=[\s>])"
                  rb"|(/?)(Delete)(?:Citation|Document)(?=[\s>])"
                  rb"|PMID(?:\s+Version\s*=\s*[\"']([^\"'<>]*)[\"'])?\s*>([^<]*)<)")
_MOST_TAG_BYTES = 200
_CHUNK = 1 << 20  # bytes
_MOST_DIGITS, _MOST_VERSION_DIGITS = 8, 3
_VERSION_BITS = 10
_ALL_VERSIONS = 0  # where a deletion names none


def in_order(names: Sequence[str]) -> list[str]:
    """Sort files by year and number where all are named as NLM names them; else leave them."""
    found = [_FILE_NAME.match(PurePath(name).name) for name in names]
    numbers = [(int(match[1]), int(match[2])) for match in found if match]
    if len(numbers) < len(names):
        return list(names)
    return [name for _, name in sorted(zip(numbers, names, strict=True), key=lambda pair: pair[0])]


def citation_number(pmid: str | bytes, version: str | bytes | None,
                    is_deletion: bool = False) -> int | None:
    """Encode a citation or a deletion; None where PMID or version is no number of usual length."""
    version = version or str(_ALL_VERSIONS if is_deletion else 1)
    if not (pmid.isascii() and pmid.isdigit() and len(pmid) <= _MOST_DIGITS
            and version.isascii() and version.isdigit() and len(version) <= _MOST_VERSION_DIGITS):
        return None
    if not is_deletion and int(version) == _ALL_VERSIONS:
        return None
    return (int(pmid) << _VERSION_BITS | int(version)) << 1 | is_deletion


@dataclass(frozen=True)
class NewestInFile:
    """The newest citations of one file among several; small, for other processes.

    Args:
        name: of the file.
        replaced: places of the citations that others replace or delete, among citations and
            deletions, in order.
        checksum: of all citations and deletions of the file.
        newest_versions: by PMID, over all files, where it is not 1.
    """

    name: str
    replaced: array[int]
    checksum: int
    newest_versions: dict[int, int]

    def chooser(self) -> NewestChooser:
        """Return a choice among the citations of the file."""
        return NewestChooser(self)


def find_newest(names: Sequence[str], jobs: int = 1) -> list[NewestInFile]:
    """Find the newest version of each PMID that no later file deletes.

    Files are searched for PMIDs alone, from the last one to the first, with a bitmap of those seen:
    12.5 megabytes, and four bytes for each citation that is replaced.

    Args:
        names: files in the order in which they apply.
        jobs: processes that search; 0 for one a core.

    Raises:
        DataError: one is stdin, which cannot be read twice.
    """
    if STDIN in names:
        raise DataError(f"{source_name(STDIN)}: {setting('updates')} reads its input twice; "
                        "name files")
    seen = _Seen()
    newest = []
    backwards = names[::-1]
    found = map_parallel(backwards, _searcher, jobs, f"use fewer {setting('jobs')}")
    for name, numbers in zip(backwards, counted(found, "looking for updates", len(names), "files"),
                             strict=True):
        newest.append(NewestInFile(name, seen.replaced(numbers), zlib.crc32(numbers),
                                   seen.newest_versions))
    return newest[::-1]


class _Seen:
    """Citations and deletions seen so far, from the last one backwards."""

    def __init__(self) -> None:
        self.newest_versions: dict[int, int] = {}
        self._first_versions = bytearray((10**_MOST_DIGITS >> 3) + 1)  # a bit for each PMID
        self._others: set[tuple[int, int]] = set()

    def replaced(self, numbers: array[int]) -> array[int]:
        """Pass a file, and return the places of citations that were seen."""
        places = array("I")
        for place in range(len(numbers) - 1, -1, -1):
            pmid, version = divmod(numbers[place] >> 1, 1 << _VERSION_BITS)
            is_deletion = numbers[place] & 1
            if not is_deletion and self._holds(pmid, version):
                places.append(place)
                continue
            self._add(pmid, version)
            if not is_deletion and version > self.newest_versions.get(pmid, 1):
                self.newest_versions[pmid] = version
        return places[::-1]

    def _holds(self, pmid: int, version: int) -> bool:
        if version == 1:
            return bool(self._first_versions[pmid >> 3] >> (pmid & 7) & 1)
        return (pmid, version) in self._others or (pmid, _ALL_VERSIONS) in self._others

    def _add(self, pmid: int, version: int) -> None:
        if version in (1, _ALL_VERSIONS):
            self._first_versions[pmid >> 3] |= 1 << (pmid & 7)
        if version != 1:
            self._others.add((pmid, version))


def _searcher() -> Callable[[str], array[int]]:
    return _search


def _search(name: str) -> array[int]:
    return array("Q", _numbers(name))


def _numbers(name: str) -> Iterator[int]:
    """Find the citations and deletions of a file by their tags, at twice the speed of a parser."""
    is_deleting = expects_pmid = False
    for match in _tags(name):
        citation, closing, deletion, version, pmid = match.groups()
        if citation:
            expects_pmid = True
        elif deletion:
            is_deleting = not closing
        elif is_deleting or expects_pmid:
            expects_pmid = False
            number = citation_number(pmid.strip(), version, is_deleting)
            if number is not None:
                yield number


def _tags(name: str) -> Iterator[re.Match[bytes]]:
    rest, is_more = b"", True
    with open_bytes(name) as stream:
        while is_more:
            chunk = stream.read(_CHUNK)
            is_more = bool(chunk)
            content = rest + chunk
            end = done = max(0, len(content) - _MOST_TAG_BYTES * is_more)
            for match in _TAG.finditer(content):
                if match.start() >= end:
                    break
                yield match
                done = max(end, match.end())
            rest = content[done:]


class NewestChooser:
    """Choice among the citations of a file, which are passed in their order.

    Args:
        newest: of the file.
    """

    def __init__(self, newest: NewestInFile) -> None:
        self._newest = newest
        self._numbers = array("Q")
        self._replaced = iter(newest.replaced)
        self._next = next(self._replaced, None)

    def takes(self, pmid: str, version: str, place: str) -> bool:
        """Pass the next citation, and tell whether it is a newest one.

        Raises:
            RecordError: PMID or version are no numbers.
        """
        number = citation_number(pmid, version)
        if number is None:
            raise RecordError(place, f"found the PMID {pmid!r}, version {version!r}, expected "
                                     "numbers of at most 8 and 3 digits")
        return self._passes(number)

    def delete(self, pmid: str, version: str | None) -> None:
        """Pass the next deletion."""
        number = citation_number(pmid, version, is_deletion=True)
        if number is not None:
            self._passes(number)

    def _passes(self, number: int) -> bool:
        place = len(self._numbers)
        self._numbers.append(number)
        if place == self._next:
            self._next = next(self._replaced, None)
            return False
        pmid, version = divmod(number >> 1, 1 << _VERSION_BITS)
        return version >= self._newest.newest_versions.get(pmid, 1)

    def finish(self) -> None:
        """Compare what was passed with what was found.

        Raises:
            DataError: they differ, so that no choice is certain.
        """
        if zlib.crc32(self._numbers) != self._newest.checksum:
            raise DataError(f"{source_name(self._newest.name)}: found other PMIDs than in a first "
                            "pass, expected the same: the file was changed meanwhile, is not in "
                            "UTF-8, or has citations without PMID or within comments; "
                            f"without {setting('updates')} it can be read")
