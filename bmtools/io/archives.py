"""Files of a corpus, in folders and in zip and tar archives, which are streamed, never unpacked."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from bmtools.errors import DataError
from bmtools.io.folders import archive_of, is_hidden, member_ending, naming_damage, path_in
from bmtools.io.record_size import most_bytes
from bmtools.io.sources import STDIN, MemberName, open_bytes, source_name

_BLOCK = tarfile.BLOCKSIZE
_MOST_HEADER_BYTES = 1 << 20  # of extended headers, which tarfile reads whole
_MOST_RATIO = 200  # of a file to its packed size; that of XML is seldom above 20
_EXTENDED = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
             tarfile.GNUTYPE_LONGLINK)


def corpus_files(name: str, *endings: str, counts: Counter[str],
                 folder: str = "") -> Iterator[str]:
    """Yield the names of the files that a name leads to, in bounded memory.

    What is in an archive can be read as long as the next name is not asked for. Nothing is
    written: paths that lead outside, links and devices in archives are passed over and counted.

    Args:
        name: a file, a folder, a zip or tar archive, which gzip or zstd may have packed, a folder
            in a zip archive, or `-` for stdin, where a tar archive may come.
        endings: of the files that are taken from folders and archives, as `.xml`; those of others
            are counted. All are taken where none is given.
        counts: counts what is passed over, by reason.
        folder: in which the file was found, if by `folder_files`.

    Raises:
        DataError: a damaged archive, or one that unpacks to far more than texts do.
    """
    if isinstance(name, MemberName):
        yield name
        return
    if folder:
        yield from _wanted(_readable([name], folder, counts), endings, counts)
        return
    is_document = bool(endings) and member_ending(name).lower() in endings  # an EPUB is a zip, too
    archive = None if name == STDIN or is_document else archive_of(name)
    if archive is not None:
        found = _zip_files(archive, path_in(archive, name), counts)
    elif name != STDIN and Path(name).is_dir():
        found = _readable(folder_files(name), name, counts)
    else:
        yield from _file_or_tar(name, endings, counts)
        return
    yield from _wanted(found, endings, counts)


def is_tar(head: bytes) -> bool:
    """Tell whether content begins with the header of a tar archive, by its checksum."""
    try:
        tarfile.TarInfo.frombuf(head[:_BLOCK], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def _wanted(names: Iterator[str], endings: tuple[str, ...],
            counts: Counter[str]) -> Iterator[str]:
    for name in names:
        if not endings or member_ending(name).lower() in endings:
            yield name
        else:
            counts[f"files that do not end in {' or '.join(endings)} passed over"] += 1


def folder_files(folder: str) -> Iterator[str]:
    """Yield the names of all that is in a folder but folders, in order."""
    for parent, folders, files in os.walk(folder):
        folders.sort()
        yield from (str(Path(parent, file)) for file in sorted(files))


def _readable(names: Iterable[str], folder: str, counts: Counter[str]) -> Iterator[str]:
    """Yield the files of a folder that are neither hidden nor links to nothing, nor devices."""
    for name in names:
        if is_hidden(Path(name).relative_to(folder)):
            counts["hidden files passed over"] += 1
        elif not Path(name).is_file():
            counts["links and devices passed over"] += 1
        else:
            yield name


def _zip_files(archive: Path, folder: str, counts: Counter[str]) -> Iterator[str]:
    with naming_damage(archive), zipfile.ZipFile(archive) as opened:
        members = sorted(opened.infolist(), key=lambda member: member.filename)
        for member in members:
            path = PurePosixPath(member.filename)
            if member.is_dir() or (folder and not path.is_relative_to(folder)):
                continue
            if _passes(path, is_file=member.external_attr >> 28 in (0, 8), counts=counts):
                yield MemberName(f"{archive}/{member.filename}",
                                 partial(_open_zipped, opened, member))


def _open_zipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> BinaryIO:
    place = f"{archive.filename}/{member.filename}"
    if member.file_size > max(most_bytes(), _MOST_RATIO * member.compress_size):
        raise DataError(f"{place}: found a file that unpacks to {member.file_size} bytes, more "
                        f"than {_MOST_RATIO} times what it takes, expected text; unpack it if "
                        "you trust it")
    with naming_damage(place):
        return io.BufferedReader(_Member(archive.open(member), place))


def _passes(path: PurePosixPath, is_file: bool, counts: Counter[str]) -> bool:
    """Tell whether a member of an archive is a file to read, and count it where it is not."""
    if path.is_absolute() or ".." in path.parts:
        counts["files with a path outside their archive passed over"] += 1
    elif not is_file:
        counts["links and devices passed over"] += 1
    elif is_hidden(path):
        counts["hidden files passed over"] += 1
    else:
        return True
    return False


def _file_or_tar(name: str, endings: tuple[str, ...], counts: Counter[str]) -> Iterator[str]:
    """Yield the files of a tar archive, or a name that leads to none."""
    with open_bytes(name) as stream:
        archived = is_tar(stream.peek(_BLOCK))  # type: ignore[attr-defined]
        if archived:
            yield from _wanted(_tar_files(stream, source_name(name), counts), endings, counts)
        elif name == STDIN:
            yield MemberName(STDIN, lambda: stream)
    if not archived and name != STDIN:
        yield name


def _tar_files(stream: BinaryIO, name: str, counts: Counter[str]) -> Iterator[str]:
    with naming_damage(name), _Tar.open(fileobj=stream, mode="r|") as opened:
        for member in iter(opened.next, None):
            opened.members.clear()  # type: ignore[attr-defined] # it grows with the archive
            path = PurePosixPath(member.name)
            if not member.isdir() and _passes(path, member.isreg(), counts):
                place = f"{name}/{path}"
                yield MemberName(place, partial(_open_tarred, opened, member, place))


def _open_tarred(archive: tarfile.TarFile, member: tarfile.TarInfo, place: str) -> BinaryIO:
    content = archive.extractfile(member)
    assert content is not None
    return io.BufferedReader(_Member(content, place))


class _Member(io.RawIOBase):
    """Stream of a file in an archive, whose faults name it."""

    def __init__(self, stream: Any, place: str) -> None:
        self._stream = stream
        self._place = place

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        with naming_damage(self._place):
            content = self._stream.read(len(buffer))
        buffer[:len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


class _Header(tarfile.TarInfo):
    """Header of a tar archive. Where tarfile would take a damaged one for the end, it raises."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        """Parse a header.

        Raises:
            tarfile.HeaderError: it is none, or stands for names of more than a megabyte.
        """
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED and found.size > _MOST_HEADER_BYTES:
            raise tarfile.HeaderError("header of more than a megabyte")
        if found.type == tarfile.GNUTYPE_SPARSE:  # whose list of holes has no limit
            raise tarfile.HeaderError("sparse file")
        return found

    @classmethod
    def fromtarfile(cls, archive: Any) -> _Header:
        """Read the next header.

        Raises:
            tarfile.ReadError: the archive is damaged, or ends without its mark.
        """
        try:
            found: _Header = super().fromtarfile(archive)
            return found
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            archive.has_ended = True
            raise
        except tarfile.EmptyHeaderError as error:  # type: ignore[attr-defined]
            if not archive.has_ended:
                raise tarfile.ReadError("it is cut off") from error
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error


class _Tar(tarfile.TarFile):
    """Tar archive, or several that were joined to one file."""

    tarinfo = _Header
    ignore_zeros = True
    has_ended = False
